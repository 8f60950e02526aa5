//! The conformance suite (`pvlock::conformance`), single-stepped under random schedules.

use super::stepper::{Failure, conform};
use super::{Coarse, Fine};
use pvlock::LockKind;

#[test]
fn every_sound_lock_conforms() {
    for &kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        for seed in 0..12 {
            let vcpus = 1 + usize::try_from(seed % 4).unwrap();
            conform::<Fine>(kind, vcpus, 4, seed)
                .and_then(|()| conform::<Coarse>(kind, vcpus, 4, seed))
                .unwrap_or_else(|failure| {
                    panic!("{kind}, {vcpus} vCPUs, seed {seed}: {failure:#?}")
                });
        }
    }
}

#[test]
fn broken_locks_do_not() {
    let fails = |kind, seed| conform::<Coarse>(kind, 3, 40, seed).unwrap_err();
    for seed in 0..4 {
        let breach = fails(LockKind::Busted, seed);
        assert!(matches!(breach, Failure::Panic(_)), "{breach:?}");
        let overlap = fails(LockKind::BustedRw, seed);
        assert!(matches!(overlap, Failure::Panic(_)), "{overlap:?}");
        let lost = fails(LockKind::BustedWakeup, seed);
        assert!(matches!(lost, Failure::Deadlock(_)), "{lost:?}");
    }
}
