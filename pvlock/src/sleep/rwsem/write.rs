//! Writers that find the lock taken.

use super::spin::Owner;
use super::{HANDOFF, HANDOFF_NS, LOCKED, PROMISED, RawRwSem, WAITERS, WRITER};
use crate::atomic::{Atomic, Watch};
use crate::sleep::list::{NOBODY, sleep, waiter};
use crate::sleep::{ASLEEP, cpu_of, me};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, TracedRw};
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

impl<P: Platform, W: RawLock> RawRwSem<P, W> {
    /// `None` only if `killable`, and the task was killed while it waited.
    #[cold]
    #[inline(never)]
    pub(super) fn write_slow(&self, killable: bool) -> Option<Held> {
        P::count(LockEvent::Contended, 1);
        if self.spin_in_turn() {
            return Some(self.held(How::Stolen));
        }
        self.wait.lock();
        let me = me::<P>();
        let before = self.list.push(0);
        let mine = waiter::<P>(me);
        mine.since.store(P::now() + P::ticks(HANDOFF_NS), Relaxed);
        // Of a reader before us a trace does not know: it reports nothing.
        let queued = TraceEvent::QueuedBehind(cpu_of::<P>(self.writer_or_nobody(before)));
        P::trace(self, queued);
        if before == NOBODY {
            self.count.fetch_or(WAITERS, Relaxed);
        } else {
            // Readers before us may be able to get in.
            let wakes = self.wake_unless_written(self.count.load(Relaxed));
            self.wait.unlock();
            wakes.run::<P, _>(self);
            self.wait.lock();
        }

        while !self.try_write_from_list(me) {
            mine.granted.store(ASLEEP, Relaxed);
            let promised = mine.state.load(Relaxed) & PROMISED != 0;
            self.wait.unlock();
            if killable && P::killed() && self.leave() {
                P::count(LockEvent::RwsemWlockFail, 1);
                return None;
            }
            // The lock is ours as soon as it is free: not worth going to sleep for, if the owner runs.
            if !promised || self.spin_on_owner() != Owner::Nobody {
                sleep::<P, _>(self, LockEvent::RwsemSleepWriter, true);
                if self.list.first() == me {
                    P::trace(self, TraceEvent::Head);
                }
            }
            self.wait.lock();
        }
        let held = self.held(How::Queue);
        self.wait.unlock();
        P::count(LockEvent::RwsemWlock, 1);
        Some(held)
    }

    /// Takes the lock, and leaves the list, if it is free and not promised to the first in the list. If
    /// it is taken, and we have waited for too long, has it promised. With the wait lock.
    fn try_write_from_list(&self, me: u32) -> bool {
        let first = self.list.first();
        let mut count = self.count.load(Relaxed);
        loop {
            let promised = count & HANDOFF != 0;
            if promised && first != me && self.is_promised(first) {
                return false;
            }
            let new = if count & LOCKED != 0 {
                if promised || P::now() <= waiter::<P>(me).since.load(Relaxed) {
                    return false;
                }
                count | HANDOFF
            } else if self.list.is_only(me) {
                (count | WRITER) & !(HANDOFF | WAITERS)
            } else {
                (count | WRITER) & !HANDOFF
            };
            // Acquire pairs with the Release in both unlocks.
            match self.count.compare_exchange(count, new, Acquire, Relaxed) {
                Ok(_) if new & HANDOFF != 0 => {
                    waiter::<P>(first).state.fetch_or(PROMISED, Relaxed);
                    P::count(LockEvent::RwsemWlockHandoff, 1);
                    return false;
                }
                Ok(_) => {
                    self.list.remove(me);
                    self.set_writer_owned();
                    return true;
                }
                Err(found) => count = found,
            }
        }
    }

    fn is_promised(&self, name: u32) -> bool {
        waiter::<P>(name).state.load(Relaxed) & PROMISED != 0
    }

    fn writer_or_nobody(&self, name: u32) -> u32 {
        if name != NOBODY && waiter::<P>(name).state.load(Relaxed) & super::READS != 0 {
            return NOBODY;
        }
        name
    }
}
