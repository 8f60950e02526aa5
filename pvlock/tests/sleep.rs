//! Sleeping locks under every schedule that fits; see `sleep/machine.rs` for the machine, and
//! `sleep/checks.rs` for what is checked after each step.

#![allow(clippy::unwrap_used)]

#[path = "sleep/checks.rs"]
mod checks;
#[path = "sleep/machine.rs"]
mod machine;
#[path = "support/rng.rs"]
mod rng;
#[path = "sleep/subject.rs"]
mod subject;

use machine::{Config, NS_PER_STEP, Op, Outcome, run};
use pvlock::LockEvent::*;
use pvlock::LockKind::{self, Mutex, Rwsem, RwsemXadd, RwsemXadd2014, RwsemXadd2014Both};
use pvlock::sleep::rwsem::HANDOFF_NS;

/// Longer than any wait that is not for a vCPU that is away.
const LONG: u64 = 300;

fn all() -> impl Iterator<Item = LockKind> {
    let kinds = LockKind::ALL.iter().copied();
    kinds.filter(|kind| kind.traits().sleeps)
}

fn config(kind: LockKind, programs: Vec<Vec<Op>>) -> Config {
    Config {
        kind,
        programs,
        seed: None,
        preempt: vec![],
        wakes: vec![],
        kills: vec![],
        impatient: vec![],
        preemption_is_known: true,
    }
}

/// `vcpus` that each write and, if the lock lets them, read.
fn mixed(kind: LockKind, vcpus: usize, rounds: usize) -> Config {
    let section = |vcpu: usize| {
        if !kind.is_rw() {
            vec![Op::Write(1)]
        } else if vcpu.is_multiple_of(3) {
            vec![Op::Write(1), Op::Read(1)]
        } else {
            vec![Op::Read(1), Op::Write(1)]
        }
    };
    config(
        kind,
        (0..vcpus)
            .map(|vcpu| section(vcpu).repeat(rounds))
            .collect(),
    )
}

/// Runs a scenario that must end well.
#[track_caller]
fn sound(config: &Config) -> Outcome {
    run(config).unwrap_or_else(|failure| panic!("{failure}\nto replay: {config:?}"))
}

/// Runs it with a schedule by that seed.
#[track_caller]
fn sound_by(seed: u64, config: &Config) -> Outcome {
    sound(&Config {
        seed: Some(seed),
        ..config.clone()
    })
}

/// Runs it with `vcpu` away for long at its step `at`.
#[track_caller]
fn sound_without(vcpu: usize, at: u64, config: &Config) -> Outcome {
    sound(&Config {
        preempt: vec![(vcpu, at, LONG)],
        ..config.clone()
    })
}

/// Runs it with each of three vCPUs away at each of its steps in turn.
#[track_caller]
fn preempted_everywhere(config: &Config) {
    for vcpu in 0..3 {
        for at in 0.. {
            if sound_without(vcpu, at, config).steps[vcpu] <= at {
                break;
            }
        }
    }
}

/// All patient, all impatient, and mixed.
fn patience(config: Config) -> [Config; 3] {
    let vcpus = config.programs.len();
    let impatient = |impatient: Vec<usize>| Config {
        impatient,
        ..config.clone()
    };
    [
        impatient(vec![]),
        impatient((0..vcpus).collect()),
        impatient((1..vcpus).step_by(2).collect()),
    ]
}

#[test]
fn random_schedules() {
    for kind in all() {
        let mut slept = 0;
        for seed in 0..60 {
            let vcpus = 3 + usize::try_from(seed % 3).unwrap();
            for config in patience(mixed(kind, vcpus, 2)) {
                let outcome = sound_by(seed, &config);
                let ops: usize = config.programs.iter().map(Vec::len).sum();
                assert_eq!(outcome.entries.len(), ops);
                slept += outcome.count(MutexSleep) + outcome.count(RwsemSleepWriter);
            }
        }
        assert!(slept > 0, "{kind}: nobody slept");
    }
}

#[test]
fn random_schedules_with_tries() {
    for kind in all() {
        for seed in 0..40 {
            let mut config = mixed(kind, 4, 1);
            let tries = if kind.is_rw() {
                [Op::TryRead, Op::TryWrite]
            } else {
                [Op::TryWrite; 2]
            };
            config.programs[0] = tries.repeat(4);
            config.programs.push(tries.repeat(4));
            for config in patience(config) {
                sound_by(seed, &config);
            }
        }
    }
}

/// No schedule in which one vCPU is away at any of its steps loses a wake-up, or the sum of the holders.
#[test]
fn any_vcpu_preempted_at_any_step() {
    for kind in all() {
        patience(mixed(kind, 3, 1))
            .iter()
            .for_each(preempted_everywhere);
    }
}

/// The same where nobody knows.
#[test]
fn any_vcpu_preempted_unknown_to_the_others() {
    for kind in all() {
        let mut config = mixed(kind, 3, 1);
        config.preemption_is_known = false;
        preempted_everywhere(&config);
    }
}

#[test]
fn unfounded_wake_ups_are_harmless() {
    for kind in all() {
        for config in patience(mixed(kind, 3, 1)) {
            for vcpu in 0..3 {
                for at in 0..sound(&config).time {
                    let wakes = vec![(at, vcpu)];
                    sound(&Config {
                        wakes,
                        ..config.clone()
                    });
                }
            }
        }
        let mut storm = mixed(kind, 4, 2);
        storm.impatient = (0..4).collect();
        storm.wakes = (0..2000)
            .map(|at| (at, usize::try_from(at % 4).unwrap()))
            .collect();
        for seed in 0..20 {
            sound_by(seed, &storm);
        }
    }
}

/// Acquisitions by others after somebody has demanded the lock, and before `vcpu` gets in.
fn overtakes_after_handoff(outcome: &Outcome, vcpu: usize) -> Option<usize> {
    let entry = outcome.entry(vcpu);
    let demanded = *outcome.handoffs.iter().find(|&&at| at < entry)?;
    let overtakes = outcome
        .entries
        .iter()
        .filter(|(_, _, at)| (demanded..entry).contains(at));
    Some(overtakes.count())
}

/// Writers that spin take the lock past one that sleeps, until it has waited for 4 ms (mutex: until it
/// has been woken in vain); then it gets it within one round of those who are about to get in.
#[test]
fn a_writer_that_waits_is_handed_the_lock() {
    for kind in [Mutex, Rwsem] {
        let mut handed = 0;
        for seed in 0..40 {
            let mut programs = vec![vec![Op::Write(3); 150]; 3];
            programs.push(vec![Op::Pause(5), Op::Write(1)]);
            let mut config = config(kind, programs);
            config.impatient = vec![3];
            let outcome = sound_by(seed, &config);
            let Some(overtakes) = overtakes_after_handoff(&outcome, 3) else {
                continue;
            };
            handed += 1;
            assert!(
                overtakes <= 3,
                "{kind}, seed {seed}: {overtakes} after the demand"
            );
        }
        assert!(handed > 0, "{kind}: there was no need to hand over");
    }
}

/// A reader that waits behind writers that spin demands the lock as well.
#[test]
fn a_reader_that_waits_is_handed_the_lock() {
    let mut handed = 0;
    for seed in 0..40 {
        let mut programs = vec![vec![Op::Write(3); 150]; 3];
        programs.push(vec![Op::Pause(5), Op::Read(1)]);
        let config = config(Rwsem, programs);
        let outcome = sound_by(seed, &config);
        if let Some(overtakes) = overtakes_after_handoff(&outcome, 3) {
            handed += 1;
            assert!(overtakes <= 3, "seed {seed}: {overtakes} after the demand");
        }
    }
    assert!(handed > 0, "there was no need to hand over");
}

/// A task that has waited for 4 ms and is woken demands the lock: it has it within 4 ms and a few sections.
#[test]
fn no_writer_waits_for_much_longer_than_the_bound() {
    let bound = HANDOFF_NS / NS_PER_STEP;
    for seed in 0..40 {
        let mut programs = vec![vec![Op::Write(3); 300]; 3];
        programs.push(vec![Op::Write(1)]);
        let mut config = config(Rwsem, programs);
        config.impatient = vec![3];
        let waited = sound_by(seed, &config).entry(3);
        // A section of each, as long as such a schedule makes it, with what leads to it.
        assert!(waited < bound + 4 * 100, "seed {seed}: {waited} steps");
    }
}

/// A task is killed at any time: the lock is as if it had never come.
#[test]
fn a_killed_waiter_leaves_the_word_clean() {
    let (mut readers, mut writers) = (0, 0);
    for victim in 1..4 {
        let programs = vec![
            vec![Op::Write(30)],
            vec![Op::KillableWrite(5)],
            vec![Op::KillableRead(5)],
            vec![Op::KillableWrite(5), Op::Read(1)],
        ];
        for config in patience(config(Rwsem, programs)) {
            for at in 0..sound(&config).time {
                let kills = vec![(at, victim)];
                let outcome = sound(&Config {
                    kills,
                    ..config.clone()
                });
                readers += outcome.count(RwsemRlockFail);
                writers += outcome.count(RwsemWlockFail);
                assert!(outcome.given_up <= 1);
            }
        }
    }
    assert!(readers > 0 && writers > 0, "{readers} {writers}");
}

/// A writer becomes a reader: readers that wait come in beside it, a writer does not.
#[test]
fn a_downgrade_wakes_readers() {
    let programs = vec![
        vec![Op::Downgrade(200, 400)],
        vec![Op::Pause(2), Op::Read(2)],
        vec![Op::Pause(2), Op::Read(2)],
        // Well behind the readers: those behind a writer at the front are not woken.
        vec![Op::Pause(60), Op::Write(1)],
    ];
    for config in patience(config(Rwsem, programs)) {
        let outcome = sound(&config);
        assert_eq!(outcome.count(RwsemWakeReader), 2, "{outcome:?}");
        assert!(outcome.sharing >= 2, "{outcome:?}");
        assert_eq!(outcome.entries.last().unwrap().0, 3, "{outcome:?}");
        for at in 0..outcome.steps[0] {
            sound_without(0, at, &config);
        }
    }
}

/// Readers of the list are let in together, also those behind a writer; the old lock let in only those
/// at the front.
#[test]
fn readers_are_woken_in_batches() {
    let late = |vcpu: u32, op| vec![Op::Pause(1 + 20 * vcpu), op];
    for (kind, together) in [(Rwsem, 4), (RwsemXadd, 2)] {
        let programs = vec![
            vec![Op::Write(250)],
            late(1, Op::Read(80)),
            late(2, Op::Read(80)),
            late(3, Op::Write(1)),
            late(4, Op::Read(80)),
            late(5, Op::Read(80)),
        ];
        let mut config = config(kind, programs);
        config.impatient = (0..6).collect();
        let outcome = sound(&config);
        assert_eq!(outcome.sharing, together, "{kind}: {outcome:?}");
        assert_eq!(outcome.count(RwsemWakeReader), 4, "{kind}: {outcome:?}");
    }
}

/// vCPU 1 wants to write when vCPU 0 does so for `holds` steps, and loses its CPU, `away`, to others.
fn behind_one_away(kind: LockKind, known: bool, holds: u32, away: (usize, u64, u64)) -> Outcome {
    let programs = vec![
        vec![Op::Write(holds)],
        vec![Op::Pause(3), Op::Write(1)],
        vec![Op::Pause(5000)],
    ];
    sound(&Config {
        preemption_is_known: known,
        preempt: vec![away],
        ..config(kind, programs)
    })
}

/// Scenario 3: a writer has taken the lock, and loses its CPU before it can say so. Nobody spins for as
/// long as that.
#[test]
fn a_spinner_behind_a_writer_that_has_no_name_yet_gets_on() {
    for kind in all().filter(|kind| {
        !matches!(
            kind,
            LockKind::Mutex | LockKind::Mutex316 | LockKind::PiMutex
        )
    }) {
        for known in [false, true] {
            // Its first step takes the lock, the second names it.
            let outcome = behind_one_away(kind, known, 1, (0, 1, 4000));
            assert!(outcome.count(RwsemSleepWriter) > 0, "{kind}: {outcome:?}");
            assert!(outcome.steps[1] < 250, "{kind}: {outcome:?}");
        }
    }
}

/// Scenario 10: the head of the spinners is preempted. The one behind it leaves the queue, if it can know;
/// else it waits for that vCPU, and gets the lock all the same.
#[test]
fn a_spinner_behind_a_preempted_one_leaves() {
    for kind in [Mutex, Rwsem, RwsemXadd, RwsemXadd2014, RwsemXadd2014Both] {
        let waited = |preemption_is_known| {
            let programs = vec![
                vec![Op::Write(100)],
                vec![Op::Pause(2), Op::Write(1)],
                vec![Op::Pause(30), Op::Write(1)],
                // Somebody else has the CPU meanwhile.
                vec![Op::Pause(5000)],
            ];
            let mut config = config(kind, programs);
            config.preemption_is_known = preemption_is_known;
            config.preempt = vec![(1, 30, 3000)];
            let outcome = sound(&config);
            (
                outcome.entry(2),
                outcome.entry(2) < outcome.entry(1),
                outcome,
            )
        };
        let (known, before, outcome) = waited(true);
        assert!(before, "{kind}: behind all the same: {outcome:?}");
        let (unknown, _, _) = waited(false);
        assert!(known + 1000 < unknown, "{kind}: {known} {unknown} steps");
    }
}

/// Nobody spins behind an owner that is known to be preempted.
#[test]
fn nobody_spins_on_a_preempted_owner() {
    // A pi-mutex spins on nobody.
    for kind in all().filter(|kind| *kind != LockKind::PiMutex) {
        let steps = |known| behind_one_away(kind, known, 50, (0, 10, 2000)).steps[1];
        let (known, unknown) = (steps(true), steps(false));
        assert!(known < 200 && unknown > 500, "{kind}: {known} {unknown}");
    }
}

#[test]
fn equal_seeds_are_equal_runs() {
    for kind in all() {
        let entries = |seed| sound_by(seed, &mixed(kind, 4, 3)).entries;
        assert_eq!(entries(7), entries(7));
        assert_ne!(entries(7), entries(8));
    }
}
