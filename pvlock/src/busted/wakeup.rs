//! `busted-wakeup`: a queue of halting waiters that now and then is not told of a release.
//!
//! It excludes. But one release in 64 that has somebody to give the lock to forgets the kick: the waiter
//! holds the lock and sleeps, and so do all behind it, for ever. A watchdog must catch it.
//!
//! | word  | meaning                                                                  |
//! |-------|--------------------------------------------------------------------------|
//! | last  | 0 free; [`HELD`] held, nobody waits; else the [`NodeRef`] of the last waiter |
//! | first | [`NodeRef`] of the first waiter, 0 if there is none or it has not said so yet  |
//!
//! The lock is handed over: a release that finds waiters leaves `last` as it is, and tells the first one,
//! through its node, that the lock is its own.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::percpu::{NodeRef, count_node, give_node, take_node};
use crate::registry::{high, low};
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// One in so many hand-overs is not told to the waiter.
const FORGETFUL: u32 = 64;

const FREE: u32 = 0;
/// No [`NodeRef`], as those are at most 16 bits wide.
const HELD: u32 = 1 << 16;

/// The lock that forgets to wake.
#[repr(C)]
pub struct RawBustedWakeup<P: Platform> {
    last: P::U32,
    first: P::U32,
    hand_overs: P::U32,
}

impl<P: Platform> RawBustedWakeup<P> {
    fn wait_in_queue(&self, me: NodeRef) -> How {
        let node = me.node::<P>();
        let mine = u32::from(me.raw());
        node.locked.store(0, Relaxed);
        node.next.store(0, Relaxed);

        // AcqRel: publishes the node as it is now, and acquires the lock if it has become free.
        let mut last = self.last.load(Relaxed);
        loop {
            let new = if last == FREE { HELD } else { mine };
            match self.last.compare_exchange(last, new, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(found) => last = found,
            }
        }
        if last == FREE {
            return How::Fast;
        }
        let before = NodeRef::from_raw(last).filter(|_| last != HELD);
        P::trace(self, TraceEvent::QueuedBehind(before.map(NodeRef::cpu)));
        // Release, both: pairs with the Acquire loads of whoever hands over to us.
        match before {
            Some(prev) => prev.node::<P>().next.store(mine, Release),
            None => self.first.store(mine, Release),
        }

        // Acquire pairs with the Release of the one who hands over.
        while node.locked.load(Acquire) == 0 {
            P::trace(self, TraceEvent::HaltQueued);
            P::halt_while(&node.locked, |locked| locked == 0);
            P::trace(self, TraceEvent::Woken);
        }

        // The lock is ours. Which waiter is first now?
        let mut next = node.next.load(Acquire);
        if next == 0 {
            // Nobody, unless somebody is about to say so. Release pairs with the AcqRel exchange of
            // the next to come: its link comes after our predecessor has emptied `first`.
            if self
                .last
                .compare_exchange(mine, HELD, Release, Relaxed)
                .is_ok()
            {
                return How::Queue;
            }
            next = P::spin_until(&node.next, Acquire, |next| next != 0);
        }
        self.first.store(next, Relaxed);
        How::Queue
    }

    /// Gives the lock to the first waiter.
    fn hand_over(&self) {
        // Acquire pairs with the Release of the waiter that links itself.
        let first = P::spin_until(&self.first, Acquire, |first| first != 0);
        let Some(first) = NodeRef::from_raw(first) else {
            return;
        };
        self.first.store(0, Relaxed);
        let hand_over = self.hand_overs.load(Relaxed) + 1;
        self.hand_overs.store(hand_over, Relaxed);
        // Release pairs with the Acquire of the waiter.
        first.node::<P>().locked.store(1, Release);
        // The mistake.
        if !hand_over.is_multiple_of(FORGETFUL) {
            P::trace(self, TraceEvent::Kick(first.cpu()));
            P::kick(first.cpu());
        }
    }
}

impl<P: Platform> Traced for RawBustedWakeup<P> {
    type Platform = P;
    type Seen = ();

    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release in release().
        let claimed = self.last.compare_exchange(FREE, HELD, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    fn slow(&self, (): ()) -> Held {
        P::count(LockEvent::Contended, 1);
        let node = take_node::<P>(P::cpu());
        count_node::<P>(node);
        if let Some(me) = node {
            let how = self.wait_in_queue(me);
            let held = self.held(how);
            give_node::<P>(me);
            return held;
        }
        while self.fast().is_err() {
            P::relax();
        }
        self.held(How::Fast)
    }

    fn try_fast(&self) -> bool {
        self.fast().is_ok()
    }

    fn release(&self) {
        // Release pairs with the Acquire in fast().
        if self
            .last
            .compare_exchange(HELD, FREE, Release, Relaxed)
            .is_err()
        {
            self.hand_over();
        }
    }

    fn in_use(&self) -> bool {
        self.last.load(Relaxed) != FREE
    }
}

zeroed!(RawBustedWakeup: last: U32, first: U32, hand_overs: U32);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (last, first) = (low(state), high(state));
    match last {
        FREE => return f.write_str("free"),
        HELD => return f.write_str("held"),
        _ => f.write_str("held")?,
    }
    if let Some(first) = NodeRef::from_raw(first) {
        write!(f, ", {first} is first")?;
    }
    if let Some(last) = NodeRef::from_raw(last) {
        write!(f, ", queue ends at {last}")?;
    }
    Ok(())
}
