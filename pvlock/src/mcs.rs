//! `mcs`: the queue lock of Mellor-Crummey and Scott by itself.
//!
//! Source: "Algorithms for scalable synchronization on shared-memory multiprocessors" (TOCS 1991).
//! Every acquisition queues, also that of a free lock, and each waiter spins on a line of its own.
//! Strictly fair, hence at the mercy of every waiter, as `ticket` is.
//!
//! | word      | meaning                                                                       |
//! |-----------|-------------------------------------------------------------------------------|
//! | tail      | 0 free; [`NodeRef`] of the last in the queue, which is the holder if nobody waits; `NODELESS` and a CPU: held by that CPU without a node |
//! | holder    | written under the lock: what `tail` was when its holder alone was in the queue |
//! | successor | the [`NodeRef`] of who queued behind a holder without a node, else 0           |
//!
//! States are written (tail, holder); `-` is out of date, `n` the last of several.
//!
//! ```text
//! (0,-) --lock--> (a,a) --b queues--> (b,a) --c queues--> (n,a)
//!   ^               |                   |                   |
//!   +----unlock-----+                   +-----> (b,b)       +-----> (n,b)     a unlocks
//! ```
//!
//! # Nodes
//! The holder's node is in use until the release, for its successor may link itself to it at any
//! time. The lock remembers it in `holder`, as a CPU may hold several locks and release them in any
//! order. A CPU that has all of its nodes in use takes a lock without one, but only when the lock is
//! free: it puts itself into `tail`, and its successor, finding no node there, leaves its own name in
//! the lock's `successor`. Such a taker may starve.
//!
//! # Orderings
//! | step                       | ordering | pairs with                                              |
//! |----------------------------|----------|---------------------------------------------------------|
//! | exchange of `tail` in lock | AcqRel   | Acquire: Release of `tail` in unlock. Release: itself and the link, publishes our node's initial values |
//! | store of `prev.next`, `successor` | Release | Acquire load of it in unlock: our `locked = 0` precedes the holder's `locked = 1` |
//! | wait for our `locked`      | Acquire  | Release of it in unlock: the lock is handed over         |
//! | `tail` -> 0 in unlock      | Release  | Acquire of `tail` in lock and try_lock                   |
//! | `next.locked = 1`          | Release  | Acquire wait for it                                     |
//!
//! `holder` is Relaxed: whoever reads it has written it itself.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::percpu::{Node, NodeRef, count_node, give_node, take_node};
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The MCS lock; see the [module](self) documentation.
#[repr(C)]
pub struct RawMcs<P: Platform> {
    tail: P::U32,
    holder: P::U32,
    successor: P::U32,
}

const FREE: u32 = 0;
/// With a CPU's number in the low bits: it holds the lock without a node. No node's name is as large.
const NODELESS: u32 = 1 << 31;

/// The node that a place in the queue names; `None` if its owner does without.
const fn node_of(place: u32) -> Option<NodeRef> {
    if place & NODELESS == 0 {
        NodeRef::from_raw(place)
    } else {
        None
    }
}

/// The CPU that a place in the queue names.
fn cpu_of(place: u32) -> u32 {
    node_of(place).map_or(place & !NODELESS, NodeRef::cpu)
}

fn init<P: Platform>(node: &Node<P>) {
    node.next.store(0, Relaxed);
    node.locked.store(0, Relaxed);
}

impl<P: Platform> RawMcs<P> {
    /// Waits behind `before`, whose place in `tail` we have taken.
    fn wait_behind(&self, me: NodeRef, before: u32) {
        P::count(LockEvent::Contended, 1);
        P::trace(self, TraceEvent::QueuedBehind(Some(cpu_of(before))));
        count_node::<P>(Some(me));
        let link = node_of(before).map_or(&self.successor, |prev| &prev.node::<P>().next);
        // Release pairs with the Acquire loads in hand_over().
        link.store(me.raw().into(), Release);
        // Acquire pairs with the Release store in hand_over(): this is the acquisition.
        P::spin_until(&me.node::<P>().locked, Acquire, |locked| locked != 0);
    }

    /// Takes the lock without a node, each time it is free.
    fn lock_nodeless(&self, cpu: u32) -> Held {
        count_node::<P>(None);
        let mut how = How::Fast;
        while !self.claim(NODELESS | cpu) {
            if how == How::Fast {
                P::count(LockEvent::Contended, 1);
                how = How::Stolen;
            }
            // Relaxed: the exchange in claim() is the acquisition.
            P::spin_until(&self.tail, Relaxed, |tail| tail == FREE);
        }
        self.held(how)
    }

    /// (0,-) -> (me,me), if the lock is free.
    #[inline(always)]
    fn claim(&self, me: u32) -> bool {
        // AcqRel as the exchange in fast().
        let claimed = self.tail.compare_exchange(FREE, me, AcqRel, Relaxed);
        if claimed.is_ok() {
            self.holder.store(me, Relaxed);
        }
        claimed.is_ok()
    }

    /// Gives the lock to whoever has queued behind us, whose name is, or soon will be, in `link`.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, link: &P::U32) {
        // Acquire pairs with the Release store in wait_behind().
        let next = P::spin_until(link, Acquire, |next| next != 0);
        // For the next holder without a node.
        link.store(0, Relaxed);
        if let Some(next) = NodeRef::from_raw(next) {
            // Release pairs with the Acquire wait in wait_behind().
            next.node::<P>().locked.store(1, Release);
        }
    }
}

impl<P: Platform> Traced for RawMcs<P> {
    type Platform = P;
    /// Our node, and the place in `tail` that we have taken; `None` if we have no node.
    type Seen = Option<(NodeRef, u32)>;

    #[inline(always)]
    fn fast(&self) -> Result<(), Self::Seen> {
        let Some(me) = take_node::<P>(P::cpu()) else {
            return Err(None);
        };
        init::<P>(me.node());
        let place = u32::from(me.raw());
        // (b,*) -> (me,*). AcqRel: see the table.
        let before = self.tail.swap(place, AcqRel);
        if before != FREE {
            return Err(Some((me, before)));
        }
        self.holder.store(place, Relaxed);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, seen: Self::Seen) -> Held {
        match seen {
            Some((me, before)) => {
                self.wait_behind(me, before);
                self.holder.store(me.raw().into(), Relaxed);
                self.held(How::Queue)
            }
            None => self.lock_nodeless(P::cpu()),
        }
    }

    fn try_fast(&self) -> bool {
        if self.tail.load(Relaxed) != FREE {
            return false;
        }
        let cpu = P::cpu();
        match take_node::<P>(cpu) {
            Some(me) => {
                init::<P>(me.node());
                let claimed = self.claim(me.raw().into());
                if !claimed {
                    give_node::<P>(me);
                }
                claimed
            }
            None => self.claim(NODELESS | cpu),
        }
    }

    #[inline(always)]
    fn release(&self) {
        let place = self.holder.load(Relaxed);
        let node = node_of(place);
        let link = node.map_or(&self.successor, |me| &me.node::<P>().next);
        // (me,me) -> (0,-) if nobody waits. Release pairs with the Acquire of `tail` in fast().
        if link.load(Relaxed) != 0
            || self
                .tail
                .compare_exchange(place, FREE, Release, Relaxed)
                .is_err()
        {
            self.hand_over(link);
        }
        if let Some(me) = node {
            give_node::<P>(me);
        }
    }

    fn in_use(&self) -> bool {
        self.tail.load(Relaxed) != FREE
    }
}

zeroed!(RawMcs: tail: U32, holder: U32, successor: U32);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (tail, holder) = (low(state), low(state >> 32));
    if tail == FREE {
        return f.write_str("free");
    }
    f.write_str("held")?;
    // Not known yet when the lock is taken for the first time.
    if holder != 0 {
        write!(f, " by vCPU {}", cpu_of(holder))?;
    }
    match node_of(tail) {
        Some(tail) => write!(f, ", queue ends at {tail}"),
        None => f.write_str(" without a node"),
    }
}
