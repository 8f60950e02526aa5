//! `rwsem`: the sleeping reader-writer lock with hand-over (Linux 5.3 and later).
//!
//! The first 64 bits, *count*:
//!
//! | bits | field   | meaning                                                             |
//! |------|---------|---------------------------------------------------------------------|
//! | 0    | writer  | a writer holds it                                                    |
//! | 1    | waiters | somebody is in the wait list                                         |
//! | 2    | handoff | nobody may take it past the first in the list                         |
//! | 3-7  | -       | 0                                                                    |
//! | 8-62 | readers | how many hold it, or are finding out whether they may                  |
//! | 63   | guard   | readers overflow: one that comes panics, a try fails                   |
//!
//! The next 32, *owner*, which is a hint for those who wait:
//!
//! | bits | field        | meaning                                                         |
//! |------|--------------|-----------------------------------------------------------------|
//! | 0    | readers      | readers own or owned it; the task is one of them                   |
//! | 1    | nonspinnable | it is not worth while to spin: readers stay for long               |
//! | 2-31 | task         | number of the task plus one, 0 if nobody has said so               |
//!
//! Then the [`osq`](super::osq), the [`list`](super::list), and the wait lock.
//!
//! States are written (readers, flags, writer), with the flags W (waiters) and H (handoff).
//!
//! ```text
//! (n,-,0) --read--> (n+1,-,0)               the fast path
//! (0,-,0) --write--> (0,-,1)                the fast path
//! (n,W,0) --read--> (n+1,W,0)               a reader steals past the list, if there is no other reader
//! (0,W,0) --spinning write--> (0,W,1)       so does a writer that spins
//! (*,*,*) --queue--> (*,W*,*)               under the wait lock, as all that follows
//! (*,W,*) --the first has waited for 4 ms--> (*,WH,*)
//! (0,W*,0) --write from the list--> (0,W,1), or (0,-,1) if nobody else is in it
//! (n,W*,0) --wake k readers--> (n+k,W,0), or (n+k,-,0)
//! (0,*,1) --downgrade--> (1,*,0)
//! ```
//!
//! * A reader that finds the lock closed takes it all the same if no writer has it and none is to be
//!   given it (`read`); else it queues, undoing its count.
//! * A writer spins while the owner runs, and for a bounded time while readers own it (`spin`); then
//!   queues (`write`).
//! * A release that leaves the lock free wakes the first in the list: a writer is told to try, a reader
//!   is given the lock, and so are all readers in the list, up to 256 (`wake`).
//! * A task that has waited for [`HANDOFF_NS`] sets *handoff*: then nobody steals any more, and the first in
//!   the list has it when those inside have left.
//!
//! # How long a writer waits
//! For [`HANDOFF_NS`] it may be overtaken. Woken after that as the first in the list, it sets *handoff*.
//! Those before it in the list have waited for longer, so each of them sets it as soon as it is first. So
//! what is left to wait for is one round: those inside, and those before it in the list, once each. A task
//! that is first must run to take the lock, and meanwhile the lock is nobody's: of how long that takes the
//! scheduler decides. It is why kernels let a task that has been woken run before those
//! that wait for their turn.
//!
//! # Orderings
//! | step                                   | ordering | pairs with                                |
//! |----------------------------------------|----------|-------------------------------------------|
//! | reader's add, if it gets in by it       | Acquire  | Release in `write_unlock`, `downgrade`      |
//! | slow reader's look at an empty list     | Acquire  | as above: the load *is* the acquisition. Linux 4.20 to 5.2 had none there, and readers saw stale data. |
//! | writer's claim, of any kind             | Acquire  | as above, and the Release in `read_unlock` (adds are one release sequence, so all readers') |
//! | giving to a reader: its count           | Acquire  | as the writer's claim; then               |
//! | `granted`                               | Release  | Acquire load of it in `read_slow`           |
//! | setting and clearing flags              | Relaxed  | nothing: the wait lock orders what is behind |
//! | owner                                   | Relaxed  | nothing: a hint                             |
//!
//! A releaser does not miss a waiter: both change count by read-modify-writes, and the waiter, under the
//! wait lock, decides by what its own one found, or by a look after it.

mod read;
mod spin;
mod wake;
mod write;

use super::debug::{self, Facts, Magic};
use super::list::WaitList;
use super::me;
use super::osq::Osq;
use super::within::Within;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::traced::{Held, TracedRw, TracedSem};
use crate::{Platform, RawLock, RawQSpinLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The reader-writer semaphore, with `W` as wait lock; see the [module](self) documentation.
#[repr(C)]
pub struct RawRwSem<P: Platform, W = RawQSpinLock<Within<P>>> {
    count: P::U64,
    owner: P::U32,
    osq: Osq<P>,
    list: WaitList<P>,
    wait: W,
    magic: Magic<P>,
}

/// A waiter that has waited for so long makes the others leave the lock to the list: one tick of 250 Hz.
pub const HANDOFF_NS: u64 = 4_000_000;
/// Readers woken at once.
pub const MAX_WOKEN: u64 = 256;

const WRITER: u64 = 1 << 0;
const WAITERS: u64 = 1 << 1;
const HANDOFF: u64 = 1 << 2;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
/// Readers, with the guard.
const READERS: u64 = !(READER - 1);
const GUARD: u64 = 1 << 63;
/// Somebody holds it.
const LOCKED: u64 = WRITER | READERS;
/// A reader that comes does not get in by its add alone.
const CLOSED: u64 = WRITER | WAITERS | HANDOFF | GUARD;

/// Owner word: readers own it.
const BY_READERS: u32 = 1 << 0;
/// Owner word: not worth spinning.
const NONSPINNABLE: u32 = 1 << 1;
const OWNER_SHIFT: u32 = 2;

// State of a waiter.
/// It wants to read.
const READS: u32 = 1 << 0;
/// It has been promised the lock.
const PROMISED: u32 = 1 << 1;
/// It has been taken out of the list, and is about to be given the lock.
const CHOSEN: u32 = 1 << 2;

const fn readers(count: u64) -> u64 {
    (count & !GUARD) >> READER_SHIFT
}

impl<P: Platform, W: RawLock> RawRwSem<P, W> {
    /// The owner is that reader, among others. If the word says already that readers own it, it stays:
    /// which of them it names matters to the assertions only, and a store costs more than a load.
    #[inline(always)]
    fn set_reader_owned(&self, name: impl FnOnce() -> u32) {
        let owner = self.owner.load(Relaxed);
        if debug::ON || owner & BY_READERS == 0 {
            let kept = owner & NONSPINNABLE;
            self.owner
                .store(name() << OWNER_SHIFT | BY_READERS | kept, Relaxed);
        }
    }

    #[inline(always)]
    fn set_writer_owned(&self) {
        self.owner.store(me::<P>() << OWNER_SHIFT, Relaxed);
    }

    /// With the feature `debug-rwsems`, panics unless `holds`, given count and owner.
    #[track_caller]
    #[inline(always)]
    fn require(&self, what: &str, holds: impl FnOnce(u64, u32) -> bool) {
        if debug::ON {
            let (count, owner) = (self.count.load(Relaxed), self.owner.load(Relaxed));
            let facts = Facts {
                lock: self,
                magic: &self.magic,
                count,
                owner,
                shift: OWNER_SHIFT,
                list_is_empty: self.list.is_empty(),
            };
            facts.require(holds(count, owner), what);
        }
    }

    fn require_readers(&self) {
        self.require("the owner is a reader", |count, owner| {
            owner & BY_READERS != 0 && readers(count) > 0
        });
    }

    fn require_own(&self) {
        self.require("the owner is the current task", |count, owner| {
            count & WRITER != 0 && owner & !NONSPINNABLE == me::<P>() << OWNER_SHIFT
        });
    }

    /// With debugging, the last reader does not leave its name behind.
    #[inline(always)]
    fn forget_reader(&self) {
        if !debug::ON {
            return;
        }
        let mine = me::<P>() << OWNER_SHIFT | BY_READERS;
        let owner = self.owner.load(Relaxed);
        if owner & !NONSPINNABLE == mine {
            let anonymous = owner & (BY_READERS | NONSPINNABLE);
            let _ = self
                .owner
                .compare_exchange(owner, anonymous, Relaxed, Relaxed);
        }
    }

    fn read_with(&self, killable: bool) -> bool {
        self.require("count is that of a lock", |count, _| count & GUARD == 0);
        // (n,-,0) -> (n+1,-,0). Acquire pairs with the Release in release().
        let count = self.count.fetch_add(READER, Acquire) + READER;
        if count & CLOSED == 0 {
            self.set_reader_owned(me::<P>);
            return true;
        }
        self.read_slow(count, killable)
    }
}

impl<P: Platform, W: RawLock> TracedRw for RawRwSem<P, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        self.read_with(false);
    }

    #[inline]
    fn try_shared(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & CLOSED == 0 {
            let more = count + READER;
            // Acquire pairs with the Release in release().
            match self.count.compare_exchange(count, more, Acquire, Relaxed) {
                Ok(_) => {
                    self.set_reader_owned(me::<P>);
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    #[inline(always)]
    fn release_shared(&self) {
        self.require_readers();
        self.forget_reader();
        // Release pairs with the Acquire of the writer that finds no reader left.
        let old = self.count.fetch_add(READER.wrapping_neg(), Release);
        let count = old.wrapping_sub(READER);
        self.require("count >= 0", |_, _| count & GUARD == 0);
        if count & (LOCKED | WAITERS) == WAITERS {
            self.clear_nonspinnable();
            self.wake_first();
        }
    }

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // (0,-,0) -> (0,-,1). Acquire pairs with the Release in both unlocks.
        let claimed = self.count.compare_exchange(0, WRITER, Acquire, Relaxed);
        if claimed.is_ok() {
            self.set_writer_owned();
        }
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        loop {
            // Not killable, it does not give up.
            if let Some(held) = self.write_slow(false) {
                return held;
            }
        }
    }

    #[inline(always)]
    fn release(&self) {
        self.require_own();
        self.owner.store(0, Relaxed);
        // Release pairs with the Acquire of whoever comes next, reader or writer.
        let old = self.count.fetch_add(WRITER.wrapping_neg(), Release);
        if old & WAITERS != 0 {
            self.wake_first();
        }
    }

    fn in_use(&self) -> bool {
        self.count.load(Relaxed) != 0
    }
}

impl<P: Platform, W: RawLock> TracedSem for RawRwSem<P, W> {
    fn become_reader(&self) {
        self.require_own();
        // (0,*,1) -> (1,*,0). Release pairs with the Acquire of the readers that come.
        let old = self.count.fetch_add(READER - WRITER, Release);
        self.set_reader_owned(me::<P>);
        if old & WAITERS != 0 {
            self.wake_more_readers();
        }
    }

    fn shared_killable(&self) -> bool {
        self.read_with(true)
    }

    fn slow_killable(&self, (): ()) -> Option<Held> {
        self.write_slow(true)
    }
}

zeroed!(RawRwSem[over W]: count: U64, owner: U32; osq: Osq<P>, list: WaitList<P>, magic: Magic<P>);

pub(crate) fn describe(count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (count & WRITER != 0, readers(count)) {
        (false, 0) => f.write_str("free")?,
        (false, n) => write!(f, "read-held by {n}")?,
        (true, 0) => f.write_str("write-held")?,
        (true, n) => write!(f, "write-held, {n} readers finding out")?,
    }
    for (flag, text) in [
        (WAITERS, "waiters"),
        (HANDOFF, "to be handed over"),
        (GUARD, "too many readers"),
    ] {
        if count & flag != 0 {
            write!(f, ", {text}")?;
        }
    }
    Ok(())
}
