//! The queue of optimistic spinners: one spins on the lock itself, the others behind it on nodes of
//! their own.
//!
//! It is an MCS queue that can be left. A spinner is worth its CPU only while it has a chance to get the
//! lock soon, so it leaves when its CPU is wanted by another task ([`Platform::need_resched`]), and when
//! the one before it is known to be preempted ([`Platform::vcpu_is_preempted`]): it would wait for a CPU
//! that does not run.
//!
//! One word: the CPU number of the last spinner plus one, or 0. Each CPU has one node
//! ([`OsqNode`]), so between [`lock`](Osq::lock) and [`unlock`](Osq::unlock) a task
//! stays on its CPU, blocks on nothing, and takes no other lock of this family; nor may interrupts.
//!
//! # Leaving
//! With `p - m - n` neighbours in the queue, `m` leaves in three steps:
//!
//! | step | what                                   | so that                                         |
//! |------|----------------------------------------|-------------------------------------------------|
//! | A    | `p.next`: `m` -> 0                      | `p` does not pass the queue on to us; if `p` has begun to do so we have it, if `p` leaves itself we get another `p` and try again |
//! | B    | `m.next`: `n` -> 0; or `tail`: `m` -> `p` | `n` cannot leave any more (its step A fails), or there is no `n` |
//! | C    | `n.prev = p`, then `p.next = n`          | they are neighbours                             |
//!
//! Meanwhile `p` finds no `next`, and waits for one, as it is not the tail.
//!
//! # Orderings
//! | step                        | ordering | pairs with                                            |
//! |-----------------------------|----------|-------------------------------------------------------|
//! | exchange of the tail        | AcqRel   | itself: our node is initialised before the next one finds it; and step B of who left: its 0 in `p.next` is before ours |
//! | `prev.next = me`            | Release  | Acquire exchange of `next`: `m.prev` is written before the one that leaves writes it |
//! | step B on `tail`            | AcqRel   | exchange of the tail, see there                        |
//! | step B on `next`, unlock's  | AcqRel   | `prev.next = me`, step C                               |
//! | step C on `n.prev`          | Release  | Acquire load of `prev` in step A: `p.next` was emptied before |
//! | step C on `p.next`          | Release  | Acquire exchange of `next` by `p`                      |
//! | `next.locked = 1`           | Release  | Acquire load of our own `locked`                       |
//! | `tail`: last one -> 0       | Release  | exchange of the tail                                   |
//!
//! The queue is only an order of who may try for the lock. It guards no data.

use super::preempted;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::wait::OsqNode;
use crate::{LockEvent, Platform};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The queue; see the [module](self) documentation.
#[repr(transparent)]
pub struct Osq<P: Platform> {
    tail: P::U32,
}

const NOBODY: u32 = 0;

fn node<P: Platform>(name: u32) -> &'static OsqNode<P> {
    &P::percpu(name - 1).osq
}

impl<P: Platform> Osq<P> {
    /// Whether somebody spins.
    pub fn is_locked(&self) -> bool {
        self.tail.load(Relaxed) != NOBODY
    }

    /// Calls `spin` when it is this task's turn; whether that has got the lock, which counts as `won`, or not, which
    /// counts as `failed`.
    pub(super) fn in_turn(
        &self,
        spin: impl FnOnce() -> bool,
        won: Option<LockEvent>,
        failed: LockEvent,
    ) -> bool {
        let taken = self.lock() && {
            let taken = spin();
            self.unlock();
            taken
        };
        if let Some(event) = if taken { won } else { Some(failed) } {
            P::count(event, 1);
        }
        taken
    }

    /// Waits to be the one that spins on the lock. False: it is not worth while, do not spin.
    pub fn lock(&self) -> bool {
        let me = P::cpu() + 1;
        let mine = node::<P>(me);
        mine.locked.store(0, Relaxed);
        mine.next.store(NOBODY, Relaxed);
        // AcqRel: see the table.
        let before = self.tail.swap(me, AcqRel);
        if before == NOBODY {
            return true;
        }
        mine.prev.store(before, Relaxed);
        // Release: see the table.
        node::<P>(before).next.store(me, Release);

        // Acquire pairs with the Release store in unlock(). The one before us changes only when that one
        // leaves.
        let give_up = || P::need_resched() || preempted::<P>(mine.prev.load(Relaxed) - 1);
        P::spin_unless(&mine.locked, Acquire, |locked| locked != 0, give_up).is_some()
            || self.leave(me)
    }

    /// Leaves the queue, unless it has been passed on to us: true then.
    fn leave(&self, me: u32) -> bool {
        let mine = node::<P>(me);
        // Step A. Relaxed: what we read of the neighbour's comes with what made it our neighbour.
        let before = loop {
            // Acquire pairs with the Release of step C in the one that was before us.
            let before = mine.prev.load(Acquire);
            let next = &node::<P>(before).next;
            if next.load(Relaxed) == me
                && next.compare_exchange(me, NOBODY, Relaxed, Relaxed).is_ok()
            {
                break before;
            }
            // Acquire pairs with the Release store in unlock().
            if mine.locked.load(Acquire) != 0 {
                return true;
            }
            P::relax();
        };
        if let Some(after) = self.take_next(me, before) {
            // Step C.
            node::<P>(after).prev.store(before, Release);
            node::<P>(before).next.store(after, Release);
        }
        false
    }

    /// Step B: takes the one behind us out of our node, or makes `last` the last of the queue if there
    /// is none.
    fn take_next(&self, me: u32, last: u32) -> Option<u32> {
        let mine = node::<P>(me);
        loop {
            if self.tail.load(Relaxed) == me
                && self
                    .tail
                    .compare_exchange(me, last, AcqRel, Relaxed)
                    .is_ok()
            {
                return None;
            }
            // Looked at first: it may leave itself, and a new one link itself later.
            if mine.next.load(Relaxed) != NOBODY {
                // AcqRel: see the table.
                let after = mine.next.swap(NOBODY, AcqRel);
                if after != NOBODY {
                    return Some(after);
                }
            }
            P::relax();
        }
    }

    /// Lets the next one spin.
    pub fn unlock(&self) {
        let me = P::cpu() + 1;
        // Release pairs with the exchange of the tail.
        if self
            .tail
            .compare_exchange(me, NOBODY, Release, Relaxed)
            .is_ok()
        {
            return;
        }
        if let Some(after) = self.take_next(me, NOBODY) {
            // Release pairs with the Acquire load of locked in lock() and leave().
            node::<P>(after).locked.store(1, Release);
        }
    }
}

zeroed!(Osq: tail: U32);

/// Writes out the queue's word, after other words.
pub(crate) fn describe(tail: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match tail {
        NOBODY => Ok(()),
        last => write!(f, ", vCPU {} is the last to spin", last - 1),
    }
}
