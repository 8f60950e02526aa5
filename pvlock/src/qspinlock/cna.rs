//! `cna`: the native queued spinlock, whose queue lets waiters of one NUMA node go first.
//!
//! Source: Dice and Kogan, "Compact NUMA-aware locks" (EuroSys 2019). The word, the fast path, the
//! pending waiter and the release are those of [`super`]. Only the queue differs: handing the lock to
//! a CPU of the same node keeps the lock's line, and what it guards, in that node's caches.
//!
//! The head, while it waits for the lock, moves waiters of other nodes that are right behind it to a
//! secondary queue, until one of its own node is next. The secondary queue is a ring of nodes, of
//! which the head knows the last one:
//!
//! | `node.locked` | meaning                                                    |
//! |---------------|------------------------------------------------------------|
//! | 0             | waits in either queue                                      |
//! | 1             | head; there is no secondary queue                          |
//! | 4 and more    | head; the [`NodeRef`] of the last in the secondary queue   |
//!
//! ```text
//! primary    head -> a -> b -> c        a and b are remote, c is local
//! after      head -> c                  a -> b -> a     head.locked = b
//! ```
//!
//! What the head knows goes to the next head with the lock. The secondary queue becomes the primary
//! one when that is empty, or goes before it when it has existed for [`FLUSH_NS`]: that bounds how
//! long order is set aside. Without a secondary queue a head looks for remote waiters only once in
//! [`LOOK_EVERY`] times, so that short queues pay next to nothing.
//!
//! `node.state` is the node preferred: the waiter's own, or, for a head, what its predecessor
//! preferred. Waiters in interrupt handlers are `NEVER_MOVED`. The node's tag is when the secondary
//! queue came to be.
//!
//! # Orderings
//! As in [`super`], and
//!
//! | step                              | ordering | pairs with                                  |
//! |-----------------------------------|----------|---------------------------------------------|
//! | load of a follower's `next`       | Acquire  | Release store of `prev.next`: who is moved has linked all it ever will, and set its `state` |
//! | secondary queue becomes the tail  | AcqRel   | the next exchange of the tail: the ring has been cut before |
//! | `next.locked = ..`                | Release  | Acquire wait on it: ring, `state` and tag of the new head |

use super::{
    LOCKED, LOCKED_LANE, RawQSpinLock, TAIL_LANE, TAIL_SHIFT, WORD_LOCKED, available, tail,
};
use crate::Platform;
use crate::atomic::{Atomic, ConstZero, Watch};
use crate::event::LockEvent;
use crate::percpu::{Node, NodeRef};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::word::LockWord;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The NUMA-aware queued spinlock; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawCna<P: Platform> {
    native: RawQSpinLock<P>,
}

/// How long a secondary queue may exist, in nanoseconds.
pub const FLUSH_NS: u64 = 1_000_000;
/// One head in so many begins a secondary queue; the others on its CPU do not look whether to.
pub const LOOK_EVERY: u32 = 128;

/// Turns between two looks for followers that have come meanwhile.
const FOLLOWER_TURNS: u32 = 64;

/// Value of `locked`: head, without a secondary queue.
const ALONE: u32 = 1;
/// Value of `state`: not to be moved, whatever its NUMA node.
const NEVER_MOVED: u32 = u32::MAX;

/// The node after `node` in its queue, 0 if it is not known yet.
fn next_of<P: Platform>(node: &Node<P>) -> u32 {
    // Acquire: see the table.
    node.next.load(Acquire)
}

/// Where the CPU of `node` keeps for it when the secondary queue came to be.
fn since<P: Platform>(node: NodeRef) -> &'static P::U64 {
    &P::percpu(node.cpu()).tags[node.index()]
}

/// A tag for `time`: odd, which those of `ppc-qspinlock` are not.
const fn tag(time: u64) -> u64 {
    time << 1 | 1
}

/// Splits a ring at its last node, which gets `next` behind it; returns the first.
fn cut<P: Platform>(last: NodeRef, next: u32) -> u32 {
    let last: &Node<P> = last.node();
    let first = last.next.load(Relaxed);
    last.next.store(next, Relaxed);
    first
}

/// Makes `next` the head, with what it is to have in `locked`.
fn hand_to<P: Platform>(next: u32, locked: u32) {
    if let Some(next) = NodeRef::from_raw(next) {
        // Release pairs with the Acquire wait in wait_in_queue().
        next.node::<P>().locked.store(locked, Release);
    }
}

/// The last of the secondary queue that `locked` names.
fn secondary(locked: u32) -> Option<NodeRef> {
    NodeRef::from_raw(locked).filter(|_| locked > ALONE)
}

impl<P: Platform> RawCna<P> {
    fn word(&self) -> &P::LockWord {
        &self.native.word
    }

    fn wait_in_queue(&self, me: NodeRef) -> Held {
        let node: &Node<P> = me.node();
        node.locked.store(0, Relaxed);
        node.next.store(0, Relaxed);
        let place = if P::in_interrupt() {
            NEVER_MOVED
        } else {
            P::numa_node(me.cpu())
        };
        node.state.store(place, Relaxed);
        if let Some(held) = self.native.try_lock_unqueued() {
            return held;
        }

        // (p,*,*) -> (me,*,*). AcqRel: see the table of the parent module.
        let before = self.word().swap_u16(TAIL_LANE, me.raw(), AcqRel);
        let before = NodeRef::from_raw(before.into());
        P::trace(self, TraceEvent::QueuedBehind(before.map(NodeRef::cpu)));
        let mut locked = ALONE;
        if let Some(prev) = before {
            // Release pairs with the Acquire in next_of().
            prev.node::<P>().next.store(me.raw().into(), Release);
            // Acquire pairs with the Release store in hand_to().
            locked = P::spin_until(&node.locked, Acquire, |locked| locked != 0);
            P::trace(self, TraceEvent::Head);
        }
        self.lock_as_head(me, locked)
    }

    /// Waits as head, takes the lock, and hands the queue on.
    fn lock_as_head(&self, me: NodeRef, mut locked: u32) -> Held {
        let node: &Node<P> = me.node();
        let mut flush = false;
        if secondary(locked).is_some() {
            let age = P::now().wrapping_sub(since::<P>(me).load(Relaxed) >> 1);
            flush = age > P::ticks(FLUSH_NS);
        }
        if !flush && (secondary(locked).is_some() || looks_for_remote_waiters::<P>()) {
            self.prefer_local(me, &mut locked);
        }

        // Acquire pairs with the Release in release().
        let word = P::spin_until(self.word(), Acquire, available);
        if tail(word) == me.raw().into() && self.claim_as_last(word, locked) {
            return self.held(How::Queue);
        }
        // (n,*,0) -> (n,*,1), as in the parent module.
        self.word().store_u8(LOCKED_LANE, LOCKED, Relaxed);
        let held = self.held(How::Queue);

        // Acquire pairs with the Release store of the link in wait_in_queue().
        let next = P::spin_until(&node.next, Acquire, |next| next != 0);
        match (secondary(locked), NodeRef::from_raw(next)) {
            (Some(last), _) if flush => {
                P::count(LockEvent::CnaFlushed, 1);
                hand_to::<P>(cut::<P>(last, next), ALONE);
            }
            (Some(_), Some(heir)) => {
                heir.node::<P>()
                    .state
                    .store(node.state.load(Relaxed), Relaxed);
                since::<P>(heir).store(since::<P>(me).load(Relaxed), Relaxed);
                hand_to::<P>(next, locked);
            }
            _ => hand_to::<P>(next, ALONE),
        }
        held
    }

    /// Moves remote waiters that are right behind us to the secondary queue, as long as the lock is
    /// not available.
    fn prefer_local(&self, me: NodeRef, locked: &mut u32) {
        let node: &Node<P> = me.node();
        let preferred = match node.state.load(Relaxed) {
            NEVER_MOVED => P::numa_node(me.cpu()),
            preferred => preferred,
        };
        // So that it is inherited.
        node.state.store(preferred, Relaxed);
        let mut budget = 1;
        // Relaxed: the caller waits again.
        while P::spin_for(self.word(), Relaxed, &mut budget, available).is_none() {
            budget = FOLLOWER_TURNS;
            let Some(next) = NodeRef::from_raw(next_of(node)) else {
                P::relax();
                continue;
            };
            let place = next.node::<P>().state.load(Relaxed);
            if place == preferred || place == NEVER_MOVED {
                return;
            }
            // The last one stays: others may be about to link themselves to it.
            let after = next_of(next.node::<P>());
            if after != 0 {
                node.next.store(after, Relaxed);
                self.move_to_secondary(me, next, locked);
                // There may be more to move: look at the word only once.
                budget = 1;
            } else {
                P::relax();
            }
        }
    }

    fn move_to_secondary(&self, me: NodeRef, moved: NodeRef, locked: &mut u32) {
        let name = u32::from(moved.raw());
        let first = match secondary(*locked) {
            Some(last) => cut::<P>(last, name),
            None => {
                since::<P>(me).store(tag(P::now()), Relaxed);
                name
            }
        };
        moved.node::<P>().next.store(first, Relaxed);
        *locked = name;
        P::count(LockEvent::CnaMoved, 1);
    }

    /// Takes the lock if the primary queue ends with us: (me,0,0) -> (s,0,1), where s is the last of
    /// the secondary queue, which becomes the primary one, or 0.
    fn claim_as_last(&self, word: u32, locked: u32) -> bool {
        let Some(last) = secondary(locked) else {
            // Relaxed: the lock was acquired by the wait before.
            let claimed = self
                .word()
                .compare_exchange(word, WORD_LOCKED, Relaxed, Relaxed);
            return claimed.is_ok();
        };
        let first = cut::<P>(last, 0);
        let new = u32::from(last.raw()) << TAIL_SHIFT | WORD_LOCKED;
        // AcqRel: whoever queues behind `last` must find it cut. See the table.
        if self
            .word()
            .compare_exchange(word, new, AcqRel, Relaxed)
            .is_err()
        {
            // Somebody has queued behind us: there is a primary queue after all.
            cut::<P>(last, first);
            return false;
        }
        hand_to::<P>(first, ALONE);
        true
    }
}

/// Once in [`LOOK_EVERY`] times on each CPU, beginning with the first.
fn looks_for_remote_waiters<P: Platform>() -> bool {
    // This field of the second node is not used otherwise. An interrupt may make it lose a count.
    let turn = &P::percpu(P::cpu()).nodes[1].in_use;
    let count = turn.load(Relaxed);
    turn.store(count.wrapping_add(1), Relaxed);
    count.is_multiple_of(LOOK_EVERY)
}

impl<P: Platform> Traced for RawCna<P> {
    type Platform = P;
    /// The word.
    type Seen = u32;

    #[inline(always)]
    fn fast(&self) -> Result<(), u32> {
        self.native.fast()
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, seen: u32) -> Held {
        P::count(LockEvent::Contended, 1);
        if let Some(held) = self.native.lock_pending(seen) {
            return held;
        }
        P::count(LockEvent::LockSlowpath, 1);
        self.native.lock_queued(|me| self.wait_in_queue(me))
    }

    #[inline]
    fn try_fast(&self) -> bool {
        self.native.try_fast()
    }

    #[inline(always)]
    fn release(&self) {
        self.native.release();
    }

    fn in_use(&self) -> bool {
        self.native.in_use()
    }
}

impl<P: Platform> Default for RawCna<P> {
    fn default() -> Self {
        Self {
            native: RawQSpinLock::default(),
        }
    }
}

impl<P: Platform> ConstZero for RawCna<P>
where
    P::LockWord: ConstZero,
{
    const ZERO: Self = Self {
        native: RawQSpinLock::ZERO,
    };
}
