//! Waking those in the list.
//!
//! Readers are given the lock, in two passes: first all are counted, in one add, and taken out of the
//! list; then, with the wait lock released, each is told. So none that is awake can release what has not
//! been counted. A writer is only told to try: it may be overtaken, but see *handoff*.

use super::{
    CHOSEN, GUARD, HANDOFF, LOCKED, MAX_WOKEN, PROMISED, READER, READS, RawRwSem, WAITERS, WRITER,
};
use crate::atomic::{Atomic, Watch};
use crate::sleep::list::{NOBODY, WaitList, Wakes, waiter};
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// Whom to wake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// The first, with the readers behind if it is a reader.
    Any,
    /// Readers, if the first is one.
    Readers,
    /// The same, and the caller itself holds the lock for reading.
    MoreReaders,
}

impl<P: Platform, W: RawLock> RawRwSem<P, W> {
    /// The lock has become free.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_first(&self) {
        self.wake(Whom::Any);
    }

    /// The executing task has become a reader.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_more_readers(&self) {
        self.wake(Whom::MoreReaders);
    }

    fn wake(&self, whom: Whom) {
        self.wait.lock();
        let wakes = self.choose(whom);
        self.wait.unlock();
        wakes.run::<P, _>(self);
    }

    /// Whom to wake by somebody who joins the list, and has found `count`. With the wait lock.
    pub(super) fn wake_unless_written(&self, count: u64) -> Wakes {
        if count & WRITER != 0 {
            return Wakes::NONE;
        }
        if count & LOCKED != 0 {
            return self.choose(Whom::Readers);
        }
        self.clear_nonspinnable();
        self.choose(Whom::Any)
    }

    /// Chooses whom to wake. With the wait lock.
    fn choose(&self, whom: Whom) -> Wakes {
        let first = self.list.first();
        if first == NOBODY {
            return Wakes::NONE;
        }
        if waiter::<P>(first).state.load(Relaxed) & READS != 0 {
            return self.choose_readers(whom, first);
        }
        if whom != Whom::Any {
            return Wakes::NONE;
        }
        P::count(LockEvent::RwsemWakeWriter, 1);
        Wakes::look_again::<P>(first)
    }

    fn choose_readers(&self, whom: Whom, first: u32) -> Wakes {
        if self.count.load(Relaxed) & GUARD != 0 {
            return Wakes::NONE;
        }
        let mut counted = 0;
        if whom != Whom::MoreReaders {
            // Keeps writers out while we are at it, if none is in.
            if !self.enter_for(first) {
                return Wakes::NONE;
            }
            counted = READER;
            self.set_reader_owned(|| first);
        }

        let mut wakes = Wakes::NONE;
        let mut woken = 0;
        let mut name = first;
        while name != NOBODY && woken < MAX_WOKEN {
            let it = waiter::<P>(name);
            let after = WaitList::<P>::after(name);
            let state = it.state.load(Relaxed);
            if state & READS != 0 {
                self.list.remove(name);
                it.state.store(state | CHOSEN, Relaxed);
                wakes.grant::<P>(name);
                woken += 1;
            }
            name = after;
        }
        P::count(LockEvent::RwsemWakeReader, woken);

        // Flags change under the wait lock only, so they are as we find them.
        let flags = self.count.load(Relaxed);
        let mut change = (woken * READER).wrapping_sub(counted);
        if self.list.is_empty() {
            change = change.wrapping_sub(flags & WAITERS);
        }
        // The first one has been served.
        change = change.wrapping_sub(flags & HANDOFF);
        self.count.fetch_add(change, Relaxed);
        wakes
    }

    /// (n,f,0) -> (n+1,f,0) on behalf of a reader in the list. If a writer has it, that reader, if it has
    /// waited for too long, asks to be given it next.
    fn enter_for(&self, first: u32) -> bool {
        // Acquire pairs with the Release in write_unlock(); passed on by Wakes::run().
        let count = self.count.fetch_add(READER, Acquire);
        if count & WRITER == 0 {
            return true;
        }
        let mut change = READER.wrapping_neg();
        let it = waiter::<P>(first);
        if P::now() > it.since.load(Relaxed) {
            if count & HANDOFF == 0 {
                change = change.wrapping_add(HANDOFF);
                P::count(LockEvent::RwsemRlockHandoff, 1);
            }
            it.state.fetch_or(PROMISED, Relaxed);
        }
        self.count.fetch_add(change, Relaxed);
        false
    }

    /// Takes that one, which gives up, out of the list. With the wait lock.
    pub(super) fn remove_waiter(&self, name: u32) -> Wakes {
        let was_first = self.list.first() == name;
        let promised = waiter::<P>(name).state.load(Relaxed) & PROMISED != 0;
        self.list.remove(name);
        let mut flags = if promised { HANDOFF } else { 0 };
        if self.list.is_empty() {
            flags = HANDOFF | WAITERS;
        }
        let count = self.count.fetch_and(!flags, Relaxed);
        // It may have been woken to take the lock: pass that on.
        if was_first {
            return self.wake_unless_written(count);
        }
        Wakes::NONE
    }
}
