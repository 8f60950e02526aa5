//! Locks in all orders that weak memory allows, as far as loom explores them.
//!
//! | lock         | sections per thread | preemptions | executions |
//! |--------------|---------------------|-------------|------------|
//! | tas          | 2 + 2               | any         | 1,300      |
//! | ticket       | 2 + 1               | any         | 10,500     |
//! | virt-tas     | 2 + 2               | any         | 1,300      |
//! | mcs          | 2 + 1               | up to 4     | 1,400      |
//! | mcs, 5 held  | 5 + 1               | any         | 200        |
//! | ppc-spinlock | 2 + 1               | up to 3     | 1,100      |
//! | ppc-qspinlock | 2 + 1              | up to 3     | 3,600      |
//! | cna          | 2 + 1               | any         | 4,200      |
//! | cna          | 2 + 2               | up to 3     | 900        |
//! | qspinlock    | 2 + 1               | any         | 2,700      |
//! | qspinlock    | 2 + 2               | up to 4     | 2,600      |
//! | pv-qspinlock | 1 + 1               | any         | 5,700      |
//! | pv-qspinlock | 2 + 2               | up to 3     | 5,600      |
//! | any other    | 2 + 1               | up to 3     | -          |
//!
//! Two sections each are enough to queue behind somebody who queues, hence for the MCS handoff and
//! for the advance of a halted waiter. Not explored: 2 + 2 without a bound (minutes for qspinlock;
//! for pv-qspinlock more than loom can number), and three threads with more than one preemption
//! (minutes; with one they hardly queue), and 2 + 1 of mcs without a bound (25,000 executions, a
//! minute). Two CPUs never make a secondary queue of cna, which takes a head and two behind it; and
//! 2 + 2 of ppc-qspinlock (11,000, a minute) does not bring one waiter behind another, as comers steal
//! first, so that a missing Release or Acquire of its links is not found here. Those interleavings
//! are `tests/stepper.rs`'s, with sequentially consistent memory. Paravirtual waiters spin for a single turn here. Loom takes
//! `SeqCst` accesses for `AcqRel`; the locks need `SeqCst` in fences only, which loom has.
//!
//! The byte-wide word cannot be modelled (inline assembly); `tests/word.rs` ties it to this one.

#![allow(clippy::unwrap_used)]

#[path = "support/loom.rs"]
mod machine;
#[path = "support/loom_models.rs"]
mod models;
#[path = "loom/next.rs"]
mod next;
#[path = "loom/readers.rs"]
mod readers;

use loom::cell::UnsafeCell;
use machine::{Explored, Loom, Mutation, U32, check, spawn};
use models::{RACE, add_one, contend, report_of};
use pvlock::LockEvent::*;
use pvlock::LockKind::{
    self, Cna, Mcs, PpcQSpinLock, PpcSpinLock, QSpinLock, Tas, Ticket, VirtTas,
};
use pvlock::atomic::{Atomic, Watch};
use pvlock::form::{ASYM, BOUND, FULL, NEXT, ONE_TRY, PV, REHASH};
use pvlock::qspinlock::pv::{HALTED, HASHED, RUNNING};
use pvlock::{
    LockVisitor, Platform, RawCna, RawLock, RawMcs, RawPpcQSpinLock, RawPpcSpinLock, RawPvNext,
    RawPvQSpinLock, RawQSpinLock, RawTas, RawTicket, RawVirtTas,
};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// As [`contend`] for the last of `N` locks, which CPU 0 holds all at once.
fn contend_nested<L: RawLock, const N: usize>() {
    let shared = Arc::new((
        std::array::from_fn::<L, N, _>(|_| L::new()),
        UnsafeCell::new(0),
    ));
    let theirs = shared.clone();
    let other = spawn(1, move || {
        theirs.0[N - 1].lock();
        add_one(&theirs.1);
        theirs.0[N - 1].unlock();
    });
    shared.0.iter().for_each(L::lock);
    add_one(&shared.1);
    shared.0.iter().for_each(L::unlock);
    other.join().unwrap();
    assert!(!shared.0.iter().any(L::is_locked));
}

fn explore<L: RawLock>(rounds: [usize; 2], preemptions: Option<usize>) -> Explored {
    check(Mutation::None, preemptions, move || contend::<L>(rounds))
}

/// How loom reports `mutation`. Which must be made of a model that is sound without it.
#[track_caller]
fn found<L: RawLock>(mutation: Mutation, rounds: [usize; 2]) -> String {
    report_of(move || check(mutation, Some(3), move || contend::<L>(rounds)))
}

/// With each of these mutations two CPUs that take the lock once race.
#[track_caller]
fn race<L: RawLock>(mutations: &[Mutation]) {
    for &mutation in mutations {
        let text = found::<L>(mutation, [1, 1]);
        assert!(text.contains(RACE), "{mutation:?}: {text}");
    }
}

/// Somebody sleeps for ever.
const DEADLOCK: &str = "deadlock";
/// Somebody spins for ever.
const LIVELOCK: &str = "exceeded maximum number of branches";

struct Exclusion {
    rounds: [usize; 2],
    preemptions: Option<usize>,
}

impl LockVisitor<Loom> for Exclusion {
    type Output = Explored;

    fn visit<L: RawLock>(self) -> Explored {
        explore::<L>(self.rounds, self.preemptions)
    }
}

/// Every lock without a read side, but those of which more is asked below.
#[test]
fn every_lock_excludes() {
    for &kind in LockKind::ALL {
        let traits = kind.traits();
        if kind.is_rw() || traits.sleeps || traits.control {
            continue;
        }
        let (rounds, preemptions) = match kind {
            Tas | VirtTas => ([2, 2], None),
            Ticket => ([2, 1], None),
            Mcs => ([2, 1], Some(4)),
            PpcSpinLock | PpcQSpinLock | QSpinLock | Cna => continue,
            _ if traits.halts => continue,
            _ => ([2, 1], Some(3)),
        };
        let exclusion = Exclusion {
            rounds,
            preemptions,
        };
        let explored = kind.visit::<Loom, _>(exclusion);
        assert!(explored.count(Contended) > 0, "{kind}");
    }
}

/// A holder without a node has a successor, which finds it through the lock.
#[test]
fn mcs_without_a_node() {
    let explored = check(Mutation::None, None, || {
        contend_nested::<RawMcs<Loom>, 5>();
    });
    explored.saw(&[LockNoNode]);
}

#[test]
fn mcs_handoff() {
    let found = |mutation| found::<RawMcs<Loom>>(mutation, [1, 1]);
    assert!(found(Mutation::CompareRelease).contains(RACE));
    // Either the handoff, or the initial values of the node, which then wipe it out.
    for mutation in [
        Mutation::LoadAcquire,
        Mutation::StoreRelease,
        Mutation::TailExchange,
    ] {
        let text = found(mutation);
        assert!(text.contains(RACE) || text.contains(LIVELOCK), "{text}");
    }
}

#[test]
fn ppc_spinlock() {
    let explored = explore::<RawPpcSpinLock<Loom>>([2, 1], Some(3));
    explored.saw(&[PpcYieldOwner]);
    race::<RawPpcSpinLock<Loom>>(&[Mutation::StoreRelease, Mutation::CompareAcquire]);
}

#[test]
fn ppc_qspinlock() {
    let explored = explore::<RawPpcQSpinLock<Loom>>([2, 1], Some(3));
    explored.saw(&[LockSlowpath, PpcSteal, PpcYieldOwner]);
    race::<RawPpcQSpinLock<Loom>>(&[Mutation::SubWordRelease, Mutation::WordAcquire]);
}

#[test]
fn qspinlock() {
    let explored = explore::<RawQSpinLock<Loom>>([2, 1], None);
    explored.saw(&[LockPending]);
    let explored = explore::<RawQSpinLock<Loom>>([2, 2], Some(4));
    explored.saw(&[LockSlowpath]);
}

#[test]
fn cna() {
    let explored = explore::<RawCna<Loom>>([2, 1], None);
    explored.saw(&[LockPending]);
    let explored = explore::<RawCna<Loom>>([2, 2], Some(3));
    explored.saw(&[LockSlowpath]);
    race::<RawCna<Loom>>(&[Mutation::SubWordRelease, Mutation::WordAcquire]);
    for mutation in [Mutation::TailExchange, Mutation::StoreRelease] {
        assert!(found::<RawCna<Loom>>(mutation, [2, 2]).contains(LIVELOCK));
    }
}

#[test]
fn pv_qspinlock() {
    let explored = explore::<RawPvQSpinLock<Loom>>([1, 1], None);
    explored.saw(&[PvLockStealing]);
    // P5: the head found the lock free when it marked it, so its entry led to no kick.
    assert!(explored.count(PvHashHops) > explored.count(PvKickUnlock));
}

#[test]
fn pv_qspinlock_with_a_queue() {
    let explored = explore::<RawPvQSpinLock<Loom>>([2, 2], Some(3));
    explored.saw(&[PvWaitHead, PvWaitNode, PvWaitAgain, PvLockStealing]);
}

/// Both barriers are full fences here, which is what the heavy one makes of the light one. That each of them is
/// needed shows in [`next`]: the word of this machine is one atomic, whose bytes have one order.
#[test]
fn pv_ideas() {
    explore_pv::<{ PV | BOUND }>();
    explore_pv::<{ PV | REHASH }>();
    explore_pv::<{ PV | ASYM }>();
    explore_pv::<{ PV | BOUND | REHASH }>();
    explore_pv::<{ PV | BOUND | ASYM }>();
    explore_pv::<{ PV | REHASH | ASYM }>();
    explore_pv::<{ PV | ONE_TRY }>();
    explore_pv::<{ PV | ONE_TRY | FULL }>();
}

#[test]
fn pv_next() {
    explore_pv::<{ NEXT }>();
}

fn explore_pv<const FORM: u8>() {
    explore::<RawQSpinLock<Loom, FORM>>([1, 1], None);
    let explored = explore::<RawQSpinLock<Loom, FORM>>([2, 2], Some(3));
    for event in [PvWaitHead, PvWaitNode] {
        assert!(explored.count(event) > 0, "{FORM}: {}", event.name());
    }
}

#[test]
fn a_release_that_does_not_release_is_found() {
    let word = Mutation::SubWordRelease;
    race::<RawTas<Loom>>(&[Mutation::StoreRelease]);
    race::<RawTicket<Loom>>(&[word]);
    race::<RawVirtTas<Loom>>(&[word]);
    race::<RawQSpinLock<Loom>>(&[word]);
    race::<RawPvQSpinLock<Loom>>(&[word]);
    race::<RawPvNext<Loom>>(&[word]);
}

#[test]
fn an_acquisition_that_does_not_acquire_is_found() {
    let word = Mutation::WordAcquire;
    race::<RawVirtTas<Loom>>(&[word]);
    race::<RawTicket<Loom>>(&[word]);
    race::<RawQSpinLock<Loom>>(&[word]);
    race::<RawPvQSpinLock<Loom>>(&[word]);
}

/// The node's own initialisation comes after the handoff and wipes it out.
///
/// For pv-qspinlock only the exchange of the tail is shown to matter. Its node stores and loads made
/// Relaxed survive this model: the handoff there also passes through the fences of P1 and the
/// acquisition of the word, or the failure needs more preemptions than are explored.
#[test]
fn a_tail_exchange_or_link_that_publishes_nothing_is_found() {
    for mutation in [
        Mutation::TailExchange,
        Mutation::StoreRelease,
        Mutation::LoadAcquire,
    ] {
        assert!(found::<RawQSpinLock<Loom>>(mutation, [2, 2]).contains(LIVELOCK));
    }
    assert!(found::<RawPvQSpinLock<Loom>>(Mutation::TailExchange, [2, 2]).contains(LIVELOCK));
}

#[test]
fn p1_a_missing_fence_loses_the_wake_up() {
    let text = found::<RawPvQSpinLock<Loom>>(Mutation::Fence(SeqCst), [2, 2]);
    assert!(text.contains(DEADLOCK), "{text}");
}

#[test]
fn p3_a_missing_fence_loses_the_entry() {
    let text = found::<RawPvQSpinLock<Loom>>(Mutation::Fence(Acquire), [1, 1]);
    assert!(text.contains("none is hashed"), "{text}");
}

/// The first table of `qspinlock/pv.rs` by itself: store, fence, load on both sides.
fn store_buffering() {
    let shared = Arc::new([U32::<true>::new(RUNNING), U32::new(0)]);
    let theirs = shared.clone();
    let waiter = spawn(1, move || {
        let [state, locked] = &*theirs;
        state.store(HALTED, Relaxed);
        Loom::fence(SeqCst);
        if locked.load(Relaxed) == 0 {
            // The owner must have seen us halt, or will.
            let advanced = |state: u32| state == HASHED;
            Loom::spin_until(state, Relaxed, advanced);
        }
    });
    let [state, locked] = &*shared;
    locked.store(1, Release);
    Loom::fence(SeqCst);
    let _ = state.compare_exchange(HALTED, HASHED, Relaxed, Relaxed);
    waiter.join().unwrap();
}

/// The second table: the entry is written before the mark, and found by whoever sees the mark.
fn entry_before_mark() {
    const SLOW: u32 = 3;
    let shared = Arc::new([U32::<true>::new(0), U32::new(1)]);
    let theirs = shared.clone();
    let head = spawn(1, move || {
        let [entry, locked] = &*theirs;
        entry.store(7, Relaxed);
        locked.swap(SLOW, SeqCst);
    });
    let [entry, locked] = &*shared;
    if locked.compare_exchange(1, 0, Release, Relaxed) == Err(SLOW) {
        Loom::fence(Acquire);
        assert_eq!(entry.load(Relaxed), 7, "no entry");
    }
    head.join().unwrap();
}

#[test]
fn p1_store_buffering() {
    check(Mutation::None, None, store_buffering);
    assert!(catch_unwind(|| check(Mutation::Fence(SeqCst), None, store_buffering)).is_err());
}

#[test]
fn p3_entry_before_mark() {
    check(Mutation::None, None, entry_before_mark);
    assert!(catch_unwind(|| check(Mutation::Fence(Acquire), None, entry_before_mark)).is_err());
}
