//! Schedulers beside chance: priorities (PCT), and all schedules with few preemptions; and many CPUs with locks of
//! all kinds, in interrupts of interrupts.
//!
//! Every failure prints the scenario with its seed or its switches, which is the schedule: a test that runs it again
//! is one line.

use super::*;
use std::collections::HashSet;

/// Whether there is time for more: `PVLOCK_FAR=1`.
fn far() -> bool {
    std::env::var_os("PVLOCK_FAR").is_some_and(|value| value == "1")
}

#[test]
fn priorities_that_change_at_random() {
    for kind in spinning() {
        let mut runs = HashSet::new();
        for (depth, seed) in (1..=4).flat_map(|depth| (0..40).map(move |seed| (depth, seed))) {
            let vcpus = 3 + usize::try_from(seed % 6).unwrap();
            let config = Config {
                order: Order::Pct {
                    seed,
                    depth,
                    steps: 60 * vcpus as u64,
                },
                ..Config::new(kind, vcpus, 2)
            };
            let outcome = sound::<Fine>(&config);
            assert_eq!(outcome.acquisitions.len(), 2 * vcpus, "seed {seed}");
            assert_eq!(outcome, sound::<Fine>(&config), "a seed is a run");
            runs.insert(outcome.trace);
        }
        assert!(runs.len() > 20, "{kind}: {}", runs.len());
    }
}

/// All schedules of `config` with the switches that it has and up to `more` later ones. How many there are.
fn with_preemptions(config: &Config, from: u64, more: usize) -> usize {
    let outcome = sound::<Coarse>(config);
    let mut runs = 1;
    if more == 0 {
        return runs;
    }
    let Order::Switches(switches) = &config.order else {
        panic!("switches are to be added");
    };
    let end: u64 = outcome.steps.iter().sum();
    for (at, vcpu) in (from..end).flat_map(|at| (0..config.programs.len()).map(move |v| (at, v))) {
        let mut config = config.clone();
        config.order = Order::Switches([&switches[..], &[(at, vcpu)]].concat());
        runs += with_preemptions(&config, at + 1, more - 1);
    }
    runs
}

/// Two preemptions anywhere, three if there is time, of three vCPUs.
#[test]
fn all_schedules_with_few_preemptions() {
    for kind in spinning() {
        let config = Config {
            order: Order::Switches(vec![]),
            ..Config::new(kind, 3, 1)
        };
        let runs = with_preemptions(&config, 0, if far() { 3 } else { 2 });
        assert!(runs > 100, "{kind}: {runs}");
    }
}

/// The bound finds what it is for: with kicks that are lost, two preemptions are enough for a standstill.
#[test]
fn two_preemptions_are_enough_for_a_lost_kick() {
    let standstill = |switches: Vec<(u64, usize)>, kick| {
        let mut config = Config::new(PvQSpinLock, 2, 1);
        config.programs[0] = vec![Op::Lock(0), Op::Pause(20), Op::Unlock(0)];
        config.order = Order::Switches(switches);
        config.spin_threshold = 1;
        config.kick = kick;
        matches!(run::<Coarse>(&config), Err(Failure::Deadlock(_)))
    };
    let pairs = || (1..20).flat_map(|first| (first + 1..40).map(move |second| (first, second)));
    let any = |kick| pairs().any(|(first, second)| standstill(vec![(first, 1), (second, 1)], kick));
    assert!(any(Kick::Lost));
    assert!(!any(Kick::Sticky));
}

/// Eight vCPUs, each with up to five contexts: an interrupt comes while another waits. Locks of all kinds share the
/// CPUs' nodes and one hash table.
#[test]
fn locks_of_all_kinds_in_nested_contexts_of_eight_vcpus() {
    let kinds: Vec<LockKind> = spinning().collect();
    let mut interrupts = 0;
    for seed in 0..60 {
        let first = usize::try_from(seed).unwrap();
        let mixed: Vec<LockKind> = (0..5)
            .map(|i| kinds[(first + i * 3) % kinds.len()])
            .collect();
        let mut config = Config::new(mixed[0], 8, 0).random(seed);
        config.locks = mixed.len();
        // Each lock is used in one kind of context only, or a handler could wait for what it has interrupted.
        config.programs = vec![section(0, 3); 8];
        let nest = |(vcpu, lock)| Interrupt {
            vcpu,
            when: When::Pauses(2),
            lock,
        };
        let contexts = 1 + seed % 5;
        let nested = (0..8).flat_map(|vcpu| (1..5).map(move |lock| (vcpu, lock)));
        config.interrupts = nested
            .filter(|(_, lock)| (*lock as u64) < contexts)
            .map(nest)
            .collect();
        config.mixed = mixed;
        let outcome = run::<Fine>(&config)
            .unwrap_or_else(|failure| panic!("{failure:#?}\nto replay: {config:?}"));
        let taken = 24 + outcome.interrupts;
        assert_eq!(outcome.acquisitions.len(), taken, "seed {seed}");
        interrupts += outcome.interrupts;
    }
    assert!(interrupts > 300, "{interrupts}");
}
