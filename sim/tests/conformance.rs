//! Every lock passes the conformance suite on the simulated machine, with fewer, as many and more vCPUs than
//! CPUs; those that are broken on purpose do not.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{Counter, Params, VcpuState, phase};
use guest::workload::conformance;
use pvlock::conformance::inconsistency;
use pvlock::{LockEvent, LockKind};
use sim::{Said, Spec, presets};
use support::{Lab, anywhere, pinned};

const MS: u64 = 1_000_000;
/// Longest that it may take in virtual time: far more than it does.
const LIMIT: u64 = 60_000 * MS;

fn machine() -> Spec {
    let mut spec = presets::find("cascade-lake-2s").unwrap();
    // Short slices, so that holders and waiters do lose their CPUs.
    for change in ["slice_ns=20us", "tick_ns=10us", "balance_ns=100us"] {
        spec.set(change).unwrap();
    }
    spec
}

/// Runs the suite. What was said if it found a breach.
fn conform(lock: LockKind, rounds: u64, seed: u64, cpus: &[Vec<usize>]) -> Result<(), String> {
    let vcpus = cpus.len();
    let params = Params {
        vcpus: vcpus as u64,
        tsc_khz: 1_000_000,
        ..conformance::params(lock, rounds)
    };
    let mut lab = Lab::new(&machine(), seed, params, cpus);
    lab.sim.run_until(MS);
    lab.enter(phase::MEASURE);
    while !lab
        .vcpu_states()
        .iter()
        .all(|state| *state == VcpuState::Done)
    {
        let now = lab.sim.now_ns();
        lab.sim.run_until(now + MS);
        for outcome in lab.sim.take_outcomes() {
            if let Said::Panicked(message) = outcome.what {
                return Err(message);
            }
        }
        if lab.sim.is_stuck(0) || now > LIMIT {
            return Err(format!("stuck at {now}:\n{}", lab.states()));
        }
    }
    let lock_event = |event: LockEvent| lab.total(Counter::Lock(event));
    assert_eq!(inconsistency(lock, lock_event), None, "{lock}");
    assert_eq!(lab.acquisitions(), vec![1; vcpus], "{lock}: all took part");
    assert_eq!(lab.total(Counter::Violations), 0, "{lock}");
    for vcpu in 0..vcpus {
        assert_eq!(lab.region.queue_nodes(vcpu).unwrap(), [], "{lock}");
    }
    Ok(())
}

fn sound_locks() -> impl Iterator<Item = LockKind> {
    let all = LockKind::ALL.iter().copied();
    all.filter(|lock| !lock.traits().control)
}

fn every_sound_lock_conforms(seeds: std::ops::Range<u64>, cpus: &[Vec<usize>]) {
    let vcpus = cpus.len();
    for lock in sound_locks() {
        for seed in seeds.clone() {
            if let Err(breach) = conform(lock, 40, seed, cpus) {
                panic!("{lock}, {vcpus} vCPUs, seed {seed}: {breach}");
            }
        }
    }
}

#[test]
fn every_sound_lock_conforms_alone() {
    every_sound_lock_conforms(0..2, &pinned(1, 2));
}

#[test]
fn every_sound_lock_conforms_with_a_cpu_for_each() {
    every_sound_lock_conforms(0..3, &pinned(2, 2));
}

#[test]
fn every_sound_lock_conforms_with_more_vcpus_than_cpus() {
    every_sound_lock_conforms(0..3, &pinned(3, 2));
}

#[test]
fn every_sound_lock_conforms_when_vcpus_move() {
    every_sound_lock_conforms(3..5, &anywhere(3, 2));
}

/// Breaches that some seeds find.
fn breaches(lock: LockKind, seeds: u64) -> Vec<String> {
    let run = |seed| conform(lock, 400, seed, &pinned(3, 3)).err();
    (0..seeds).filter_map(run).collect()
}

#[test]
fn a_lock_that_excludes_nobody_does_not_conform() {
    let found = breaches(LockKind::Busted, 3);
    assert!(
        found.len() == 3 && found.iter().all(|b| b.contains("broken: ")),
        "{found:?}"
    );
}

#[test]
fn a_lock_that_forgets_a_kick_does_not_conform() {
    let found = breaches(LockKind::BustedWakeup, 3);
    assert!(
        !found.is_empty() && found.iter().all(|b| b.contains("stuck")),
        "{found:?}"
    );
}

#[test]
fn a_lock_that_mixes_readers_and_writers_does_not_conform() {
    let found = breaches(LockKind::BustedRw, 5);
    let told = |b: &String| b.contains("reader");
    assert!(found.iter().any(told), "{found:?}");
}
