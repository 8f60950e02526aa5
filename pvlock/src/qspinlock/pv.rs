//! What the paravirtual queued spinlock does differently.
//!
//! A waiter that has spun for [`Platform::pv_spin_threshold`] turns halts its vCPU, so that the
//! hypervisor can run somebody useful, and is kicked when it has something to do.
//!
//! * *pending* means: the queue head is awake. While it is clear, newcomers may steal a free lock;
//!   so a preempted or sleeping head delays nobody. Once it is set they must queue.
//! * A queued waiter halts when its time is up, or at once when the one before it is not running.
//! * A halted waiter that becomes head is not woken: its predecessor enters it into the hash table
//!   and marks the word SLOW, as the waiter would do itself. One kick at the release serves for both.
//! * A head that halts enters itself, and marks the word SLOW. The release then looks it up.
//!
//! # States of a queued node
//! | state   | meaning                                            | leaves to                       |
//! |---------|----------------------------------------------------|---------------------------------|
//! | RUNNING | spins                                              | HALTED, HASHED (itself)         |
//! | HALTED  | queued, halts or is about to                       | RUNNING (itself), HASHED (owner) |
//! | HASHED  | the lock is in the table; is head, or soon will be | RUNNING (itself)                |
//!
//! # No lost wake-up
//! Each column is one CPU; the fences make it impossible that both loads miss both stores.
//!
//! | queued waiter halts            | new owner advances it           |
//! |--------------------------------|---------------------------------|
//! | state = HALTED                 | next.locked = 1                 |
//! | fence(SeqCst)                  | fence(SeqCst)                   |
//! | halt only if locked == 0       | CAS state HALTED -> HASHED      |
//!
//! | queue head halts               | holder releases                 |
//! |--------------------------------|---------------------------------|
//! | hash entry stored              | CAS locked 1 -> 0 fails: SLOW    |
//! | swap locked -> SLOW (SeqCst)   | fence(Acquire)                  |
//! | halt only while locked == SLOW | look up; locked = 0; kick        |
//!
//! A kick that falls between a check and its halt is kept by the platform
//! ([`Platform::halt_while`]).

use super::{
    LOCKED, LOCKED_LANE, LOCKED_MASK, LOCKED_PENDING_LANE, PENDING, PENDING_LANE, RawQSpinLock,
    SLOW, UNLOCKED, available, form, locked, tail,
};
use crate::atomic::{Atomic, Watch};
use crate::event::LockEvent;
use crate::percpu::{Node, NodeRef};
use crate::trace::TraceEvent;
use crate::word::LockWord;
use crate::{Platform, pv_hash};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Node state: the waiter spins.
pub const RUNNING: u32 = 0;
/// Node state: the waiter, queued behind another, halts.
pub const HALTED: u32 = 1;
/// Node state: the waiter is, or is made, head, and the lock is in the hash table.
pub const HASHED: u32 = 2;
/// Node state, of a lock that hashes again: the waiter is made head, and not yet in the hash table.
pub const HASHING: u32 = 3;

/// Turns between two looks at whether the predecessor still runs.
const PREV_CHECK_TURNS: u32 = 256;

/// Turns between two looks of a bounded thief at the lock's line, which it takes away from those who work.
const THIEF_TURNS: u32 = 2;

/// The threshold in use: without a single turn the head would never try for the lock.
fn spin_threshold<P: Platform>() -> u32 {
    P::pv_spin_threshold().max(1)
}

/// Spins in the queue. `None` once we are head, else whether we gave up early.
fn spin_in_queue<P: Platform>(node: &Node<P>, prev: &Node<P>) -> Option<bool> {
    let mut left = spin_threshold::<P>();
    while left > 0 {
        if node.locked.load(Relaxed) != 0 {
            return None;
        }
        if prev.state.load(Relaxed) != RUNNING {
            return Some(true);
        }
        let mut turns = left.min(PREV_CHECK_TURNS);
        left -= turns;
        if P::spin_for(&node.locked, Relaxed, &mut turns, |locked| locked != 0).is_some() {
            return None;
        }
    }
    Some(false)
}

/// Halts while `asleep` holds; counts how long the kick that ended it took to arrive.
fn halt<P: Platform, W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
    let kick_time = &P::percpu(P::cpu()).kick_time;
    kick_time.store(0, Relaxed);
    P::halt_while(word, asleep);
    let kicked = kick_time.load(Relaxed);
    if kicked != 0 {
        P::count(LockEvent::PvKickWake, 1);
        P::count(LockEvent::PvLatencyWake, P::now().saturating_sub(kicked));
    }
}

pub(super) fn kick<P: Platform>(cpu: u32) {
    let start = P::now();
    P::percpu(cpu).kick_time.store(start, Relaxed);
    P::kick(cpu);
    P::count(LockEvent::PvLatencyKick, P::now().saturating_sub(start));
}

impl<P: Platform, const FORM: u8> RawQSpinLock<P, FORM> {
    /// Waits in the queue, awake or halted, until `node.locked` is set.
    ///
    /// The caller loads `locked` again, with Acquire.
    pub(super) fn pv_wait_node(&self, node: &Node<P>, prev: &Node<P>) {
        loop {
            let Some(early) = spin_in_queue(node, prev) else {
                return;
            };

            node.state.store(HALTED, Relaxed);
            // First table of the module: our state before our load of locked.
            P::fence(SeqCst);
            if node.locked.load(Relaxed) == 0 {
                P::count(LockEvent::PvWaitNode, 1);
                P::count(LockEvent::PvWaitEarly, early.into());
                P::trace(self, TraceEvent::HaltQueued);
                halt::<P, _>(&node.state, |state| state == HALTED);
                P::trace(self, TraceEvent::Woken);
            }
            // Fails if the owner has advanced us: HASHED stays, and tells pv_lock_as_head() so.
            // Acquire pairs with the owner's CAS in pv_advance(); Release keeps the halt's loads before.
            let _ = node
                .state
                .compare_exchange(HALTED, RUNNING, AcqRel, Acquire);
            if node.locked.load(Relaxed) == 0 {
                P::trace(self, TraceEvent::Spurious);
                P::count(LockEvent::PvSpuriousWakeup, 1);
            }
        }
    }

    /// Takes a free lock past the queue. False if we must queue: the queue is empty, its head is awake, or,
    /// if that is bounded, our time is up, or this was the one try that there is.
    pub(super) fn pv_steal(&self) -> bool {
        let mut time = Self::has(form::BOUND).then(spin_threshold::<P>);
        loop {
            let word = self.word.load(Relaxed);
            if available(word)
                // (*,*,0) -> (*,*,1). Pending and tail may change under this byte-wide exchange,
                // which is why the head claims pending and locked together.
                // Acquire pairs with the Release in pv_unlock().
                && self
                    .word
                    .compare_exchange_u8(LOCKED_LANE, UNLOCKED, LOCKED, Acquire, Relaxed)
                    .is_ok()
            {
                P::count(LockEvent::PvLockStealing, 1);
                return true;
            }
            if Self::has(form::ONE_TRY) || tail(word) == 0 || word & PENDING != 0 {
                return false;
            }
            let Some(left) = &mut time else {
                P::relax();
                continue;
            };
            for _ in 0..THIEF_TURNS {
                P::relax();
            }
            *left = left.saturating_sub(THIEF_TURNS);
            if *left == 0 {
                return false;
            }
        }
    }

    /// Called by the new owner that has just made `next` head of the queue: if it is halted, does
    /// for it what it would do before halting as head.
    pub(super) fn pv_advance(&self, next: NodeRef) {
        // First table of the module: next.locked before the load of its state.
        P::fence(SeqCst);
        let state = &next.node::<P>().state;
        let hashed = if Self::has(form::REHASH) {
            HASHING
        } else {
            HASHED
        };
        // AcqRel pairs with the waiter's own CAS in pv_wait_node().
        if state
            .compare_exchange(HALTED, hashed, AcqRel, Relaxed)
            .is_err()
        {
            return; // It runs, and will see locked.
        }
        if Self::has(form::ASYM) {
            self.asym_advance(next);
        } else {
            // (n,0,1) -> (n,0,3). Marked before hashed: fine, because we are the one who will release.
            self.word.store_u8(LOCKED_LANE, SLOW, Relaxed);
            pv_hash::insert::<P>(P::lock_key(self), next);
        }
        if Self::has(form::REHASH) {
            // Release pairs with the Acquire wait in is_promoted().
            state.store(HASHED, Release);
        }
    }

    /// Waits as head of the queue and takes the lock. Returns a word seen while holding it.
    pub(super) fn pv_lock_as_head(&self, me: NodeRef) -> u32 {
        if Self::has(form::ASYM) {
            return self.asym_lock_as_head(me);
        }
        let node: &Node<P> = me.node();
        let mut hashed = Self::is_promoted(node);
        P::count(LockEvent::LockSlowpath, 1);
        let mut halts = 0;
        loop {
            node.state.store(RUNNING, Relaxed);
            if self.spin_as_head() {
                break;
            }
            if !hashed {
                let slot = pv_hash::insert::<P>(P::lock_key(self), me);
                hashed = true;
                // (n,0,1) -> (n,0,3). Second table of the module: our entry before the mark.
                // A thief may have come in between; then it is the one that releases through us.
                if self.word.swap_u8(LOCKED_LANE, SLOW, SeqCst) == UNLOCKED {
                    // (n,0,0) -> (n,0,3) was an acquisition. Make it a plain one before the entry
                    // goes, or our release would look for it.
                    self.word.store_u8(LOCKED_LANE, LOCKED, Relaxed);
                    pv_hash::clear(slot);
                    break;
                }
            }
            // Once the entry has been used the byte is not SLOW any more, even if a thief holds the
            // lock: an unhashed head never sleeps.
            self.halt_as_head(node, &mut halts, |word| {
                word & LOCKED_MASK == u32::from(SLOW)
            });
            if Self::has(form::REHASH) {
                // The releaser takes the entry out before it stores 0, so it is there exactly as long as the
                // byte is SLOW. Acquire pairs with that store, and with the thief's exchange that follows it.
                hashed = self.word.load(Acquire) & LOCKED_MASK == u32::from(SLOW);
            }
        }
        self.word.load(Relaxed)
    }

    /// Halts as head of the queue while `asleep` holds for the word; the head has halted that often before.
    pub(super) fn halt_as_head(
        &self,
        node: &Node<P>,
        halts: &mut u32,
        asleep: impl Fn(u32) -> bool,
    ) {
        node.state.store(HASHED, Relaxed);
        P::count(LockEvent::PvWaitHead, 1);
        P::count(LockEvent::PvWaitAgain, (*halts > 0).into());
        *halts += 1;
        P::trace(self, TraceEvent::HaltHead);
        halt::<P, _>(&self.word, asleep);
        P::trace(self, TraceEvent::Woken);
    }

    /// Whether the owner that made us head has entered us into the table. It may be about to: a head that
    /// took "not yet entered" for "used up" would enter itself a second time.
    pub(super) fn is_promoted(node: &Node<P>) -> bool {
        let state = if Self::has(form::REHASH) {
            // Acquire pairs with the Release in pv_advance().
            P::spin_until(&node.state, Acquire, |state| state != HASHING)
        } else {
            node.state.load(Relaxed)
        };
        state == HASHED
    }

    /// Spins for the lock with pending set: no one else can take it then.
    pub(super) fn spin_as_head(&self) -> bool {
        // (n,0,*) -> (n,1,*)
        self.word.store_u8(PENDING_LANE, 1, Relaxed);
        let mut budget = spin_threshold::<P>();
        while P::spin_for(&self.word, Relaxed, &mut budget, |word| !locked(word)).is_some() {
            // (n,1,0) -> (n,0,1). Acquire pairs with the Release in pv_unlock(). Fails if a thief
            // that had not yet seen pending was faster.
            if self
                .word
                .compare_exchange_u16(
                    LOCKED_PENDING_LANE,
                    (PENDING & 0xffff) as u16,
                    u16::from(LOCKED),
                    Acquire,
                    Relaxed,
                )
                .is_ok()
            {
                return true;
            }
        }
        // (n,1,*) -> (n,0,*)
        self.word.store_u8(PENDING_LANE, 0, Relaxed);
        false
    }

    #[inline(always)]
    pub(super) fn pv_unlock(&self) {
        if Self::has(form::ASYM) {
            return self.asym_unlock();
        }
        if Self::has(form::FULL) {
            // On either side, as a full barrier has it; nothing of ours pairs with more than the Release.
            P::fence(SeqCst);
        }
        // (*,*,1) -> (*,*,0). Release pairs with every Acquire on the word. A plain store would
        // release a lock marked SLOW before its entry is gone, and the next holder could hash the
        // same lock again.
        if let Err(found) =
            self.word
                .compare_exchange_u8(LOCKED_LANE, LOCKED, UNLOCKED, Release, Relaxed)
        {
            self.pv_unlock_slow(found);
        }
    }

    #[cold]
    #[inline(never)]
    fn pv_unlock_slow(&self, found: u8) {
        assert!(
            found == SLOW,
            "pv-qspinlock: released with {found:#x} in its locked byte"
        );
        // Second table of the module: the failed exchange orders nothing by itself. Pairs with the
        // SeqCst swap in pv_lock_as_head().
        P::fence(Acquire);
        let head = pv_hash::remove::<P>(P::lock_key(self));
        // (n,*,3) -> (n,*,0). Release as in pv_unlock(). The lock's memory may be freed from here on.
        self.word.store_u8(LOCKED_LANE, UNLOCKED, Release);
        P::count(LockEvent::PvKickUnlock, 1);
        P::trace(self, TraceEvent::Kick(head.cpu()));
        kick::<P>(head.cpu());
    }
}
