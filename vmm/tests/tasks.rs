//! Tasks of a guest: they block, are woken on their own vCPU and from others, and none is forgotten.
//! Without /dev/kvm these tests say loudly that they were skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{MAX_TASKS, Params, TaskArea, VcpuState, Workload, phase};
use host::Notice;
use std::mem::offset_of;
use std::time::{Duration, Instant};
use support::kvm_is_here;
use vmm::{Config, Cpl, Vm};

/// Runs a relay to its end; the turns that each task has had, and switches of all vCPUs.
fn relay(vcpus: usize, tasks: usize, rounds: u64) -> Vec<u64> {
    let params = Params {
        workload: Workload::Relay as u64,
        locks: 2,
        tasks: tasks as u64,
        iterations: rounds,
        ..Params::default()
    };
    let (vm, mut events) = Vm::start(&Config {
        params,
        cpl: Cpl::Cpl3,
        seccomp: true,
        affinity: vec![vec![0, 1]; vcpus],
    })
    .unwrap();
    let begun = Instant::now();
    let mut until = |state| {
        while !(0..vcpus).all(|cpu| vm.region().state(cpu).unwrap() == state) {
            match events.try_recv() {
                Ok(Notice::Panicked { message, .. }) => panic!("{message}"),
                Ok(Notice::Failed { error, .. }) => panic!("{error}"),
                _ => {}
            }
            let patience = Duration::from_secs(30);
            assert!(begun.elapsed() < patience, "stuck: {:?}", vm.registers());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(VcpuState::Ready);
    vm.region().set_phase(phase::MEASURE).unwrap();
    (0..vcpus).for_each(|cpu| vm.kick(cpu).unwrap());
    until(VcpuState::Done);
    (0..vcpus * tasks)
        .map(|task| vm.region().task_word(task, offset_of!(TaskArea, writes)))
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn tasks_of_one_vcpu_take_turns_without_leaving_the_guest() {
    if kvm_is_here() {
        assert_eq!(relay(1, 2, 20_000), [20_000; 2]);
        assert_eq!(relay(1, 3, 1000), [1000; 3]);
    }
}

#[test]
fn vcpus_wake_each_others_tasks() {
    if kvm_is_here() {
        assert_eq!(relay(2, 1, 500), [500; 2]);
        assert_eq!(relay(3, 2, 300), [300; 6]);
    }
}

#[test]
fn a_thousand_tasks_on_two_vcpus() {
    if kvm_is_here() {
        assert_eq!(relay(2, 500, 50), [50; 1000]);
    }
}

#[test]
fn as_many_tasks_as_there_can_be() {
    if kvm_is_here() {
        assert_eq!(relay(1, MAX_TASKS, 3), [3; MAX_TASKS]);
    }
}
