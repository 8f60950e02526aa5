//! Lists of sleeping tasks, and waking them.
//!
//! All of it but `Wakes::run` and `sleep` is called with the lock's wait lock held, which is what orders the
//! Relaxed accesses here.

use super::{ASLEEP, GRANTED, WOKEN, cpu_of, me};
use crate::atomic::{Atomic, Watch, zeroed};
use crate::trace::TraceEvent;
use crate::wait::Waiter;
use crate::{LockEvent, Platform};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Nobody.
pub const NOBODY: u32 = 0;

/// The waiter of the task of that name.
pub(super) fn waiter<P: Platform>(name: u32) -> &'static Waiter<P> {
    P::waiter(name - 1)
}

/// The tasks that wait for a lock, first come first. Two words: the names of the first and the last.
#[repr(C)]
pub struct WaitList<P: Platform> {
    first: P::U32,
    last: P::U32,
}

impl<P: Platform> WaitList<P> {
    /// The name of the first, or [`NOBODY`]. Without the wait lock: a task that is first stays so until
    /// it leaves.
    pub fn first(&self) -> u32 {
        self.first.load(Relaxed)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.first() == NOBODY
    }

    /// Whether that one waits, and nobody else.
    pub(super) fn is_only(&self, name: u32) -> bool {
        self.first() == name && self.last.load(Relaxed) == name
    }

    /// The name of the one behind, or [`NOBODY`].
    pub(super) fn after(name: u32) -> u32 {
        waiter::<P>(name).next.load(Relaxed)
    }

    /// Puts the executing task, which wants `state` and is asleep from now on, behind all others.
    /// Returns who is before it.
    pub(super) fn push(&self, state: u32) -> u32 {
        let me = me::<P>();
        let mine = waiter::<P>(me);
        let before = self.last.load(Relaxed);
        mine.next.store(NOBODY, Relaxed);
        mine.prev.store(before, Relaxed);
        mine.state.store(state, Relaxed);
        mine.granted.store(ASLEEP, Relaxed);
        self.link(before, me);
        self.last.store(me, Relaxed);
        before
    }

    /// Takes that one out.
    pub(super) fn remove(&self, name: u32) {
        let it = waiter::<P>(name);
        let (before, after) = (it.prev.load(Relaxed), it.next.load(Relaxed));
        self.link(before, after);
        let back = match after {
            NOBODY => &self.last,
            after => &waiter::<P>(after).prev,
        };
        back.store(before, Relaxed);
    }

    /// Makes `name` follow `before`; the first, if that is nobody.
    fn link(&self, before: u32, name: u32) {
        let forth = match before {
            NOBODY => &self.first,
            before => &waiter::<P>(before).next,
        };
        forth.store(name, Relaxed);
    }
}

zeroed!(WaitList: first: U32, last: U32);

/// Sleeps until somebody sets the executing task's `granted`. May return without that.
///
/// Without the wait lock. Says so in a trace of `lock`, if `traced`.
pub(super) fn sleep<P: Platform, L>(lock: &L, event: LockEvent, traced: bool) {
    let granted = &waiter::<P>(me::<P>()).granted;
    if granted.load(Relaxed) != ASLEEP {
        return;
    }
    P::count(event, 1);
    if traced {
        P::trace(lock, TraceEvent::HaltQueued);
    }
    P::block_while(granted, |granted| granted == ASLEEP);
    if traced {
        P::trace(lock, TraceEvent::Woken);
    }
}

/// The tasks to be woken once the wait lock is free: one waiter that is to look again, or some that are
/// given the lock.
#[must_use = "they sleep until run() is called"]
pub(super) struct Wakes {
    first: u32,
    last: u32,
    granted: bool,
}

impl Wakes {
    pub(super) const NONE: Self = Self {
        first: NOBODY,
        last: NOBODY,
        granted: true,
    };

    /// `name`, which stays in its list, is to look again.
    pub(super) fn look_again<P: Platform>(name: u32) -> Self {
        // Now, as later it may have left. That it does not miss this is for the wait lock, or for
        // wake(), to ensure.
        waiter::<P>(name).granted.store(WOKEN, Relaxed);
        Self {
            first: name,
            last: name,
            granted: false,
        }
    }

    /// `name`, which has been taken out of its list, has the lock. It must already be counted.
    pub(super) fn grant<P: Platform>(&mut self, name: u32) {
        waiter::<P>(name).next.store(NOBODY, Relaxed);
        match self.last {
            NOBODY => self.first = name,
            last => waiter::<P>(last).next.store(name, Relaxed),
        }
        self.last = name;
    }

    /// Wakes them.
    pub(super) fn run<P: Platform, L>(self, lock: &L) {
        let mut name = self.first;
        while name != NOBODY {
            let it = waiter::<P>(name);
            let mut next = NOBODY;
            if self.granted {
                next = it.next.load(Relaxed);
                // From here on it may run, and use its waiter for another lock. Release pairs with
                // the Acquire of that task: what the writer before it wrote is visible to it.
                it.granted.store(GRANTED, Release);
            } else if let Some(cpu) = cpu_of::<P>(name) {
                P::trace(lock, TraceEvent::Kick(cpu));
            }
            P::wake(name - 1);
            name = next;
        }
    }
}
