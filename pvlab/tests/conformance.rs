//! The conformance suite (`pvlock::conformance`) of every lock, on vCPUs of KVM guests and on host
//! threads, with more of them than CPUs. Without /dev/kvm the first says loudly that it was skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use abi::{Counter, Params, VcpuState, phase};
use guest::workload::conformance;
use host::Notice;
use peers::{Kind, Peer};
use pvlab::machine::{RunningVm, launch};
use pvlab::scenario::{CplChoice, MachineKind};
use pvlock::conformance::inconsistency;
use pvlock::{LockEvent, LockKind};
#[path = "../../vmm/tests/support/kvm.rs"]
mod kvm;

use kvm::kvm_is_here;
use std::time::{Duration, Instant};

const VCPUS: usize = 3;

/// The vCPUs that take part.
#[derive(Clone, Copy, Debug)]
struct Crew {
    vcpus: usize,
    /// Of each vCPU.
    tasks: usize,
    rounds: u64,
    /// For how many nanoseconds a vCPU gives up its CPU in one in four critical sections.
    away_ns: u64,
}

impl Crew {
    const fn new(vcpus: usize, tasks: usize, rounds: u64) -> Self {
        Self {
            vcpus,
            tasks,
            rounds,
            away_ns: 0,
        }
    }
}

const VCPUS_ALONE: Crew = Crew::new(VCPUS, 1, 60);

/// Runs the suite. How many waits found no queue node; the guest's message if it found a breach.
fn conform(machine: MachineKind, lock: impl Into<Kind>, crew: Crew) -> Result<u64, String> {
    let lock = lock.into();
    let Crew {
        vcpus,
        tasks,
        rounds,
        away_ns,
    } = crew;
    let params = Params {
        tasks: tasks as u64,
        preempt_ns: away_ns,
        lock_kind: lock.id().into(),
        ..conformance::params(LockKind::Tas, rounds)
    };
    let cpus = pvlab::host::allowed_cpus();
    let (vm, mut events) =
        launch(machine, CplChoice::Auto, true, params, vec![cpus; vcpus]).unwrap();
    let begun = Instant::now();
    let all = |state| (0..vcpus).all(|cpu| vm.region().state(cpu).unwrap() == state);
    let mut until = |state| {
        while !all(state) {
            while let Ok(event) = events.try_recv() {
                match event {
                    Notice::Panicked { message, .. } => return Err(message),
                    Notice::Failed { error, .. } => panic!("{lock}: {error}"),
                    Notice::Done { .. } | Notice::Log { .. } => {}
                }
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("never ended: {:#?}", vm.states()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    until(VcpuState::Ready)?;
    vm.region().set_phase(phase::MEASURE).unwrap();
    (0..vcpus).for_each(|cpu| vm.kick(cpu).unwrap());
    until(VcpuState::Done)?;
    Ok(counted(&*vm, lock, crew))
}

/// The counters of all vCPUs fit together. How many waits found no queue node.
fn counted(vm: &dyn RunningVm, lock: Kind, crew: Crew) -> u64 {
    let total = |counter: Counter| -> u64 {
        (0..crew.vcpus)
            .map(|cpu| vm.region().counters(cpu).unwrap()[counter.index()])
            .sum()
    };
    let lock_event = |event: LockEvent| total(Counter::Lock(event));
    if let Kind::Ours(lock) = lock {
        assert_eq!(inconsistency(lock, lock_event), None, "{lock}");
    }
    assert_eq!(
        total(Counter::Acquisitions),
        (crew.vcpus * crew.tasks) as u64,
        "{lock}: all took part"
    );
    assert_eq!(total(Counter::Violations), 0, "{lock}");
    for cpu in 0..crew.vcpus {
        assert_eq!(vm.region().queue_nodes(cpu).unwrap(), [], "{lock}");
    }
    lock_event(LockEvent::LockNoNode)
}

fn all_conform(machine: MachineKind, crew: Crew, chosen: impl Fn(LockKind) -> bool) {
    for &lock in LockKind::ALL.iter().filter(|lock| chosen(**lock)) {
        if let Err(breach) = conform(machine, lock, crew) {
            panic!("{lock} on {}, {crew:?}: {breach}", machine.name());
        }
    }
}

fn every_sound_lock_conforms(machine: MachineKind) {
    all_conform(machine, VCPUS_ALONE, |lock| !lock.traits().control);
}

fn sleeps(lock: LockKind) -> bool {
    lock.traits().sleeps
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

/// All but ck_pflock, which cannot be tried.
#[test]
fn every_peer_conforms() {
    let peers = Peer::ALL.iter().filter(|peer| peer.is_built_in());
    for &peer in peers.filter(|&&peer| peer != Peer::CkPfLock) {
        if let Err(breach) = conform(MachineKind::Threads, Kind::Peer(peer), VCPUS_ALONE) {
            panic!("{peer}: {breach}");
        }
    }
}

/// Locks of two kinds in one VM: holders of mcs keep all nodes of half of the vCPUs, and what waits there does
/// without. It must not leave those waiting for it that have one (`Suite::scarce`).
#[test]
fn queued_locks_end_where_holders_of_mcs_keep_the_nodes() {
    let crew = Crew {
        vcpus: 3,
        tasks: 1,
        rounds: 40,
        away_ns: 100_000,
    };
    for lock in [LockKind::QSpinLock, LockKind::Cna] {
        for machine in [MachineKind::Kvm, MachineKind::Threads] {
            if machine == MachineKind::Threads || kvm_is_here() {
                let without_node = conform(machine, lock, crew).unwrap();
                assert!(without_node > 0, "{lock} on {}", machine.name());
            }
        }
    }
}

#[test]
fn a_lock_that_excludes_nobody_does_not_conform() {
    let breach = conform(MachineKind::Threads, LockKind::Busted, VCPUS_ALONE).unwrap_err();
    assert!(breach.contains("broken: "), "{breach}");
    if kvm_is_here() {
        let breach = conform(MachineKind::Kvm, LockKind::Busted, VCPUS_ALONE).unwrap_err();
        assert!(breach.contains("broken: "), "{breach}");
    }
}

#[test]
fn sleeping_locks_conform_with_several_tasks_for_each_vcpu() {
    if kvm_is_here() {
        for (vcpus, tasks) in [(1, 5), (3, 4)] {
            let crew = Crew::new(vcpus, tasks, 40);
            all_conform(MachineKind::Kvm, crew, sleeps);
        }
    }
}

#[test]
fn sleeping_locks_conform_with_a_thousand_tasks_on_two_vcpus() {
    if kvm_is_here() {
        let crew = Crew::new(2, 500, 4);
        let modern = [LockKind::Mutex, LockKind::Rwsem, LockKind::RwsemXadd];
        all_conform(MachineKind::Kvm, crew, |lock| modern.contains(&lock));
    }
}

#[test]
fn sleeping_locks_conform_on_many_more_threads_than_cpus() {
    let crew = Crew::new(12, 1, 40);
    all_conform(MachineKind::Threads, crew, sleeps);
}

#[test]
fn tasks_that_share_a_vcpu_are_not_for_locks_whose_waiters_spin() {
    if kvm_is_here() {
        let crew = Crew::new(1, 2, 1);
        let message = conform(MachineKind::Kvm, LockKind::Tas, crew).unwrap_err();
        assert!(message.contains("waiters of tas"), "{message}");
    }
}
