//! Readers that do not get in by their add alone.

use super::{
    BY_READERS, CHOSEN, GUARD, HANDOFF, HANDOFF_NS, READER, READS, RawRwSem, WAITERS, WRITER,
    readers,
};
use crate::atomic::{Atomic, Watch};
use crate::qrwlock::too_many_readers;
use crate::sleep::list::{sleep, waiter};
use crate::sleep::{GRANTED, me};
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

impl<P: Platform, W: RawLock> RawRwSem<P, W> {
    /// The add that led here made the count `count`; it is still in there. False only if `killable`,
    /// and the task was killed while it waited.
    ///
    /// # Panics
    /// If there are too many readers; this one is not counted then.
    #[cold]
    #[inline(never)]
    pub(super) fn read_slow(&self, count: u64, killable: bool) -> bool {
        if count & GUARD != 0 {
            self.count.fetch_add(READER.wrapping_neg(), Relaxed);
            too_many_readers("rwsem");
        }
        // Beside readers a reader would always get in, and a writer never.
        let among_readers =
            self.owner.load(Relaxed) & BY_READERS != 0 && readers(count) > 1 && count & WRITER == 0;
        if !among_readers && count & (WRITER | HANDOFF | GUARD) == 0 {
            // We are in, past the list.
            self.set_reader_owned(me::<P>);
            P::count(LockEvent::RwsemRlockSteal, 1);
            if readers(count) == 1 && count & WAITERS != 0 {
                // Then the other readers might as well.
                self.wake_more_readers();
            }
            return true;
        }

        P::count(LockEvent::Contended, 1);
        self.wait.lock();
        let first = self.list.is_empty();
        // Acquire pairs with the Release in write_unlock(): nobody waits and no writer is there, so we
        // are in by our add after all, and this load is what tells us.
        if first && self.count.load(Acquire) & (WRITER | HANDOFF | GUARD) == 0 {
            self.set_reader_owned(me::<P>);
            self.wait.unlock();
            P::count(LockEvent::RwsemRlockFast, 1);
            return true;
        }
        self.list.push(READS);
        let mine = waiter::<P>(me::<P>());
        mine.since.store(P::now() + P::ticks(HANDOFF_NS), Relaxed);
        // Takes the add back.
        let change = if first { WAITERS } else { 0 }.wrapping_sub(READER);
        let count = self.count.fetch_add(change, Relaxed).wrapping_add(change);
        let wakes = self.wake_unless_written(count);
        self.wait.unlock();
        wakes.run::<P, _>(self);

        // Acquire pairs with the Release in Wakes::run().
        while mine.granted.load(Acquire) != GRANTED {
            if killable && P::killed() && self.leave() {
                P::count(LockEvent::RwsemRlockFail, 1);
                return false;
            }
            sleep::<P, _>(self, LockEvent::RwsemSleepReader, false);
        }
        self.require_readers();
        P::count(LockEvent::RwsemRlock, 1);
        true
    }

    /// The executing task, which has been killed, leaves the list. False if it has been chosen to be
    /// given the lock: then it must wait for that, which is a matter of moments.
    pub(super) fn leave(&self) -> bool {
        let me = me::<P>();
        let mine = waiter::<P>(me);
        self.wait.lock();
        if mine.state.load(Relaxed) & CHOSEN != 0 {
            self.wait.unlock();
            return false;
        }
        let wakes = self.remove_waiter(me);
        self.wait.unlock();
        wakes.run::<P, _>(self);
        true
    }
}
