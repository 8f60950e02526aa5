//! Locks under every schedule that fits. R and P numbers name the races of the lock's literature:
//!
//! | race | what must not go wrong                                                               |
//! |------|--------------------------------------------------------------------------------------|
//! | R1   | a contender sets pending on (n,0,0) and takes it back while the head claims            |
//! | R2   | the word is (0,1,0) for a moment: pending owner takes over                             |
//! | R3   | queue head and pending owner both see the lock free                                    |
//! | R4   | an interrupt takes a lock of its own at any point of a wait                            |
//! | R5   | a fifth nested wait finds no node left                                                 |
//! | P1   | waiter says "halted" while the owner makes it head                                      |
//! | P2   | the kick comes between the check and the halt                                          |
//! | P3   | the release sees the mark: it must find the entry                                      |
//! | P4   | a thief takes the lock between the head's last try and its mark                        |
//! | P5   | the head's mark finds the lock free                                                    |
//! | P6   | the owner marks before it hashes                                                       |
//! | P7   | thief and head try for the same free lock                                              |
//! | P8   | unfounded wake-ups                                                                     |
//! | P9   | the kick reaches a CPU that has long gone elsewhere                                    |

#![allow(clippy::unwrap_used)]

#[path = "stepper/checker.rs"]
mod checker;
#[path = "stepper/cna.rs"]
mod cna;
#[path = "stepper/conformance.rs"]
mod conformance;
#[path = "stepper/nodes.rs"]
mod nodes;
#[path = "stepper/order.rs"]
mod order;
#[path = "stepper/ppc.rs"]
mod ppc;
#[path = "stepper/readers.rs"]
mod readers;
#[path = "support/rng.rs"]
mod rng;
#[path = "stepper/schedulers.rs"]
mod schedulers;
#[path = "support/stepper/mod.rs"]
mod stepper;

use pvlock::LockEvent::*;
use pvlock::LockKind::{
    self, Busted, Cna, Mcs, PpcQSpinLock, PpcSpinLock, PvQSpinLock, QSpinLock, Tas, Ticket,
};
use pvlock::conformance::inconsistency;
use pvlock::word::{LockWord, PortableWord};
use std::sync::atomic::AtomicU32;
use stepper::{
    Config, Failure, Interrupt, Kick, Op, Order, Outcome, Preempt, Stepped, U32, When, reads, run,
    section, writes,
};

/// Every access to the lock's memory is a step, also inside the word's own loops.
type Fine = PortableWord<U32>;
/// Every operation on the word is one step.
type Coarse = Stepped<PortableWord<AtomicU32>>;

/// Every lock that spins or halts, and is meant to exclude, with a read side or without.
fn sound_kinds(is_rw: bool) -> impl Iterator<Item = LockKind> {
    LockKind::ALL.iter().copied().filter(move |kind| {
        let traits = kind.traits();
        kind.is_rw() == is_rw && !traits.control && !traits.sleeps
    })
}

/// Those without a read side.
fn spinning() -> impl Iterator<Item = LockKind> {
    sound_kinds(false)
}

/// pv-qspinlock, and what goes on from it.
fn paravirtual() -> impl Iterator<Item = LockKind> {
    spinning().filter(|kind| kind.traits().halts)
}

/// Longer than any wait that is not for a kick.
const LONG: u64 = 300;
/// The step after which the first taker of a free lock is in its critical section.
const HOLDS: u64 = 1;

/// Runs a scenario that must end well, and checks what must hold for any such run.
#[track_caller]
fn sound<W: LockWord>(config: &Config) -> Outcome {
    let outcome = match run::<W>(config) {
        Ok(outcome) => outcome,
        Err(failure) => panic!("{failure:#?}\nto replay: {config:?}"),
    };
    let n = |event| outcome.count(event);
    let holds = [
        (
            "takers wait",
            n(Contended) <= outcome.acquisitions.len() as u64,
        ),
        ("native waits are by pending or queue", {
            config.kind != QSpinLock || n(LockPending) + n(LockSlowpath) == n(Contended)
        }),
        ("paravirtual waits never use pending", {
            !config.kind.traits().halts || n(LockPending) == 0
        }),
    ];
    for (what, held) in holds {
        assert!(held, "{what}: {outcome:?}\nto replay: {config:?}");
    }
    if let Some(what) = inconsistency(config.kind, n) {
        panic!("{what}: {outcome:?}\nto replay: {config:?}");
    }
    outcome
}

/// Runs `config` with `vcpu` descheduled at each of its steps in turn.
fn preempted_everywhere<W: LockWord>(config: &Config, vcpu: usize, mut also: impl FnMut(Outcome)) {
    for at in 0.. {
        let mut config = config.clone();
        config.preempt(vcpu, at, LONG);
        let outcome = sound::<W>(&config);
        let over = outcome.steps[vcpu] <= at;
        also(outcome);
        if over {
            return;
        }
    }
}

/// As [`preempted_everywhere`] for `second`, with `first` descheduled at one of the steps `ats` besides.
fn both_preempted<W: LockWord>(
    config: &Config,
    (first, second): (usize, usize),
    ats: impl IntoIterator<Item = u64>,
    mut also: impl FnMut(Outcome),
) {
    for at in ats {
        let mut config = config.clone();
        config.preempt(first, at, LONG);
        preempted_everywhere::<W>(&config, second, &mut also);
    }
}

#[test]
fn random_schedules() {
    for kind in spinning() {
        for seed in 0..120 {
            let vcpus = 3 + usize::try_from(seed % 3).unwrap();
            let config = Config::new(kind, vcpus, 3).random(seed);
            let fine = sound::<Fine>(&config);
            let coarse = sound::<Coarse>(&config);
            assert_eq!(fine.acquisitions.len(), 3 * vcpus, "seed {seed}");
            assert_eq!(coarse.acquisitions.len(), 3 * vcpus, "seed {seed}");
        }
    }
}

#[test]
fn random_schedules_with_tries() {
    for kind in spinning() {
        for seed in 0..60 {
            let mut config = Config::new(kind, 4, 2).random(seed);
            for program in &mut config.programs[..2] {
                program.extend([Op::Try(0), Op::Pause(2)].repeat(4));
            }
            assert!(
                sound::<Fine>(&config).acquisitions.len() >= 8,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn equal_seeds_are_equal_runs() {
    for kind in spinning() {
        let config = Config::new(kind, 4, 2);
        let run = |seed| sound::<Fine>(&config.clone().random(seed));
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).trace, run(8).trace);
    }
}

#[test]
fn r1_r2_r3_any_vcpu_preempted_at_any_step() {
    for kind in spinning() {
        for vcpu in 0..3 {
            preempted_everywhere::<Fine>(&Config::new(kind, 3, 2), vcpu, |_| ());
        }
    }
}

#[test]
fn r1_r3_two_vcpus_preempted_at_any_two_steps() {
    let config = Config::new(QSpinLock, 3, 1);
    for pair in [(0, 1), (1, 2), (2, 0)] {
        both_preempted::<Coarse>(&config, pair, 0..16, |_| ());
    }
}

/// With a holder that is away long enough all others go to sleep, and all are woken.
#[test]
fn p1_p2_p3_p6_no_wake_up_is_lost() {
    paravirtual().for_each(no_wake_up_is_lost);
}

fn no_wake_up_is_lost(kind: LockKind) {
    let (mut heads, mut nodes, mut early) = (0, 0, 0);
    for vcpu in 0..4 {
        let config = Config::new(kind, 4, 2);
        both_preempted::<Coarse>(&config, (0, vcpu), [HOLDS, HOLDS + 1], |outcome| {
            heads += outcome.count(PvWaitHead);
            nodes += outcome.count(PvWaitNode);
            early += outcome.count(PvWaitEarly);
        });
    }
    assert!(
        heads > 0 && nodes > 0 && early > 0,
        "{kind}: {heads} {nodes} {early}"
    );
}

#[test]
fn p1_p4_p5_p7_two_vcpus_preempted_at_any_two_steps() {
    paravirtual().for_each(two_vcpus_preempted_at_any_two_steps);
}

fn two_vcpus_preempted_at_any_two_steps(kind: LockKind) {
    let (mut thefts, mut found_free) = (0, 0);
    for pair in [(0, 1), (1, 2), (2, 0)] {
        both_preempted::<Coarse>(&Config::new(kind, 3, 1), pair, 0..20, |outcome| {
            thefts += outcome.overtakes;
            // One lock, so every insertion takes one hop; those without kick were P5.
            found_free += outcome
                .count(PvHashHops)
                .saturating_sub(outcome.count(PvKickUnlock));
        });
    }
    assert!(thefts > 0, "nobody stole the lock from a sleeping queue");
    assert!(
        found_free > 0,
        "no head found the lock free when it marked it"
    );
}

#[test]
fn p8_p9_unfounded_kicks_are_harmless() {
    paravirtual().for_each(unfounded_kicks_are_harmless);
}

fn unfounded_kicks_are_harmless(kind: LockKind) {
    let mut config = Config::new(kind, 3, 2);
    config.preempt(0, HOLDS, LONG);
    let total: u64 = sound::<Coarse>(&config).steps.iter().sum();
    let (mut spurious, mut again) = (0, 0);
    for at in 0..total {
        for vcpu in 0..3 {
            let mut config = config.clone();
            config.kicks.push((at, vcpu));
            let outcome = sound::<Coarse>(&config);
            spurious += outcome.count(PvSpuriousWakeup);
            again += outcome.count(PvWaitAgain);
        }
    }
    assert!(spurious > 0 && again > 0, "{spurious} {again}");
}

#[test]
fn p8_kicks_in_a_storm_are_harmless() {
    for (kind, seed) in paravirtual().flat_map(|kind| (0..40).map(move |seed| (kind, seed))) {
        let mut config = Config::new(kind, 4, 2).random(seed);
        config.kicks = (0..2000)
            .map(|at| (at, usize::try_from(at % 4).unwrap()))
            .collect();
        sound::<Fine>(&config);
    }
}

/// Runs `config` with an interrupt of vCPU 0 that takes lock 1, at each of its steps in turn, with a holder that is
/// away meanwhile and with none.
fn interrupted_everywhere(mut config: Config) {
    for holder_at in [HOLDS, u64::MAX] {
        config.preempt = vec![Preempt {
            vcpu: 1,
            at: holder_at,
            steps: LONG,
        }];
        for at in 0.. {
            config.interrupts = vec![Interrupt {
                vcpu: 0,
                when: When::Step(at),
                lock: 1,
            }];
            if sound::<Coarse>(&config).interrupts == 0 {
                break;
            }
        }
    }
}

/// An interrupt at each step of a vCPU takes a lock that others also use.
#[test]
fn r4_interrupts_at_any_step() {
    for kind in spinning() {
        let mut config = Config::new(kind, 3, 2);
        config.locks = 2;
        config.programs[1] = [section(0, 1), section(1, 1), section(0, 1)].concat();
        config.programs[2] = [section(1, 1), section(0, 1), section(1, 1)].concat();
        interrupted_everywhere(config);
    }
}

/// Five waits nested on one CPU: four nodes, and one that does without.
#[test]
fn r5_the_fifth_nested_wait_has_no_node() {
    for (kind, waiters, pauses) in [
        (QSpinLock, 2, 3),
        (PvQSpinLock, 1, 3),
        (PpcQSpinLock, 1, 40),
        (Cna, 2, 3),
    ] {
        let mut config = Config::new(kind, waiters + 1, 1);
        config.locks = 5;
        config.programs[0] = [
            (0..5).map(Op::Lock).collect(),
            vec![Op::Pause(800)],
            (0..5).map(Op::Unlock).collect(),
        ]
        .concat();
        // A native lock's first waiter needs no node. The second comes after it at every level.
        for vcpu in 1..=waiters {
            let start = Op::Pause(20 * u32::try_from(vcpu).unwrap());
            config.programs[vcpu].insert(0, start);
            let nest = |lock| Interrupt {
                vcpu,
                when: When::Pauses(pauses),
                lock,
            };
            config.interrupts.extend((1..5).map(nest));
        }
        let outcome = sound::<Fine>(&config);
        assert_eq!(outcome.interrupts, 4 * waiters);
        for event in [LockUseNode2, LockUseNode3, LockUseNode4, LockNoNode] {
            assert_eq!(outcome.count(event), 1, "{kind}: {}", event.name());
        }
    }
}

/// Each vCPU holds several locks at once, and releases them in an order of its own.
#[test]
fn locks_held_together_are_released_in_any_order() {
    let orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]];
    for kind in spinning() {
        let (mut without_node, mut contended) = (0, 0);
        for seed in 0..60 {
            let mut config = Config::new(kind, 3, 1).random(seed);
            config.locks = 5;
            for (program, order) in config.programs.iter_mut().zip(orders) {
                // Taken in one order by all, or they would wait for each other.
                let take = (0..5).map(Op::Lock);
                *program = take.chain(order.map(Op::Unlock)).collect();
                // Hand over hand: one is always held.
                program.push(Op::Lock(0));
                for lock in 1..5 {
                    program.extend([Op::Lock(lock), Op::Unlock(lock - 1)]);
                }
                program.push(Op::Unlock(4));
            }
            let outcome = sound::<Fine>(&config);
            assert_eq!(outcome.acquisitions.len(), 30, "{kind}, seed {seed}");
            without_node += outcome.count(LockNoNode);
            contended += outcome.count(Contended);
        }
        assert!(contended > 0, "{kind}");
        // Its holder's node is in use for as long as the lock is held: the fifth has none.
        assert_eq!(without_node > 0, kind == Mcs, "{kind}");
    }
}

/// Queues form behind a holder that has no node, and it gives them the lock.
#[test]
fn an_mcs_holder_without_a_node_has_successors() {
    for at in 0..60 {
        let mut config = Config::new(Mcs, 3, 0);
        config.locks = 5;
        let nested = (0..5).map(Op::Lock).chain([Op::Pause(at)]);
        let program: Vec<Op> = nested.chain((0..5).map(Op::Unlock)).collect();
        config.programs = vec![program, section(4, 2), section(4, 2)];
        // The others begin when the fifth lock is held.
        for program in &mut config.programs[1..] {
            program.insert(0, Op::Pause(60));
        }
        let outcome = sound::<Fine>(&config);
        assert_eq!(outcome.count(LockNoNode), 1);
        assert_eq!(outcome.acquisitions.len(), 9);
    }
}
