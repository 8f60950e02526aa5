//! `ppc-qspinlock`: a queued spinlock whose word names the holder.
//!
//! | bits  | field      | meaning                                                      |
//! |-------|------------|--------------------------------------------------------------|
//! | 0     | locked     | somebody holds it                                            |
//! | 1-14  | owner      | the holder's CPU                                             |
//! | 15    | sleepy     | a waiter has found the holder descheduled                    |
//! | 16    | must queue | the queue head has waited for long: nobody may pass it        |
//! | 17-31 | tail       | CPU of the last waiter plus 1, 0 if nobody queues            |
//!
//! States are written (tail, must queue, sleepy, owner); `-` is no owner, `*` anything, `m` us.
//!
//! ```text
//! (0,0,0,-) --lock--> (0,0,0,a) --unlock--> (0,0,0,-)
//! (n,0,0,-) --steal-> (n,0,0,m)                 anybody, for a while, then it queues:
//! (n,*,*,*) --queue-> (m,*,*,*)
//! (n,*,0,a) ------->  (n,*,1,a)                 a waiter has found `a` descheduled
//! (n,0,*,*) ------->  (n,1,*,*)                 the head, when it has waited for long
//! (n,*,0,-) --claim-> (n,0,0,m), (0,0,0,m)      the head; the latter if it is also the tail
//! (n,*,*,a) --unlock> (n,*,0,-)                 one store of the lower half
//! ```
//!
//! Comers first try to steal the lock, for [`STEAL_TURNS`]; one that comes from another NUMA node
//! than the holder for [`REMOTE_STEAL_TURNS`]. While a holder is descheduled (sleepy), order matters
//! less than that somebody runs: [`SLEEPY_FACTOR`] times as long. All waiters, the queued ones
//! included, give their time to a holder that is descheduled, and queued ones to a descheduled
//! predecessor ([`super`] says when). That the holder was found descheduled is passed down the queue,
//! so that not each waiter has to find out.
//!
//! Compared with the paravirtual [`crate::qspinlock`] nobody halts, so there is neither a hash table
//! nor a kick. The tail names a CPU, not a node: its predecessor's node is the one of that CPU's that
//! is tagged with the lock's key.
//!
//! The constants' values are the defaults of Linux on powerpc. What is off by default there is left
//! out: stealing past a head while it yields, not counting turns spent on a descheduled holder,
//! stickiness of sleepy, and waking ("prod") a descheduled successor at the handoff.
//!
//! # Orderings
//! | step                        | ordering | pairs with                                            |
//! |-----------------------------|----------|-------------------------------------------------------|
//! | lock, steal, head's claim   | Acquire  | Release of the lower half in unlock                    |
//! | exchange of the tail        | AcqRel   | itself: publishes our node and its tag to the successor |
//! | store of `prev.next`        | Release  | Acquire load of `next` by the predecessor: our `locked = 0` precedes its `locked = 1` |
//! | `next.locked = 1` and its wait | Relaxed | nothing: it hands over the place in the queue, and the lock itself is acquired on the word |
//! | sleepy, must queue          | Relaxed  | nothing: they are hints                               |

use super::{LOOK_TURNS, seems_preempted, yield_to};
use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::percpu::{MAX_NODES, Node, NodeRef, count_node, give_node, take_node};
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::word::LockWord;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Turns, looks at the word each, for which a comer tries to steal the lock before it queues.
pub const STEAL_TURNS: u32 = 32;
/// As [`STEAL_TURNS`], if the holder is on another NUMA node: its line is far, and better stays there.
pub const REMOTE_STEAL_TURNS: u32 = 4;
/// Turns after which the queue head stops thieves.
pub const HEAD_TURNS: u32 = 256;
/// By how much thieves and heads are more patient while a holder is descheduled.
pub const SLEEPY_FACTOR: u32 = 256;

/// The queued spinlock of powerpc; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawPpcQSpinLock<P: Platform> {
    word: P::LockWord,
}

const LOCKED: u32 = 1;
const OWNER_SHIFT: u32 = 1;
const OWNER_MASK: u32 = 0x3fff << OWNER_SHIFT;
const SLEEPY: u32 = 1 << 15;
const MUST_QUEUE_BIT: u32 = 16;
const MUST_QUEUE: u32 = 1 << MUST_QUEUE_BIT;
const TAIL_SHIFT: u32 = 17;
const TAIL_MASK: u32 = 0x7fff << TAIL_SHIFT;
/// The half-word lane that unlock clears: locked, owner and sleepy.
const HOLDER_LANE: usize = 0;

const fn locked(word: u32) -> bool {
    word & LOCKED != 0
}

const fn owner(word: u32) -> u32 {
    (word & OWNER_MASK) >> OWNER_SHIFT
}

/// What the holder's CPU writes into the word.
const fn held_by(cpu: u32) -> u32 {
    debug_assert!(cpu < crate::MAX_CPUS, "a platform has fewer CPUs");
    LOCKED | cpu << OWNER_SHIFT
}

const fn tail_of(cpu: u32) -> u32 {
    (cpu + 1) << TAIL_SHIFT
}

const fn sleepy_factor(sleepy: bool) -> u32 {
    if sleepy { SLEEPY_FACTOR } else { 1 }
}

/// One wait for others, in turns of the loop.
#[derive(Default)]
struct Patience {
    /// Since the wait began.
    turns: u32,
    /// Since the last yield, or since the wait began.
    unyielded: u32,
}

impl Patience {
    /// Waits until `done`, for [`LOOK_TURNS`] at most, and not beyond turn number `limit` of the wait, if that
    /// is still ahead.
    fn wait<P: Platform, W: Watch>(
        &mut self,
        word: &W,
        limit: u32,
        mut done: impl FnMut(W::Value) -> bool,
    ) -> Option<W::Value> {
        let most = match limit.saturating_sub(self.turns) {
            0 => LOOK_TURNS,
            left => left.min(LOOK_TURNS),
        };
        let mut budget = most;
        let value = P::spin_for(word, Relaxed, &mut budget, &mut done);
        self.count(most - budget);
        value
    }

    /// So many turns have passed.
    fn count(&mut self, turns: u32) {
        self.turns = self.turns.saturating_add(turns);
        self.unyielded = self.unyielded.saturating_add(turns);
    }
}

impl<P: Platform> RawPpcQSpinLock<P> {
    /// (n,0,0,-) -> (n,0,0,m), if `word` allows it.
    fn claim_past_queue(&self, word: u32, cpu: u32) -> bool {
        // Acquire pairs with the Release store in release().
        let claim = |word| {
            self.word
                .compare_exchange(word, word | held_by(cpu), Acquire, Relaxed)
        };
        word & !TAIL_MASK == 0 && claim(word).is_ok()
    }

    /// False if we must queue.
    fn steal_for_a_while(&self, cpu: u32) -> bool {
        let mut patience = Patience::default();
        // That of the last holder seen.
        let mut limit = STEAL_TURNS;
        loop {
            let word = self.word.load(Relaxed);
            if locked(word) {
                let near = P::numa_node(owner(word)) == P::numa_node(cpu);
                let turns = if near {
                    STEAL_TURNS
                } else {
                    REMOTE_STEAL_TURNS
                };
                limit = turns * sleepy_factor(word & SLEEPY != 0);
            }
            if word & MUST_QUEUE != 0 {
                return false;
            }
            if !locked(word) {
                if self.claim_past_queue(word, cpu) {
                    P::count(LockEvent::PpcSteal, (word & TAIL_MASK != 0).into());
                    return true;
                }
                // Another one was faster: a turn as any other.
                patience.count(1);
            }
            if patience.turns >= limit {
                return false;
            }
            if locked(word) {
                self.yield_to_owner(word, &mut patience);
                patience.wait::<P, _>(&self.word, limit, |now| now != word);
            }
        }
    }

    /// Gives our time to the holder if it seems to be descheduled. Whether it did.
    fn yield_to_owner(&self, word: u32, patience: &mut Patience) -> bool {
        let holder = owner(word);
        if !locked(word) || !seems_preempted::<P>(holder, patience.unyielded) {
            return false;
        }
        if word & SLEEPY == 0 {
            // (n,*,0,a) -> (n,*,1,a). Fails if anything has changed: then others may see to it.
            let marked = self
                .word
                .compare_exchange(word, word | SLEEPY, Relaxed, Relaxed);
            P::count(LockEvent::PpcSleepy, marked.is_ok().into());
        }
        // It may have released the lock just before it was descheduled.
        let same = LOCKED | OWNER_MASK;
        if (self.word.load(Relaxed) ^ word) & same != 0 {
            return false;
        }
        patience.unyielded = 0;
        P::count(LockEvent::PpcYieldOwner, 1);
        yield_to::<P, _>(self, holder);
        true
    }

    /// The node with which `cpu`, which is or was the tail, waits for this lock.
    fn node_of(&self, cpu: u32) -> NodeRef {
        let tags = &P::percpu(cpu).tags;
        let tag = self.tag();
        let mut indices = 0..MAX_NODES;
        let Some(index) = indices.find(|&i| tags[i].load(Relaxed) == tag) else {
            panic!("ppc-qspinlock: CPU {cpu} is in the queue without a node");
        };
        NodeRef::new(cpu, index)
    }

    /// Even, which the tags of `cna` are not.
    fn tag(&self) -> u64 {
        P::lock_key(self) << 1
    }

    fn wait_in_queue(&self, me: NodeRef) -> Held {
        let cpu = me.cpu();
        let node: &Node<P> = me.node();
        let tag = &P::percpu(cpu).tags[me.index()];
        node.locked.store(0, Relaxed);
        node.next.store(0, Relaxed);
        node.state.store(0, Relaxed);
        tag.store(self.tag(), Relaxed);

        let before = self.exchange_tail(cpu);
        P::trace(self, TraceEvent::QueuedBehind(before));
        if let Some(prev) = before {
            // Release pairs with the Acquire load of next in wait_as_head().
            let link = &self.node_of(prev).node::<P>().next;
            link.store(me.raw().into(), Release);
            self.wait_behind(node, prev);
            P::trace(self, TraceEvent::Head);
        }
        let last = self.wait_as_head(node, cpu);
        let held = self.held(How::Queue);
        if !last {
            // Acquire pairs with the Release store of the link above, in the successor.
            let next = P::spin_until(&node.next, Acquire, |next| next != 0);
            if let Some(next) = NodeRef::from_raw(next) {
                next.node::<P>().locked.store(1, Relaxed);
            }
        }
        // Before the node is free, or it could be taken for one that waits again.
        tag.store(0, Relaxed);
        held
    }

    /// (n,*,*,*) -> (m,*,*,*). Returns n.
    fn exchange_tail(&self, cpu: u32) -> Option<u32> {
        let mut seen = self.word.load(Relaxed);
        loop {
            let new = seen & !TAIL_MASK | tail_of(cpu);
            // AcqRel: see the table.
            match self.word.compare_exchange(seen, new, AcqRel, Relaxed) {
                Ok(_) => return (seen >> TAIL_SHIFT).checked_sub(1),
                Err(now) => seen = now,
            }
        }
    }

    /// Waits until we are head.
    fn wait_behind(&self, node: &Node<P>, prev: u32) {
        let mut patience = Patience::default();
        while patience
            .wait::<P, _>(&node.locked, 0, |locked| locked != 0)
            .is_none()
        {
            let word = self.word.load(Relaxed);
            let prev_is_off = seems_preempted::<P>(prev, patience.unyielded);
            let told = node.state.load(Relaxed) != 0;
            if (told || prev_is_off) && self.yield_to_owner(word, &mut patience) {
                Self::tell_next(node);
            } else if prev_is_off && node.locked.load(Relaxed) == 0 {
                patience.unyielded = 0;
                P::count(LockEvent::PpcYieldPrev, 1);
                yield_to::<P, _>(self, prev);
            }
        }
    }

    /// Tells the one behind us, if there is, that a holder was found descheduled.
    fn tell_next(node: &Node<P>) {
        // Acquire pairs with the Release store of the link: its node's initial state is before ours.
        if let Some(next) = NodeRef::from_raw(node.next.load(Acquire)) {
            next.node::<P>().state.store(1, Relaxed);
        }
    }

    /// Waits as head and takes the lock. Whether nobody is behind us.
    fn wait_as_head(&self, node: &Node<P>, cpu: u32) -> bool {
        let mut patience = Patience::default();
        let mut stopped_thieves = false;
        loop {
            let word = self.word.load(Relaxed);
            if !locked(word) {
                let last = word & TAIL_MASK == tail_of(cpu);
                let tail = if last { 0 } else { word & TAIL_MASK };
                // (n,*,0,-) -> (n,0,0,m) or (m,*,0,-) -> (0,0,0,m).
                // Acquire pairs with the Release store in release().
                let claimed =
                    self.word
                        .compare_exchange(word, tail | held_by(cpu), Acquire, Relaxed);
                if claimed.is_ok() {
                    return last;
                }
                // A thief was faster: a turn as any other.
                patience.count(1);
                continue;
            }
            if self.yield_to_owner(word, &mut patience) {
                Self::tell_next(node);
            }
            let sleepy = word & SLEEPY != 0 || node.state.load(Relaxed) != 0;
            let limit = HEAD_TURNS * sleepy_factor(sleepy);
            if !stopped_thieves && patience.turns >= limit {
                // (n,0,*,*) -> (n,1,*,*)
                self.word.fetch_set_bit(MUST_QUEUE_BIT, Relaxed);
                P::count(LockEvent::PpcMustQueue, 1);
                stopped_thieves = true;
            }
            patience.wait::<P, _>(&self.word, limit, |word| !locked(word));
        }
    }
}

impl<P: Platform> Traced for RawPpcQSpinLock<P> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // (0,0,0,-) -> (0,0,0,m). Acquire pairs with the Release store in release().
        let held = held_by(P::cpu());
        let claimed = self.word.compare_exchange(0, held, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        P::count(LockEvent::Contended, 1);
        let cpu = P::cpu();
        if self.steal_for_a_while(cpu) {
            return self.held(How::Stolen);
        }
        P::count(LockEvent::LockSlowpath, 1);
        let node = take_node::<P>(cpu);
        count_node::<P>(node);
        if let Some(me) = node {
            let held = self.wait_in_queue(me);
            give_node::<P>(me);
            return held;
        }
        while !self.claim_past_queue(self.word.load(Relaxed), cpu) {
            P::relax();
        }
        self.held(How::Stolen)
    }

    /// Takes a free lock also past a queue, unless its head has had enough of that.
    fn try_fast(&self) -> bool {
        self.claim_past_queue(self.word.load(Relaxed), P::cpu())
    }

    #[inline(always)]
    fn release(&self) {
        // (n,*,*,m) -> (n,*,0,-). Release pairs with every Acquire on the word.
        self.word.store_u16(HOLDER_LANE, 0, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != 0
    }
}

zeroed!(RawPpcQSpinLock: word: LockWord);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let word = low(state);
    if locked(word) {
        write!(f, "held by vCPU {}", owner(word))?;
    } else {
        f.write_str("free")?;
    }
    if word & SLEEPY != 0 {
        f.write_str(", found descheduled")?;
    }
    if word & MUST_QUEUE != 0 {
        f.write_str(", thieves stopped")?;
    }
    match (word >> TAIL_SHIFT).checked_sub(1) {
        Some(tail) => write!(f, ", queue ends at vCPU {tail}"),
        None => Ok(()),
    }
}
