//! `qrwlock-2014`: the queued reader-writer spinlock as it was from 2014 to 2017, which lets writers
//! starve.
//!
//! As [`crate::qrwlock`], but for how a writer announces itself:
//!
//! | bits | field   | meaning                                             |
//! |------|---------|-----------------------------------------------------|
//! | 0-7  | writer  | 0 none, 1 a writer waits, 0xff a writer holds it     |
//! | 8-30 | readers | how many hold it, or are finding out whether they may |
//! | 31   | guard   | there are 2^23 readers: no more of them, as there      |
//!
//! States are written (readers, writer); `*` is anything.
//!
//! ```text
//! (n,0) --read--> (n+1,0)           the fast path
//! (0,0) --write--> (0,0xff)         the fast path
//! (*,w) --read--> (*+1,w) --> (*,w) a reader that finds a writer backs out, and queues
//! (n,0) --slow write--> (n,1)       the writer whose turn it is announces itself
//! (0,1) --slow write--> (0,0xff)    the readers have left: it takes its turn
//! (*,0xff) --write unlock--> (*,0)
//! ```
//!
//! Waiting and holding share a field, so **a slow writer cannot announce itself while another writer
//! holds the lock.** When that one leaves, it races with everybody who just comes, on the fast path, and
//! then, as the announcement exchanges the whole word, with readers that come or go between its load and
//! its exchange. It loses for as long as they come: the wait lock's fairness does not help it.
//!
//! # Orderings
//! As in [`crate::qrwlock`]. The announcement is Relaxed: the claim that follows acquires.

use crate::atomic::{Watch, zeroed};
use crate::event::LockEvent;
use crate::qrwlock::{describe_fields, take_turn, too_many_readers};
use crate::registry::{Describe, high, low};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, TracedRw};
use crate::word::LockWord;
use crate::{Platform, RawLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The queued reader-writer lock of 2014 over the wait lock `W`; see the [module](self) documentation.
#[repr(C)]
pub struct RawQRwLock2014<P: Platform, W> {
    word: P::LockWord,
    wait: W,
}

/// Byte lane of the writer.
const WRITER_LANE: usize = 0;
const WRITER_MASK: u32 = 0xff;
const HELD: u32 = 0xff;
const WAITING: u32 = 1;
const READER: u32 = 1 << 8;
/// Also the highest bit of the readers' number.
const GUARD: u32 = 1 << 31;
const _: () = assert!(GUARD / READER > 4 * crate::MAX_CPUS);

const fn writer(word: u32) -> u32 {
    word & WRITER_MASK
}

/// Whether a reader must queue, or give up.
const fn closed(word: u32) -> bool {
    word & (WRITER_MASK | GUARD) != 0
}

impl<P: Platform, W: RawLock> RawQRwLock2014<P, W> {
    /// Counts this reader again, which has not got in by that.
    ///
    /// # Panics
    /// If there are too many; it is not counted then.
    fn count_reader(&self) {
        // Relaxed, both: the wait behind this acquires.
        if self.word.fetch_add(READER, Relaxed) & GUARD != 0 {
            self.word.fetch_add(READER.wrapping_neg(), Relaxed);
            self.wait.unlock();
            too_many_readers("qrwlock-2014");
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
            too_many_readers("qrwlock-2014");
        }
        if P::in_interrupt() {
            P::count(LockEvent::Contended, 1);
            // Acquire pairs with the Release store in release().
            P::spin_until(&self.word, Acquire, |word| writer(word) != HELD);
            return;
        }
        // Relaxed: the wait below acquires.
        self.word.fetch_add(READER.wrapping_neg(), Relaxed);
        take_turn::<P, W>(&self.wait);
        self.count_reader();
        // Acquire pairs with the Release store in release().
        P::spin_until(&self.word, Acquire, |word| writer(word) != HELD);
        self.wait.unlock();
    }

    /// (n,0) -> (n,1), as soon as no writer holds the lock and no reader interferes.
    fn announce(&self) {
        loop {
            let seen = P::spin_until(&self.word, Relaxed, |word| writer(word) == 0);
            let announced = seen | WAITING;
            if self
                .word
                .compare_exchange(seen, announced, Relaxed, Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    /// (0,w) -> (0,0xff), with w as in `from`.
    #[inline(always)]
    fn claim(&self, from: u32) -> bool {
        // Acquire pairs with the Release in both unlocks.
        self.word
            .compare_exchange(from, HELD, Acquire, Relaxed)
            .is_ok()
    }
}

impl<P: Platform, W: RawLock> TracedRw for RawQRwLock2014<P, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        // (n,0) -> (n+1,0). Acquire pairs with the Release store in release().
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
            self.announce();
            // Relaxed: the claim is the acquisition; see `crate::qrwlock`.
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
        // (*,0xff) -> (*,0). One byte: readers may come and back out under it.
        // Release pairs with the Acquire of whoever comes next, reader or writer.
        self.word.store_u8(WRITER_LANE, 0, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != 0
    }
}

zeroed!(RawQRwLock2014[over W]: word: LockWord);

pub(crate) fn describe(
    state: u64,
    describe_wait: Describe,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let word = low(state);
    let (waiting, writer) = match writer(word) {
        WAITING => (true, 0),
        writer => (false, writer),
    };
    describe_fields(
        (word / READER, waiting, writer),
        high(state),
        describe_wait,
        f,
    )
}
