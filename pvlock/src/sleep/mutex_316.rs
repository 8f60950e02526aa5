//! `mutex-3.16`: the mutex of Linux until 4.9, without a hand-over.
//!
//! First word, *claims*:
//!
//! | value | meaning                                                             |
//! |-------|---------------------------------------------------------------------|
//! | 0     | free                                                                |
//! | 1     | held, and the release has nothing to do                              |
//! | 2, .. | held; somebody has tried since, or sleeps: the release looks for waiters |
//!
//! The second is the *owner*'s name, or 0: a hint. The others are as in [`super::mutex`].
//!
//! ```text
//! 0 --lock--> 1 --unlock--> 0                      the fast paths, one addition each
//! n --lock--> n+1                                  a try in vain is an addition too
//! n --unlock--> n-1 --> 0                          and the first waiter is woken, if there is one
//! 0 --a spinner--> 1
//! * --a waiter looks--> 2                          it has the lock if that was 0; 1 if it was the last
//! ```
//!
//! So a contended release takes the wait lock whether somebody sleeps or not; that is what this lock costs. A
//! waiter that is woken in vain sleeps again: it neither spins, nor can it demand the lock, and those that spin
//! overtake those that sleep without a bound.
//!
//! # Orderings
//! | step                      | ordering | pairs with                                     |
//! |---------------------------|----------|------------------------------------------------|
//! | whatever finds 0          | Acquire  | both below                                      |
//! | the release's subtraction | Release  | as above                                        |
//! | its store of 0            | Release  | as above                                        |
//! | owner                     | Relaxed  | nothing: a hint                                 |
//!
//! The releaser does not miss a waiter. One that is in the list has made the word 2 after it went there; so the
//! next release that finds less comes after a waiter's own store of 1, which the last of the list makes.

use super::list::{WaitList, Wakes, sleep, waiter};
use super::osq::Osq;
use super::within::Within;
use super::{ASLEEP, cpu_of, me, runs};
use crate::atomic::{Atomic, Watch, zeroed};
use crate::registry::{high, low};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::{LockEvent, Platform, RawLock, RawQSpinLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The mutex, with `W` as wait lock; see the [module](self) documentation.
#[repr(C)]
pub struct RawSleepMutex316<P: Platform, W = RawQSpinLock<Within<P>>> {
    claims: P::U32,
    owner: P::U32,
    osq: Osq<P>,
    list: WaitList<P>,
    wait: W,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

impl<P: Platform, W: RawLock> RawSleepMutex316<P, W> {
    /// 0 -> 1
    fn claim(&self) -> bool {
        self.claims.load(Relaxed) == FREE
            // Acquire pairs with the Release in release().
            && self.claims.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    /// Spins while the owner, if it is known, runs. True if it has got the lock.
    fn spin(&self) -> bool {
        loop {
            let owner = self.owner.load(Relaxed);
            if owner != 0 {
                let changed = |now| now != owner;
                let give_up = || P::need_resched() || !runs::<P>(owner);
                if P::spin_unless(&self.owner, Relaxed, changed, give_up).is_none() {
                    return false;
                }
            }
            if self.claim() {
                return true;
            }
            if P::need_resched() {
                return false;
            }
            P::relax();
        }
    }

    /// Spins in turn with others, if the owner runs.
    fn spin_in_turn(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        if P::need_resched() || (owner != 0 && !runs::<P>(owner)) {
            return false;
        }
        self.osq.in_turn(
            || self.spin(),
            Some(LockEvent::MutexOptLock),
            LockEvent::MutexOptFail,
        )
    }

    /// * -> 2: whether that has got the lock.
    fn look(&self) -> bool {
        // Acquire pairs with the Release in release().
        self.claims.swap(CONTENDED, Acquire) == FREE
    }

    /// Waits for the lock, which the wait lock is held for, and is afterwards.
    fn wait_in_list(&self) -> Held {
        let me = me::<P>();
        let before = self.list.push(0);
        P::trace(self, TraceEvent::QueuedBehind(cpu_of::<P>(before)));
        while !self.look() {
            waiter::<P>(me).granted.store(ASLEEP, Relaxed);
            self.wait.unlock();
            sleep::<P, _>(self, LockEvent::MutexSleep, true);
            self.wait.lock();
        }
        P::trace(self, TraceEvent::Head);
        self.list.remove(me);
        self.settle();
        self.held(How::Queue)
    }

    /// The holder of both locks leaves the release nothing to do if nobody is in the list.
    fn settle(&self) {
        if self.list.is_empty() {
            self.claims.store(HELD, Relaxed);
        }
    }

    fn own(&self) {
        self.owner.store(me::<P>(), Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        // Release pairs with the Acquire of whoever finds it.
        self.claims.store(FREE, Release);
        self.wait.lock();
        let first = self.list.first();
        let wakes = if first == super::list::NOBODY {
            Wakes::NONE
        } else {
            P::count(LockEvent::MutexWake, 1);
            Wakes::look_again::<P>(first)
        };
        self.wait.unlock();
        wakes.run::<P, _>(self);
    }
}

impl<P: Platform, W: RawLock> Traced for RawSleepMutex316<P, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // n -> n+1. Acquire pairs with the Release in release().
        if self.claims.fetch_add(1, Acquire) == FREE {
            self.own();
            return Ok(());
        }
        Err(())
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        P::count(LockEvent::Contended, 1);
        let held = if self.spin_in_turn() {
            self.held(How::Stolen)
        } else {
            self.wait.lock();
            let held = if self.look() {
                self.settle();
                self.held(How::Stolen)
            } else {
                self.wait_in_list()
            };
            self.wait.unlock();
            held
        };
        self.own();
        held
    }

    #[inline]
    fn try_fast(&self) -> bool {
        let claimed = self.claim();
        if claimed {
            self.own();
        }
        claimed
    }

    #[inline(always)]
    fn release(&self) {
        self.owner.store(0, Relaxed);
        // n -> n-1. Release pairs with the Acquire of whoever finds it free.
        if self.claims.fetch_add(1_u32.wrapping_neg(), Release) != HELD {
            self.unlock_slow();
        }
    }

    fn in_use(&self) -> bool {
        self.claims.load(Relaxed) != FREE
    }
}

zeroed!(RawSleepMutex316[over W]: claims: U32, owner: U32; osq: Osq<P>, list: WaitList<P>);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (low(state), high(state)) {
        (FREE, _) => f.write_str("free"),
        (n, 0) => write!(f, "held, {n} claims, owner unknown"),
        (n, name) => write!(f, "held by task {}, {n} claims", name - 1),
    }
}
