//! The conformance suite (`pvlock::conformance`) of every lock, on vCPUs of KVM guests and on host
//! threads, with more of them than CPUs. Without /dev/kvm the first says loudly that it was skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use guest::abi::{Counter, Params, Task, Workload, phase};
use guest::workload::conformance::SLOTS;
use pvlab::machine::{RunningVm, launch};
use pvlab::scenario::{Cpl, MachineKind};
use pvlock::conformance::inconsistency;
use pvlock::{LockEvent, LockKind};
use std::time::{Duration, Instant};
use vmm::{Event, VmmError};

const VCPUS: usize = 3;

fn kvm_is_here() -> bool {
    match vmm::check_host(VCPUS) {
        Ok(()) => true,
        Err(VmmError::NoKvm | VmmError::NoPermission) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no usable /dev/kvm, no guest was run\n{line}");
            false
        }
        Err(e) => panic!("KVM is here but unusable: {e}"),
    }
}

/// Runs the suite. The guest's message if it found a breach.
fn conform(machine: MachineKind, lock: LockKind, rounds: u64) -> Result<(), String> {
    let params = Params {
        workload: Workload::Conformance as u64,
        lock_kind: lock.id().into(),
        locks: SLOTS,
        iterations: rounds,
        // Short, so that waiters of halting locks do halt.
        spin_threshold: 200,
        numa_nodes: 2,
        ..Params::default()
    };
    let cpus = pvlab::host::allowed_cpus();
    let (vm, mut events) = launch(machine, Cpl::Auto, params, vec![cpus; VCPUS]).unwrap();
    let begun = Instant::now();
    let all = |task| (0..VCPUS).all(|cpu| vm.region().task(cpu).unwrap() == task);
    let mut until = |task| {
        while !all(task) {
            while let Ok(event) = events.try_recv() {
                match event {
                    Event::Panicked { message, .. } => return Err(message),
                    Event::Failed { error, .. } => panic!("{lock}: {error}"),
                    Event::Done { .. } | Event::Log { .. } => {}
                }
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!("never ended: {:#?}", vm.states()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    until(Task::Ready)?;
    vm.region().set_phase(phase::MEASURE).unwrap();
    (0..VCPUS).for_each(|cpu| vm.kick(cpu).unwrap());
    until(Task::Done)?;
    counted(&*vm, lock);
    Ok(())
}

/// The counters of all vCPUs fit together.
fn counted(vm: &dyn RunningVm, lock: LockKind) {
    let total = |counter: Counter| -> u64 {
        (0..VCPUS)
            .map(|cpu| vm.region().counters(cpu).unwrap()[counter.index()])
            .sum()
    };
    let lock_event = |event: LockEvent| total(Counter::Lock(event));
    assert_eq!(inconsistency(lock_event), None, "{lock}");
    assert_eq!(
        total(Counter::Acquisitions),
        VCPUS as u64,
        "{lock}: all took part"
    );
    assert_eq!(total(Counter::Violations), 0, "{lock}");
    for cpu in 0..VCPUS {
        assert_eq!(vm.region().queue_nodes(cpu).unwrap(), [], "{lock}");
    }
}

fn every_sound_lock_conforms(machine: MachineKind) {
    for &lock in LockKind::ALL.iter().filter(|lock| !lock.traits().control) {
        if let Err(breach) = conform(machine, lock, 60) {
            panic!("{lock} on {}: {breach}", machine.name());
        }
    }
}

#[test]
fn every_sound_lock_conforms_on_kvm() {
    if kvm_is_here() {
        every_sound_lock_conforms(MachineKind::Kvm);
    }
}

#[test]
fn every_sound_lock_conforms_on_threads() {
    every_sound_lock_conforms(MachineKind::Threads);
}

#[test]
fn a_lock_that_excludes_nobody_does_not_conform() {
    let breach = conform(MachineKind::Threads, LockKind::Busted, 60).unwrap_err();
    assert!(breach.contains("broken: "), "{breach}");
    if kvm_is_here() {
        let breach = conform(MachineKind::Kvm, LockKind::Busted, 60).unwrap_err();
        assert!(breach.contains("broken: "), "{breach}");
    }
}
