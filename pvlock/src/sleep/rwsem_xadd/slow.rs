//! Tasks that do not get in at once, and how they are woken.

use super::{ACTIVE, MAX_READERS, READER, RwSemXadd, Variant, WAITING, WRITER, below};
use crate::atomic::{Atomic, Watch};
use crate::qrwlock::too_many_readers;
use crate::sleep::list::{NOBODY, WaitList, Wakes, sleep, waiter};
use crate::sleep::{ASLEEP, GRANTED, cpu_of, me};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, TracedRw};
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// State of a waiter: it wants to read.
const READS: u32 = 1;

impl<P: Platform, V: Variant, W: RawLock> RwSemXadd<P, V, W> {
    /// A reader that is in the count, which was `old` before, but may not.
    ///
    /// # Panics
    /// If there are too many; it is not counted then.
    #[cold]
    #[inline(never)]
    pub(super) fn read_slow(&self, old: u64) {
        if !below(old, MAX_READERS) {
            let old = self.count.fetch_add(READER.wrapping_neg(), Relaxed);
            self.wake_if_left(old.wrapping_sub(READER));
            too_many_readers("rwsem-xadd");
        }
        P::count(LockEvent::Contended, 1);
        let mut change = READER.wrapping_neg();
        if V::RSPIN && self.is_promising() {
            let old = self.count.fetch_add(change, Relaxed);
            self.wake_if_left(old.wrapping_add(change));
            if self.spin_in_turn(Self::try_read_past_list) {
                self.set_reader_owned(me::<P>);
                P::count(LockEvent::RwsemOptRlock, 1);
                return;
            }
            change = 0;
        }

        self.wait.lock();
        let first = self.list.is_empty();
        if first {
            change = change.wrapping_add(WAITING);
        }
        self.list.push(READS);
        let mine = waiter::<P>(me::<P>());
        let count = self.count.fetch_add(change, Relaxed).wrapping_add(change);
        // Nobody is in; or readers are, and nobody waits before us.
        let wakes = if count == WAITING || (first && below(WAITING, count)) {
            self.choose(true)
        } else {
            Wakes::NONE
        };
        self.unlock_and_wake(wakes);

        // Acquire pairs with the Release in Wakes::run().
        while mine.granted.load(Acquire) != GRANTED {
            sleep::<P, _>(self, LockEvent::RwsemSleepReader, false);
        }
        P::count(LockEvent::RwsemRlock, 1);
    }

    /// A writer that is in the count, but may not.
    pub(super) fn write_slow(&self) -> Held {
        P::count(LockEvent::Contended, 1);
        self.count.fetch_add(WRITER.wrapping_neg(), Relaxed);
        if self.spin_in_turn(Self::try_write_past_list) {
            self.set_writer_owned();
            let held = self.held(How::Stolen);
            P::count(LockEvent::RwsemOptLock, 1);
            return held;
        }
        if Self::LEAVES_WAKE_UPS {
            // Our leaving the spinners before the look at the count: pairs with the fence in is_spun_on().
            P::fence(SeqCst);
        }

        self.wait.lock();
        let me = me::<P>();
        let before = self.list.push(0);
        // Of a reader before us a trace does not know: it reports nothing.
        let reads = before != NOBODY && waiter::<P>(before).state.load(Relaxed) == READS;
        let behind = if reads { None } else { cpu_of::<P>(before) };
        P::trace(self, TraceEvent::QueuedBehind(behind));
        if before == NOBODY {
            self.count.fetch_add(WAITING, Relaxed);
        } else if below(WAITING, self.count.load(Relaxed)) {
            // Readers are in: those before us may join them.
            let wakes = self.choose(false);
            self.unlock_and_wake(wakes);
            self.wait.lock();
        }
        self.take_from_list(me);
        self.set_writer_owned();
        let held = self.held(How::Queue);
        self.wait.unlock();
        P::count(LockEvent::RwsemWlock, 1);
        held
    }

    /// Waits until nobody is in, and takes the lock and `me` out of the list. The wait lock is held
    /// before and after.
    fn take_from_list(&self, me: u32) {
        let mine = waiter::<P>(me);
        loop {
            let others = if self.list.is_only(me) { 0 } else { WAITING };
            // W -> W+1, or W+W+1
            if self.claim(WAITING, WRITER.wrapping_add(others)).is_ok() {
                self.list.remove(me);
                return;
            }
            mine.granted.store(ASLEEP, Relaxed);
            self.wait.unlock();
            sleep::<P, _>(self, LockEvent::RwsemSleepWriter, true);
            let first = self.list.first() == me;
            if first {
                P::trace(self, TraceEvent::Head);
            }
            let taken = V::RESPIN && first && self.spin_in_turn(Self::try_write_past_list);
            self.wait.lock();
            if taken {
                self.list.remove(me);
                if self.list.is_empty() {
                    // W+W+1 -> W+1
                    self.count.fetch_add(WAITING.wrapping_neg(), Relaxed);
                }
                return;
            }
        }
    }

    /// W, n -> +1 (0 <= n < most), in a moment without a writer.
    fn try_read_past_list(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count == WAITING || count < MAX_READERS {
            match self.claim(count, count.wrapping_add(READER)) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// 0 -> W+1, W -> W+W+1
    fn try_write_past_list(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count == WAITING || count == 0 {
            match self.claim(count, count.wrapping_add(WRITER)) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Wakes the first in the list if a reader has left `count`, and nobody is in.
    #[inline(always)]
    pub(super) fn wake_if_left(&self, count: u64) {
        if below(count, READER.wrapping_neg()) && count & ACTIVE == 0 {
            self.wake_first();
        }
    }

    /// Whether a release may leave the wake-up to a writer that spins.
    const LEAVES_WAKE_UPS: bool = !V::OLD && !V::RSPIN;

    /// Whether somebody spins who has not looked at the count since we have left it.
    fn is_spun_on(&self) -> bool {
        // Our leaving the count before the look at the spinners: pairs with the fence in write_slow(), so that one
        // who has missed the former is not missed by the latter.
        P::fence(SeqCst);
        self.osq.is_locked()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake_first(&self) {
        if Self::LEAVES_WAKE_UPS && self.is_spun_on() {
            // A writer spins: it takes the lock, or it will look at the count before it sleeps; so the wake-up can be
            // left to it if that would have to wait.
            if !self.wait.try_lock() {
                return;
            }
        } else {
            self.wait.lock();
        }
        let wakes = self.choose(true);
        self.unlock_and_wake(wakes);
    }

    fn unlock_and_wake(&self, wakes: Wakes) {
        if V::OLD {
            wakes.run::<P, _>(self);
            self.wait.unlock();
        } else {
            self.wait.unlock();
            wakes.run::<P, _>(self);
        }
    }

    /// Chooses whom to wake: the first, a writer only if `any`, or the readers that are at the front.
    /// With the wait lock.
    fn choose(&self, any: bool) -> Wakes {
        let first = self.list.first();
        if first == NOBODY {
            return Wakes::NONE;
        }
        if waiter::<P>(first).state.load(Relaxed) != READS {
            if !any {
                return Wakes::NONE;
            }
            P::count(LockEvent::RwsemWakeWriter, 1);
            return Wakes::look_again::<P>(first);
        }
        // Keeps writers out while we are at it, unless one has been faster. Acquire pairs with the
        // Release in write_unlock(); passed on by Wakes::run().
        while below(self.count.fetch_add(READER, Acquire), WAITING) {
            let old = self.count.fetch_add(READER.wrapping_neg(), Relaxed);
            if old.wrapping_sub(READER) & ACTIVE != 0 {
                // The one that is in will wake.
                return Wakes::NONE;
            }
        }
        self.set_reader_owned(|| first);

        let mut wakes = Wakes::NONE;
        let mut woken = 0;
        let mut name = first;
        while name != NOBODY && waiter::<P>(name).state.load(Relaxed) == READS {
            let after = WaitList::<P>::after(name);
            self.list.remove(name);
            wakes.grant::<P>(name);
            woken += READER;
            name = after;
        }
        P::count(LockEvent::RwsemWakeReader, woken);
        let left = if self.list.is_empty() { WAITING } else { 0 };
        // One is counted already.
        let change = (woken - READER).wrapping_sub(left);
        self.count.fetch_add(change, Relaxed);
        wakes
    }
}
