//! `qspinlock` and `pv-qspinlock`: the queued spinlock, native and paravirtual.
//!
//! Waiters queue on per-CPU MCS nodes (Mellor-Crummey and Scott, TOCS 1991), so that each spins on a
//! line of its own, while the lock stays one 32-bit word:
//!
//! | bits  | field   | meaning                                                          |
//! |-------|---------|------------------------------------------------------------------|
//! | 0-7   | locked  | 0 free, 1 held, 3 held and the queue head sleeps (pv only)        |
//! | 8-15  | pending | native: one waiter spins on the word; pv: the queue head is awake; 2: it sleeps (asymmetric only) |
//! | 16-31 | tail    | [`NodeRef`] of the last waiter, 0 if nobody queues                |
//!
//! States are written (tail, pending, locked); `n` is any tail, `*` anything.
//!
//! ```text
//!            fast path                            unlock
//! (0,0,0) ---------------> (0,0,1) ------------------------------> (0,0,0)
//!                             | second comer takes pending (native)
//!                             v        holder leaves       takes over
//!                          (0,1,1) ------------> (0,1,0) ------------> (0,0,1)
//!                             | third comer queues
//!                             v
//!                          (n,*,*)   the head claims when locked and pending are both clear:
//!                                    (n,0,0) -> (0,0,1) if it is also the tail, else (n,0,1)
//! ```
//!
//! # Without a node
//! A head that is also the tail makes (me,0,0) -> (0,0,1). If that fails it stores locked and waits for
//! the `next` that has made it fail. A contender that finds pending clear in (me,0,0) sets it, and makes
//! it fail too: it must queue, then, as the `next`. So a CPU all of whose nodes are in use may not set
//! pending (else it could not queue, and head and contender would wait for each other for ever). It looks
//! before: one that has a node at that time has it when it is to queue, for whatever interrupts it in
//! between leaves the set of nodes as it was. What has no node tries for the free word (0,0,0), and may
//! starve.
//!
//! The other cure is a head that tries its exchange again while `next` is 0. It would poll the lock's
//! line, which is the contended one, at each hand-over. The look is one load of a line of the CPU's own,
//! on the slow path.
//!
//! Paravirtual contenders never set pending, and what has no node changes the locked byte only.
//!
//! # Orderings
//! | step                         | ordering | pairs with                                        |
//! |------------------------------|----------|---------------------------------------------------|
//! | fast path, try_lock          | Acquire  | Release of locked in unlock                        |
//! | set pending                  | AcqRel   | as above, when the lock is found free; it is an acquisition |
//! | pending owner's and head's wait | Acquire | as above; lets the claiming store or CAS be Relaxed |
//! | exchange of the tail         | AcqRel   | itself: publishes our node's initial values to the successor and predecessor |
//! | store of `prev.next`         | Release  | Acquire load of `next` by the predecessor: our `locked = 0` precedes its `locked = 1` |
//! | `next.locked = 1`            | Release  | Acquire wait on our own `locked`                   |
//!
//! What the paravirtual variant adds is in [`pv`]. Which variant a type is, is a const generic: a [`form`].

mod asym;
pub mod cna;
pub mod pv;

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::percpu::{Node, NodeRef, count_node, give_node, has_node, take_node};
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::word::LockWord;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The queued spinlock; see the [module](self) documentation. `FORM` is one of [`form`].
#[repr(transparent)]
pub struct RawQSpinLock<P: Platform, const FORM: u8 = { form::NATIVE }> {
    word: P::LockWord,
}

/// The paravirtual queued spinlock.
pub type RawPvQSpinLock<P> = RawQSpinLock<P, { form::PV }>;

/// The paravirtual queued spinlock with all ideas of the [`pv`] module.
pub type RawPvNext<P> = RawQSpinLock<P, { form::NEXT }>;

/// Which queued spinlock: [`NATIVE`](form::NATIVE), or [`PV`](form::PV) and any of the ideas that go with it.
pub mod form {
    /// Waiters spin.
    pub const NATIVE: u8 = 0;
    /// Waiters halt, free locks can be stolen: Linux's.
    pub const PV: u8 = 1;
    /// A thief that has spun for the threshold queues.
    pub const BOUND: u8 = 1 << 1;
    /// A head that was kicked in vain halts again.
    pub const REHASH: u8 = 1 << 2;
    /// The release is a plain store; a head that is about to halt pays for it.
    pub const ASYM: u8 = 1 << 3;
    /// One try to steal, no more: Linux before 4.15.
    pub const ONE_TRY: u8 = 1 << 4;
    /// The release is a full barrier: Linux before 4.9.
    pub const FULL: u8 = 1 << 5;
    /// All ideas of ours.
    pub const NEXT: u8 = PV | BOUND | REHASH | ASYM;
}

// Values of the locked byte.
pub(crate) const UNLOCKED: u8 = 0;
const LOCKED: u8 = 1;
/// Held, and the queue head sleeps: release through the hash table (pv only).
const SLOW: u8 = 3;

// Lanes of the word for sub-word accesses.
pub(crate) const LOCKED_LANE: usize = 0;
const PENDING_LANE: usize = 1;
/// Half-word lane of locked and pending together.
const LOCKED_PENDING_LANE: usize = 0;
/// Half-word lane.
const TAIL_LANE: usize = 1;

// Masks and values in the whole word.
const LOCKED_MASK: u32 = 0xff;
const PENDING_BIT: u32 = 8;
const PENDING: u32 = 1 << PENDING_BIT;
/// In the pending byte: the queue head sleeps (asymmetric only).
const ASLEEP: u8 = 2;
const WORD_ASLEEP: u32 = (ASLEEP as u32) << PENDING_BIT;
const TAIL_SHIFT: u32 = 16;
const TAIL_MASK: u32 = 0xffff << TAIL_SHIFT;
pub(crate) const WORD_LOCKED: u32 = LOCKED as u32;

const fn locked(word: u32) -> bool {
    word & LOCKED_MASK != 0
}

/// Neither held nor about to be taken by a pending waiter.
const fn available(word: u32) -> bool {
    word & (LOCKED_MASK | PENDING) == 0
}

const fn tail(word: u32) -> u32 {
    (word & TAIL_MASK) >> TAIL_SHIFT
}

impl<P: Platform, const FORM: u8> RawQSpinLock<P, FORM> {
    const PV: bool = Self::has(form::PV);

    /// Whether it has this idea.
    const fn has(idea: u8) -> bool {
        FORM & idea != 0
    }

    /// Waits as the only contender, on the word itself. `None` if there are others: queue.
    fn lock_pending(&self, mut seen: u32) -> Option<Held> {
        // A CPU that sets pending must be able to queue: see the module.
        if !has_node::<P>(P::cpu()) {
            return None;
        }
        // (0,1,0): a pending owner is taking over. A few more looks often spare us the queue.
        let mut looks = P::PENDING_LOOPS;
        while seen == PENDING && looks > 0 {
            P::relax();
            seen = self.word.load(Relaxed);
            looks -= 1;
        }
        if seen & !LOCKED_MASK != 0 {
            return None;
        }

        // (0,0,*) -> (0,1,*). AcqRel: Acquire if we find it free; see the table.
        let seen = self.word.fetch_set_bit(PENDING_BIT, AcqRel);
        if seen & !LOCKED_MASK != 0 {
            // (n,0,*) -> (n,1,*) was wrong: take it back, unless pending is another's.
            if seen & PENDING == 0 {
                self.word.store_u8(PENDING_LANE, 0, Release);
            }
            return None;
        }

        if locked(seen) {
            P::trace(self, TraceEvent::Head);
            // Acquire pairs with the Release in release().
            P::spin_until(&self.word, Acquire, |word| !locked(word));
        }
        // (n,1,0) -> (n,0,1). Nobody else may take the lock while pending is ours, so a store does.
        // Release orders the taking of pending before it for the head, which then leaves its wait.
        self.word
            .store_u16(LOCKED_PENDING_LANE, u16::from(LOCKED), Release);
        let held = self.held(How::Pending);
        P::count(LockEvent::LockPending, 1);
        Some(held)
    }

    /// Waits in the queue, or without a node until the lock is free.
    fn lock_queued(&self, wait_in_queue: impl Fn(NodeRef) -> Held) -> Held {
        let node = take_node::<P>(P::cpu());
        count_node::<P>(node);
        if let Some(me) = node {
            let held = wait_in_queue(me);
            give_node::<P>(me);
            return held;
        }
        loop {
            if let Some(held) = self.try_lock_unqueued() {
                return held;
            }
            P::relax();
        }
    }

    /// The last try before queueing: plain for native, stealing for paravirtual.
    fn try_lock_unqueued(&self) -> Option<Held> {
        let (claimed, how) = if Self::PV {
            (self.pv_steal(), How::Stolen)
        } else {
            (self.claim(), How::Fast)
        };
        claimed.then(|| self.held(how))
    }

    /// Takes the lock if nobody holds it or waits for it.
    #[inline(always)]
    fn claim(&self) -> bool {
        self.word.load(Relaxed) == 0
            // (0,0,0) -> (0,0,1). Acquire pairs with the Release in release().
            && self.word.compare_exchange(0, WORD_LOCKED, Acquire, Relaxed).is_ok()
    }

    fn wait_in_queue(&self, me: NodeRef) -> Held {
        let node: &Node<P> = me.node();
        node.locked.store(0, Relaxed);
        node.next.store(0, Relaxed);
        if Self::PV {
            node.state.store(pv::RUNNING, Relaxed);
        }
        // Bringing our node's line in took a while: the lock may have become free.
        if let Some(held) = self.try_lock_unqueued() {
            return held;
        }

        // (p,*,*) -> (me,*,*). AcqRel: see the table.
        let before = self.word.swap_u16(TAIL_LANE, me.raw(), AcqRel);
        let before = NodeRef::from_raw(before.into());
        P::trace(self, TraceEvent::QueuedBehind(before.map(NodeRef::cpu)));
        let mut next = 0;
        if let Some(prev) = before {
            let prev: &Node<P> = prev.node();
            // Release pairs with the Acquire load of next below, in the predecessor.
            prev.next.store(me.raw().into(), Release);
            if Self::PV {
                self.pv_wait_node(node, prev);
            }
            // Acquire pairs with the Release store of locked below, in the predecessor.
            P::spin_until(&node.locked, Acquire, |locked| locked != 0);
            next = node.next.load(Acquire);
        }

        // We are the head.
        if before.is_some() {
            P::trace(self, TraceEvent::Head);
        }
        let word = if Self::PV {
            self.pv_lock_as_head(me)
        } else {
            // Acquire pairs with the Release in release().
            P::spin_until(&self.word, Acquire, available)
        };
        if tail(word) == me.raw().into()
            // (me,0,*) -> (0,0,1). Relaxed: the lock was acquired by the wait above.
            && self.word.compare_exchange(word, WORD_LOCKED, Relaxed, Relaxed).is_ok()
        {
            return self.held(How::Queue);
        }
        if !Self::PV {
            // (n,*,0) -> (n,*,1); `*` because a late comer may be setting and clearing pending.
            self.word.store_u8(LOCKED_LANE, LOCKED, Relaxed);
        }
        let held = self.held(How::Queue);

        // Somebody queued behind us; it may not have linked itself yet.
        if next == 0 {
            next = P::spin_until(&node.next, Acquire, |next| next != 0);
        }
        if let Some(next) = NodeRef::from_raw(next) {
            // Release pairs with the Acquire wait on locked above, in the successor.
            next.node::<P>().locked.store(1, Release);
            if Self::PV {
                self.pv_advance(next);
            }
        }
        held
    }
}

impl<P: Platform, const FORM: u8> Traced for RawQSpinLock<P, FORM> {
    type Platform = P;
    /// The word.
    type Seen = u32;

    #[inline(always)]
    fn fast(&self) -> Result<(), u32> {
        // (0,0,0) -> (0,0,1). Acquire pairs with the Release in release().
        let claimed = self.word.compare_exchange(0, WORD_LOCKED, Acquire, Relaxed);
        claimed.map(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, seen: u32) -> Held {
        P::count(LockEvent::Contended, 1);
        if !Self::PV {
            // Paravirtual waiters do not use pending this way: see the `pv` module.
            if let Some(held) = self.lock_pending(seen) {
                return held;
            }
            P::count(LockEvent::LockSlowpath, 1);
        }
        self.lock_queued(|me| self.wait_in_queue(me))
    }

    #[inline]
    fn try_fast(&self) -> bool {
        self.claim()
    }

    #[inline(always)]
    fn release(&self) {
        if Self::PV {
            self.pv_unlock();
        } else {
            // (*,*,1) -> (*,*,0). Release pairs with every Acquire on the word.
            self.word.store_u8(LOCKED_LANE, UNLOCKED, Release);
        }
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != 0
    }
}

zeroed!(RawQSpinLock[const FORM: u8]: word: LockWord);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let word = low(state);
    match word & LOCKED_MASK {
        0 => f.write_str("free")?,
        1 => f.write_str("held")?,
        3 => f.write_str("held, queue head asleep")?,
        other => write!(f, "locked byte {other:#x}")?,
    }
    if word & WORD_ASLEEP != 0 {
        f.write_str(", queue head asleep")?;
    }
    if word & PENDING != 0 {
        f.write_str(", pending")?;
    }
    if let Some(tail) = NodeRef::from_raw(tail(word)) {
        write!(f, ", queue ends at {tail}")?;
    }
    Ok(())
}
