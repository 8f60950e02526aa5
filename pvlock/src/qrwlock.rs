//! `qrwlock`: the queued reader-writer spinlock, the fair one.
//!
//! A CPU that cannot get in at once takes a *wait lock* first, and waits on the word while holding it. So
//! there is one waiter on the word at a time, and the order of the others is that of the wait lock `W`:
//! a [`RawTicket`](crate::RawTicket), a [`RawQSpinLock`](crate::RawQSpinLock), or a
//! [`RawPvQSpinLock`](crate::RawPvQSpinLock), which halts them.
//!
//! | bits | field   | meaning                                                  |
//! |------|---------|----------------------------------------------------------|
//! | 0-7  | writer  | 0 none, 0xff a writer holds it                            |
//! | 8    | waiting | a writer has the wait lock, and waits for the word         |
//! | 9-30 | readers | how many hold it, or are finding out whether they may      |
//! | 31   | guard   | there are 2^22 readers: no more of them                     |
//!
//! States are written (readers, waiting, writer); `*` is anything.
//!
//! ```text
//! (n,0,0) --read--> (n+1,0,0)          the fast path, as long as no writer is there or waits
//! (0,0,0) --write--> (0,0,0xff)        the fast path
//! (*,*,w) --read--> (*+1,*,w) --> (*,*,w)       a reader that finds a writer backs out, and queues
//! (*,0,w) --slow write--> (*,1,w)      the writer whose turn it is announces itself, also to a writer
//! (0,1,0) --slow write--> (0,0,0xff)   the readers have left: it takes its turn
//! (*,w,0xff) --write unlock--> (*,w,0)
//! ```
//!
//! An announced writer sends all others to the wait lock, behind it. So it waits only for those that are
//! inside already, and the lock is as fair as its wait lock. Before 2017 a writer could not announce
//! itself to a writer: see [`crate::qrwlock_2014`].
//!
//! A reader in an interrupt ([`Platform::in_interrupt`]) waits for a writer that holds the lock, never
//! for one that waits: what it interrupted may be reading already, and that writer waiting for it.
//!
//! # Too many readers
//! Safe code can make any number of readers, by forgetting that it is one. One that finds *guard* set takes
//! its add back, and panics; a try fails. The fast path finds out by the look that it takes at the other
//! bits anyway. Those that have added and not yet looked are one for each context of each CPU, 2^16 at
//! most, so the word cannot wrap, and be taken by a writer.
//!
//! Second word: the wait lock.
//!
//! # Orderings
//! | step                        | ordering | pairs with                                          |
//! |-----------------------------|----------|-----------------------------------------------------|
//! | reader's add, when it gets in by it | Acquire | Release store in `write_unlock`               |
//! | slow reader's wait          | Acquire  | as above                                             |
//! | writer's claim, fast or slow | Acquire | as above, and Release add in `read_unlock` (adds are one release sequence, so all readers') |
//! | slow writer's wait          | Relaxed  | nothing: between it and the claim a reader in an interrupt can come and go, (0,1,0) -> (1,1,0) -> (0,1,0). Only the claim sees all that has happened. Linux had it the other way round until 2021, and readers overlapped with a writer. |
//! | announcement, backing out   | Relaxed  | nothing: whoever sees them has to wait                |

use crate::atomic::{Watch, zeroed};
use crate::event::LockEvent;
use crate::registry::{Describe, high, low};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, TracedRw};
use crate::word::LockWord;
use crate::{Platform, RawLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The queued reader-writer lock over the wait lock `W`; see the [module](self) documentation.
#[repr(C)]
pub struct RawQRwLock<P: Platform, W> {
    word: P::LockWord,
    wait: W,
}

/// Byte lane of the writer.
const WRITER_LANE: usize = 0;
const WRITER_MASK: u32 = 0xff;
const HELD: u32 = 0xff;
const WAITING_BIT: u32 = 8;
const WAITING: u32 = 1 << WAITING_BIT;
const READER: u32 = 1 << 9;
/// Also the highest bit of the readers' number.
const GUARD: u32 = 1 << 31;
const _: () = assert!(GUARD / READER > 4 * crate::MAX_CPUS);

const fn write_held(word: u32) -> bool {
    word & WRITER_MASK != 0
}

/// Whether a reader must queue, or give up.
const fn closed(word: u32) -> bool {
    word & (WRITER_MASK | WAITING | GUARD) != 0
}

/// A reader that has taken its add back says why.
#[cold]
#[inline(never)]
pub(crate) fn too_many_readers(lock: &str) -> ! {
    panic!("{lock}: too many readers; guards may have been forgotten")
}

/// Takes the wait lock of a reader-writer lock, for an acquisition that has to wait.
///
/// Counted as contended once, by the wait lock itself unless it is free.
pub(crate) fn take_turn<P: Platform, W: RawLock>(wait: &W) {
    if wait.try_lock() {
        P::count(LockEvent::Contended, 1);
    } else {
        wait.lock();
    }
}

impl<P: Platform, W: RawLock> RawQRwLock<P, W> {
    /// Counts this reader again, which has not got in by that.
    ///
    /// # Panics
    /// If there are too many; it is not counted then.
    fn count_reader(&self) {
        // Relaxed, both: the wait behind this acquires.
        if self.word.fetch_add(READER, Relaxed) & GUARD != 0 {
            self.word.fetch_add(READER.wrapping_neg(), Relaxed);
            self.wait.unlock();
            too_many_readers("qrwlock");
        }
    }

    /// Called with this reader counted, which found `seen` and has not got in by that.
    ///
    /// # Panics
    /// If there are too many.
    #[cold]
    #[inline(never)]
    fn read_slow(&self, seen: u32) {
        if seen & GUARD != 0 {
            self.word.fetch_add(READER.wrapping_neg(), Relaxed);
            too_many_readers("qrwlock");
        }
        if P::in_interrupt() {
            P::count(LockEvent::Contended, 1);
            // Acquire pairs with the Release store in release().
            P::spin_until(&self.word, Acquire, |word| !write_held(word));
            return;
        }
        // Relaxed: the wait below acquires.
        self.word.fetch_add(READER.wrapping_neg(), Relaxed);
        take_turn::<P, W>(&self.wait);
        self.count_reader();
        // Nobody can announce itself meanwhile: we have the wait lock.
        // Acquire pairs with the Release store in release().
        P::spin_until(&self.word, Acquire, |word| !write_held(word));
        self.wait.unlock();
    }

    /// (0,w,0) -> (0,0,0xff), with w as in `from`.
    #[inline(always)]
    fn claim(&self, from: u32) -> bool {
        // Acquire pairs with the Release in both unlocks.
        self.word
            .compare_exchange(from, HELD, Acquire, Relaxed)
            .is_ok()
    }
}

impl<P: Platform, W: RawLock> TracedRw for RawQRwLock<P, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        // (n,0,0) -> (n+1,0,0). Acquire pairs with the Release store in release().
        let seen = self.word.fetch_add(READER, Acquire);
        if closed(seen) {
            self.read_slow(seen);
        }
    }

    fn try_shared(&self) -> bool {
        if closed(self.word.load(Relaxed)) {
            return false;
        }
        // As in shared().
        let entered = !closed(self.word.fetch_add(READER, Acquire));
        if !entered {
            self.word.fetch_add(READER.wrapping_neg(), Relaxed);
        }
        entered
    }

    #[inline(always)]
    fn release_shared(&self) {
        // Release pairs with the Acquire of the writer that finds no reader left.
        self.word.fetch_add(READER.wrapping_neg(), Release);
    }

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        if self.claim(0) { Ok(()) } else { Err(()) }
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        take_turn::<P, W>(&self.wait);
        P::trace(self, TraceEvent::Head);
        if self.word.load(Relaxed) != 0 || !self.claim(0) {
            // (*,0,*) -> (*,1,*)
            self.word.fetch_set_bit(WAITING_BIT, Relaxed);
            // Relaxed: the claim is the acquisition; see the table.
            loop {
                P::spin_until(&self.word, Relaxed, |word| word == WAITING);
                if self.claim(WAITING) {
                    break;
                }
            }
        }
        let held = self.held(How::Queue);
        self.wait.unlock();
        held
    }

    #[inline(always)]
    fn release(&self) {
        // (*,w,0xff) -> (*,w,0). One byte: the others may change under it.
        // Release pairs with the Acquire of whoever comes next, reader or writer.
        self.word.store_u8(WRITER_LANE, 0, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != 0
    }
}

zeroed!(RawQRwLock[over W]: word: LockWord);

/// Writes what both words of a queued reader-writer lock say, given the first one's fields.
pub(crate) fn describe_fields(
    (readers, waiting, writer): (u32, bool, u32),
    wait: u32,
    describe_wait: Describe,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match writer {
        0 if readers == 0 => f.write_str("free")?,
        0 => write!(f, "read-held by {readers}")?,
        HELD if readers == 0 => f.write_str("write-held")?,
        HELD => write!(f, "write-held, {readers} readers looking in")?,
        other => write!(f, "writer byte {other:#x}")?,
    }
    if waiting {
        f.write_str(", a writer waits")?;
    }
    f.write_str("; wait lock: ")?;
    describe_wait(wait.into(), f)
}

pub(crate) fn describe(
    state: u64,
    describe_wait: Describe,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let word = low(state);
    let fields = (word / READER, word & WAITING != 0, word & WRITER_MASK);
    describe_fields(fields, high(state), describe_wait, f)
}
