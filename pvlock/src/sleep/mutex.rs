//! `mutex`: the sleeping lock with one owner.
//!
//! First word:
//!
//! | bits | field   | meaning                                                            |
//! |------|---------|--------------------------------------------------------------------|
//! | 0    | waiters | somebody is in the wait list: the release must wake the first         |
//! | 1    | handoff | the first waiter has been woken in vain: the release must give it the lock |
//! | 2    | pickup  | it has been given; the owner named has not noticed yet               |
//! | 3-31 | owner   | number of the owning task plus one, 0 if nobody                       |
//!
//! The others: the [`osq`](super::osq), the [`list`](super::list), and the wait lock.
//!
//! States are written (owner, flags); `m` is a task.
//!
//! ```text
//! (0,-) --lock--> (m,-) --unlock--> (0,-)             the fast paths, one atomic operation each
//! (0,W) --try---> (m,W)                               a free lock may be taken past those who wait
//! (m,-) --queue-> (m,W)                               under the wait lock
//! (m,W) --the first waiter wakes in vain--> (m,WH)
//! (m,W) --unlock--> (0,W)                             and the first waiter is woken
//! (m,WH) --unlock--> (n,WP) --n looks--> (n,W)        the lock is given to the first waiter `n`
//! (m,W*) --the last waiter leaves--> (m,-)            under the wait lock, as the owner
//! ```
//!
//! A task that finds the lock taken spins, in turn (OSQ), as long as the owner is on a CPU that is not known to
//! be preempted; then sleeps. The first waiter, once woken, spins beside the head of that queue. It is
//! overtaken once at most: a release that finds `handoff` gives it the lock.
//!
//! # Orderings
//! | step                               | ordering | pairs with                                   |
//! |------------------------------------|----------|----------------------------------------------|
//! | taking a free lock, picking up      | Acquire  | both below                                   |
//! | release to nobody                   | Release  | as above                                     |
//! | giving to the first waiter          | Release  | its pick-up                                  |
//! | setting and clearing other flags    | Relaxed  | nothing: they lead to the wait lock, which orders what is behind it |
//!
//! The releaser does not miss a waiter: both change the same word by read-modify-writes. Either the
//! release finds `waiters` set, or the waiter, who looks again after it has set it, finds the lock free.

use super::debug::mutex_unlock;
use super::list::{NOBODY, WaitList, Wakes, sleep, waiter};
use super::osq::Osq;
use super::within::Within;
use super::{ASLEEP, cpu_of, me, runs};
use crate::atomic::{Atomic, Watch, zeroed};
use crate::registry::{high, low};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::{LockEvent, Platform, RawLock, RawQSpinLock};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// When waiters are handed the lock.
pub trait Manner: 'static {
    /// At each release, by which nobody can overtake them; so nobody spins.
    const ALWAYS: bool;
}

/// Once the first waiter has been woken in vain.
pub struct OnDemand;

impl Manner for OnDemand {
    const ALWAYS: bool = false;
}

/// At each release.
pub struct Always;

impl Manner for Always {
    const ALWAYS: bool = true;
}

/// The mutex, with `W` as wait lock; see the [module](self) documentation.
pub type RawSleepMutex<P, W = RawQSpinLock<Within<P>>> = SleepMutex<P, OnDemand, W>;

/// `pi-mutex`: the release hands the lock to the first waiter, as a futex with priority inheritance does among
/// equals (futex(2), FUTEX_LOCK_PI), and nobody spins.
pub type RawPiMutex<P, W = RawQSpinLock<Within<P>>> = SleepMutex<P, Always, W>;

/// The mutex that hands over in that manner, with `W` as wait lock.
#[repr(C)]
pub struct SleepMutex<P: Platform, A, W> {
    owner: P::U32,
    osq: Osq<P>,
    list: WaitList<P>,
    wait: W,
    manner: PhantomData<fn() -> A>,
}

/// Somebody is in the wait list.
const WAITERS: u32 = 1 << 0;
/// The release must give the lock to the first waiter.
const HANDOFF: u32 = 1 << 1;
/// The lock has been given to the task named.
const PICKUP: u32 = 1 << 2;
const FLAGS: u32 = WAITERS | HANDOFF | PICKUP;
const OWNER_SHIFT: u32 = 3;

/// The owner's name, or 0.
const fn owner(word: u32) -> u32 {
    word >> OWNER_SHIFT
}

const fn owned(name: u32) -> u32 {
    name << OWNER_SHIFT
}

impl<P: Platform, A: Manner, W: RawLock> SleepMutex<P, A, W> {
    /// (0,f) -> (me,f), or picks up. Otherwise sets `handoff` if `demand`, and returns the word.
    fn try_take(&self, demand: bool) -> Result<(), u32> {
        let me = me::<P>();
        let mut word = self.owner.load(Relaxed);
        loop {
            let new = if owner(word) == 0 {
                word | owned(me)
            } else if word & PICKUP != 0 {
                if owner(word) != me {
                    return Err(word);
                }
                word & !PICKUP
            } else if demand && word & HANDOFF == 0 {
                word | HANDOFF
            } else {
                return Err(word);
            };
            // Acquire pairs with the Release in release() and unlock_slow().
            match self.owner.compare_exchange(word, new, Acquire, Relaxed) {
                Ok(_) if owner(new) == me => return Ok(()),
                Ok(_) => {
                    P::count(LockEvent::MutexHandoff, 1);
                    return Err(new);
                }
                Err(found) => word = found,
            }
        }
    }

    /// Spins while that is promising, in turn with others. True if it has got the lock.
    fn spin_in_turn(&self) -> bool {
        let promising = |word| owner(word) == 0 || runs::<P>(owner(word));
        if A::ALWAYS || P::need_resched() || !promising(self.owner.load(Relaxed)) {
            return false;
        }
        self.osq.in_turn(
            || self.spin(),
            Some(LockEvent::MutexOptLock),
            LockEvent::MutexOptFail,
        )
    }

    /// Spins while the owner runs and nobody wants our CPU. True if it has got the lock.
    fn spin(&self) -> bool {
        while let Err(word) = self.try_take(false) {
            // Until the owner changes; whoever comes next may run as well.
            let changed = |now| owner(now) != owner(word);
            let give_up = || P::need_resched() || !runs::<P>(owner(word));
            if P::spin_unless(&self.owner, Relaxed, changed, give_up).is_none() {
                return false;
            }
        }
        true
    }

    /// Waits for the lock in the list, and takes it. The wait lock is held before and after.
    fn wait_in_list(&self) -> Held {
        let me = me::<P>();
        let before = self.list.push(0);
        self.owner.fetch_or(WAITERS, Relaxed);
        P::trace(self, TraceEvent::QueuedBehind(cpu_of::<P>(before)));
        // Looks again: see "does not miss" above. This also picks up what was given to us while we
        // were awake.
        while self.try_take(false).is_err() {
            waiter::<P>(me).granted.store(ASLEEP, Relaxed);
            self.wait.unlock();
            sleep::<P, _>(self, LockEvent::MutexSleep, true);
            let taken = self.list.first() == me && self.wait_as_first();
            self.wait.lock();
            if taken {
                break;
            }
        }
        self.list.remove(me);
        if self.list.is_empty() {
            // (me,W*) -> (me,-)
            self.owner.fetch_and(!FLAGS, Relaxed);
        }
        self.held(How::Queue)
    }

    /// The first waiter has been woken: it takes the lock, or demands it and spins while the owner runs.
    fn wait_as_first(&self) -> bool {
        P::trace(self, TraceEvent::Head);
        // One that is handed the lock in any case has it, or was woken for nothing.
        self.try_take(!A::ALWAYS).is_ok() || (!A::ALWAYS && self.spin())
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        let mut word = self.owner.load(Relaxed);
        mutex_unlock::<P>(word, owner(word));
        while !A::ALWAYS && word & HANDOFF == 0 {
            // (me,W) -> (0,W). Release pairs with the Acquire in try_take().
            let free = word & FLAGS;
            match self.owner.compare_exchange(word, free, Release, Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        self.wait.lock();
        let mut wakes = Wakes::NONE;
        let first = self.list.first();
        if first != NOBODY {
            P::count(LockEvent::MutexWake, 1);
            wakes = Wakes::look_again::<P>(first);
        }
        if A::ALWAYS || word & HANDOFF != 0 {
            // (me,W*) -> (first,WP). Nobody else writes the word: it is ours, and has all flags that
            // others set. Release pairs with the Acquire in try_take().
            self.owner.store(owned(first) | PICKUP | WAITERS, Release);
        }
        self.wait.unlock();
        wakes.run::<P, _>(self);
    }
}

impl<P: Platform, A: Manner, W: RawLock> Traced for SleepMutex<P, A, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // (0,-) -> (me,-). Acquire pairs with the Release in release().
        let me = owned(me::<P>());
        let claimed = self.owner.compare_exchange(0, me, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        P::count(LockEvent::Contended, 1);
        if self.try_take(false).is_ok() || self.spin_in_turn() {
            return self.held(How::Stolen);
        }
        self.wait.lock();
        let held = if self.try_take(false).is_ok() {
            self.held(How::Stolen)
        } else {
            self.wait_in_list()
        };
        self.wait.unlock();
        held
    }

    #[inline]
    fn try_fast(&self) -> bool {
        self.try_take(false).is_ok()
    }

    #[inline(always)]
    fn release(&self) {
        // (me,-) -> (0,-). Release pairs with the Acquire in fast() and try_take().
        let me = owned(me::<P>());
        if self
            .owner
            .compare_exchange(me, 0, Release, Relaxed)
            .is_err()
        {
            self.unlock_slow();
        }
    }

    fn in_use(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }
}

zeroed!(
    SleepMutex[type A: Manner][over W]: owner: U32;
    osq: Osq<P>, list: WaitList<P>, manner: PhantomData<fn() -> A>
);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let word = low(state);
    match owner(word) {
        0 => f.write_str("free")?,
        name => write!(f, "held by task {}", name - 1)?,
    }
    for (flag, text) in [
        (WAITERS, "waiters"),
        (HANDOFF, "to be handed over"),
        (PICKUP, "handed over, not picked up"),
    ] {
        if word & flag != 0 {
            write!(f, ", {text}")?;
        }
    }
    super::osq::describe(high(state), f)
}
