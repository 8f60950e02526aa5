//! Sleeping locks in all orders that weak memory allows, as far as loom explores them.
//!
//! The wait lock is a ticket lock here, as the queued ones are checked by themselves (`tests/loom.rs`).
//! *Patient* CPUs spin until the lock is free; *impatient* ones are wanted by other tasks from the start,
//! so they leave the spinners' queue, and sleep.
//!
//! | lock       | CPU 0     | CPU 1       | patient | preemptions | executions |
//! |------------|-----------|-------------|---------|-------------|------------|
//! | osq        | 1         | 1           | yes     | any         | 140        |
//! | osq        | 1         | 1           | no      | any         | 810        |
//! | mutex      | 1         | 1           | yes     | any         | 65         |
//! | mutex      | 1         | 1           | no      | up to 3     | 190        |
//! | mutex      | 2         | 2           | no      | up to 2     | 120        |
//! | rwsem      | write     | write       | yes     | up to 3     | 510        |
//! | rwsem      | write     | read        | yes     | up to 3     | 790        |
//! | rwsem      | write     | write       | no      | up to 3     | 970        |
//! | rwsem      | write     | read, write | no      | up to 3     | 1,800      |
//! | rwsem      | downgrade | read        | no      | up to 3     | 640        |
//! | rwsem      | downgrade | write       | no      | up to 3     | 1,300      |
//! | rwsem-xadd | write     | write       | yes     | up to 3     | 430        |
//! | rwsem-xadd | write     | read        | yes     | up to 3     | 210        |
//! | ... +rspin+respin | write | read     | yes     | up to 3     | 450        |
//! | rwsem-xadd | write     | write       | no      | up to 3     | 140        |
//! | rwsem-xadd, with and without +rspin+respin | write | read, write | no | up to 4 | 1,400 |
//!
//! Not explored: the impatient mutex without a bound (more than a minute).
//!
//! Three CPUs in the spinners' queue: with up to two preemptions, 440 executions; leaving it, with one,
//! as with two loom lets two of them wait for the third and never runs that one. That queue with more
//! CPUs, and the locks with three and more, are `tests/sleep.rs`'s, with sequentially consistent memory.

#![allow(clippy::unwrap_used)]

#[path = "support/loom.rs"]
mod machine;
#[path = "support/loom_models.rs"]
mod models;

use Side::{Downgrade, Read, Write};
use loom::cell::UnsafeCell;
use machine::{Explored, Loom, Mutation, check, impatient, spawn};
use models::{Guarded, RACE, add_one, beside, contend, look, report_of};
use pvlock::LockEvent::*;
use pvlock::sleep::osq::Osq;
use pvlock::sleep::rwsem_xadd::RawRwSemXadd;
use pvlock::sleep::within::Within;
use pvlock::{RawRwLock, RawRwSem, RawSleepMutex, RawTicket};
use std::rc::Rc;

type Wait = RawTicket<Within<Loom>>;
type Mutex = RawSleepMutex<Loom, Wait>;
type RwSem = RawRwSem<Loom, Wait>;
type Xadd<const RSPIN: bool, const RESPIN: bool> =
    RawRwSemXadd<Loom, false, false, RSPIN, RESPIN, Wait>;

/// `cpus` spinners, each of which adds to a plain variable if it gets to the head of the queue.
fn spinners(cpus: u32) {
    // Loom runs all threads on one of the system's.
    let shared = Rc::new((Osq::<Loom>::default(), UnsafeCell::new(0)));
    let work = |(osq, data): &Guarded<Osq<Loom>>| {
        if osq.lock() {
            add_one(data);
            osq.unlock();
        }
    };
    let others: Vec<_> = (1..cpus)
        .map(|cpu| {
            let theirs = shared.clone();
            spawn(cpu, move || work(&theirs))
        })
        .collect();
    work(&shared);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert!(!shared.0.is_locked(), "somebody is left in the queue");
}

#[test]
fn osq() {
    impatient(false);
    check(Mutation::None, None, || spinners(2));
    check(Mutation::None, Some(2), || spinners(3));
}

/// All that do not find the queue empty leave it, also beside each other.
#[test]
fn osq_that_is_left() {
    impatient(true);
    check(Mutation::None, None, || spinners(2));
    check(Mutation::None, Some(1), || spinners(3));
}

/// The exchange of the tail, the link, and what they publish: without, a node's initial values wipe out
/// what the neighbours wrote, or the next spinner does not see the one before.
#[test]
fn osq_orderings() {
    for mutation in [
        Mutation::TailExchange,
        Mutation::StoreRelease,
        Mutation::LoadAcquire,
        Mutation::CompareRelease,
    ] {
        impatient(false);
        report_of(move || check(mutation, Some(3), || spinners(2)));
    }
}

#[test]
fn mutex() {
    impatient(false);
    let explored = check(Mutation::None, None, || contend::<Mutex>([1, 1]));
    explored.saw(&[MutexOptLock]);
}

#[test]
fn mutex_that_sleeps() {
    impatient(true);
    let explored = check(Mutation::None, Some(3), || contend::<Mutex>([1, 1]));
    explored.saw(&[MutexSleep, MutexWake]);
    let explored = check(Mutation::None, Some(2), || contend::<Mutex>([2, 2]));
    explored.saw(&[MutexHandoff]);
}

/// That handing over releases is not shown: here the waiter that is given the lock is always woken for
/// it, which orders the two as well.
#[test]
fn mutex_orderings() {
    for mutation in [Mutation::CompareAcquire, Mutation::CompareRelease] {
        impatient(true);
        let text = report_of(move || check(mutation, Some(2), || contend::<Mutex>([1, 1])));
        assert!(text.contains(RACE), "{mutation:?}: {text}");
    }
}

/// What a CPU does with a reader-writer lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
    /// Writes, then reads without letting go.
    Downgrade,
}

type Sides = &'static [Side];

trait Subject: RawRwLock {
    fn downgrade(&self) {
        panic!("cannot be downgraded")
    }
}

impl Subject for RwSem {
    fn downgrade(&self) {
        pvlock::Downgrade::downgrade(self);
    }
}

impl<const RSPIN: bool, const RESPIN: bool> Subject for Xadd<RSPIN, RESPIN> {}

fn share<L: Subject>(sides: [Sides; 2]) {
    let work = |(lock, data): &Guarded<L>, sides: Sides| {
        for side in sides {
            if *side == Read {
                lock.read();
            } else {
                lock.write();
                add_one(data);
            }
            match side {
                Write => lock.write_unlock(),
                Read => {
                    look(data);
                    lock.read_unlock();
                }
                Downgrade => {
                    lock.downgrade();
                    look(data);
                    lock.read_unlock();
                }
            }
        }
    };
    let shared = beside(L::new(), 1, work, sides);
    let writes = |sides: Sides| sides.iter().filter(|side| **side != Read).count();
    assert_eq!(look(&shared.1), sides.map(writes).iter().sum());
    assert!(!shared.0.is_locked(), "somebody is left in the lock");
}

fn explore<L: Subject>(patience: bool, sides: [Sides; 2], preemptions: usize) -> Explored {
    impatient(!patience);
    check(Mutation::None, Some(preemptions), move || {
        share::<L>(sides);
    })
}

#[test]
fn rwsem() {
    let explored = explore::<RwSem>(true, [&[Write], &[Write]], 3);
    explored.saw(&[RwsemOptLock]);
    let explored = explore::<RwSem>(true, [&[Write], &[Read]], 3);
    explored.saw(&[RwsemRlock, RwsemRlockFast]);
}

#[test]
fn rwsem_that_sleeps() {
    let explored = explore::<RwSem>(false, [&[Write], &[Write]], 3);
    explored.saw(&[RwsemSleepWriter, RwsemWakeWriter]);
    let explored = explore::<RwSem>(false, [&[Write], &[Read, Write]], 3);
    explored.saw(&[RwsemSleepReader, RwsemWakeReader]);
}

#[test]
fn rwsem_downgraded() {
    let explored = explore::<RwSem>(false, [&[Downgrade], &[Read]], 3);
    explored.saw(&[RwsemSleepReader]);
    explore::<RwSem>(false, [&[Downgrade], &[Write]], 3);
}

/// A reader that is about to queue, and finds that the writer has left, was let in by a load that did
/// not acquire (Linux 4.20 to 5.2): it read stale data.
#[test]
fn rwsem_a_reader_in_by_a_mere_load() {
    impatient(false);
    let text = report_of(|| {
        check(Mutation::CountLoadAcquire, Some(3), || {
            share::<RwSem>([&[Write], &[Read]]);
        })
    });
    assert!(text.contains(RACE), "{text}");
}

/// What the orderings of a semaphore's count are for.
fn orderings<L: Subject>() {
    for mutation in [
        Mutation::CompareAcquire,
        Mutation::AddRelease,
        Mutation::AddAcquire,
    ] {
        impatient(false);
        let text = report_of(move || {
            check(mutation, Some(3), || {
                share::<L>([&[Write, Write], &[Read, Write]]);
            })
        });
        assert!(text.contains(RACE), "{mutation:?}: {text}");
    }
}

#[test]
fn rwsem_orderings() {
    orderings::<RwSem>();
}

#[test]
fn rwsem_xadd() {
    let explored = explore::<Xadd<false, false>>(true, [&[Write], &[Write]], 3);
    explored.saw(&[RwsemOptLock]);
    let explored = explore::<Xadd<false, false>>(true, [&[Write], &[Read]], 3);
    explored.saw(&[RwsemSleepReader]);
    let explored = explore::<Xadd<true, true>>(true, [&[Write], &[Read]], 3);
    explored.saw(&[RwsemOptRlock]);
}

#[test]
fn rwsem_xadd_that_sleeps() {
    let explored = explore::<Xadd<false, false>>(false, [&[Write], &[Write]], 3);
    explored.saw(&[RwsemSleepWriter, RwsemWakeWriter]);
    explore::<Xadd<false, false>>(false, [&[Write], &[Read, Write]], 4);
    explore::<Xadd<true, true>>(false, [&[Write], &[Read, Write]], 4);
}

#[test]
fn rwsem_xadd_orderings() {
    orderings::<Xadd<false, false>>();
}
