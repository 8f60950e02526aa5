//! Locks in real KVM guests: they exclude, however they are called, and one that does not is caught.
//! Without /dev/kvm these tests say loudly that they were skipped.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test fails by panicking.

mod support;

use abi::{Counter, Dispatch, Params, phase};
use pvlock::{LockEvent, LockKind};
use support::{enter, finish, kvm_is_here, spin, start, total, wait_for, work};

#[test]
fn every_lock_excludes_on_four_vcpus() {
    if !kvm_is_here() {
        return;
    }
    for lock in LockKind::ALL.iter().filter(|lock| !lock.traits().control) {
        for locks in [1, 3] {
            let (vm, _events) = start(
                Params {
                    locks,
                    ..spin(*lock)
                },
                4,
            );
            work(&vm);
            wait_for("some acquisitions", || {
                vm.region().acquisitions().unwrap() > 200
            });
            finish(&vm);
            let entries: u64 = (0..locks)
                .map(|i| vm.region().lock(i as usize).unwrap().2)
                .sum();
            assert_eq!(entries, total(&vm, Counter::Acquisitions), "{lock}");
            assert_eq!(total(&vm, Counter::Violations), 0, "{lock}");
            for i in 0..locks {
                let (word, owner, _) = vm.region().lock(i as usize).unwrap();
                assert_eq!(owner, 0, "{lock}");
                assert!(
                    lock.describe(word).to_string().starts_with("free"),
                    "{lock}: {word:#x}"
                );
            }
            for cpu in 0..4 {
                assert_eq!(vm.region().queue_nodes(cpu).unwrap(), [], "{lock}");
            }
        }
    }
}

#[test]
fn a_lock_that_does_not_exclude_is_caught() {
    if !kvm_is_here() {
        return;
    }
    let (vm, _events) = start(spin(LockKind::Busted), 4);
    work(&vm);
    wait_for("a violation", || total(&vm, Counter::Violations) > 0);
    finish(&vm);
}

const OTHER_WAYS: [Dispatch; 2] = [Dispatch::Pointer, Dispatch::Patched];

fn called(lock: LockKind, way: Dispatch) -> Params {
    Params {
        dispatch: way as u64,
        ..spin(lock)
    }
}

#[test]
fn every_lock_excludes_however_it_is_called() {
    if !kvm_is_here() {
        return;
    }
    for lock in LockKind::ALL.iter().filter(|lock| !lock.traits().control) {
        for way in OTHER_WAYS {
            let (vm, _events) = start(called(*lock, way), 2);
            work(&vm);
            wait_for("some acquisitions", || {
                vm.region().acquisitions().unwrap() > 200
            });
            finish(&vm);
            let (word, _, entries) = vm.region().lock(0).unwrap();
            assert_eq!(entries, total(&vm, Counter::Acquisitions), "{lock} {way:?}");
            assert_eq!(total(&vm, Counter::Violations), 0, "{lock} {way:?}");
            assert!(lock.describe(word).to_string().starts_with("free"));
        }
    }
}

/// Whether there is anything in the trace ring of a vCPU.
fn is_traced(vm: &vmm::Vm, cpu: usize) -> bool {
    let mut taken = 0;
    let ring = vm.region().drain_trace(cpu, &mut taken, &mut Vec::new());
    ring.unwrap();
    taken > 0
}

#[test]
fn the_lock_that_was_asked_for_is_the_one_called() {
    if !kvm_is_here() {
        return;
    }
    for way in OTHER_WAYS {
        // Instrumented code has calls of its own.
        for trace_records in [0, 1024] {
            let params = Params {
                trace_records,
                ..called(LockKind::PvQSpinLock, way)
            };
            let (vm, _events) = start(params, 4);
            work(&vm);
            enter(&vm, phase::MEASURE);
            wait_for("halts and kicks", || {
                total(&vm, Counter::Halts) > 0
                    && total(&vm, Counter::Lock(LockEvent::PvKickUnlock)) > 0
            });
            finish(&vm);
            let traced = (0..4).any(|cpu| is_traced(&vm, cpu));
            assert_eq!(traced, trace_records > 0, "{way:?}");
        }
        let (vm, _events) = start(called(LockKind::Busted, way), 2);
        work(&vm);
        wait_for("the lock that excludes nobody is caught", || {
            total(&vm, Counter::Violations) > 0
        });
        finish(&vm);
    }
}

#[test]
fn a_fifth_context_finds_no_queue_node_and_gets_its_lock_all_the_same() {
    if !kvm_is_here() {
        return;
    }
    let params = Params {
        locks: 5,
        contexts: 5,
        critical_ns: 20_000,
        ..spin(LockKind::QSpinLock)
    };
    let (vm, _events) = start(params, 8);
    work(&vm);
    wait_for("a waiter without a node", || {
        total(&vm, Counter::Lock(LockEvent::LockNoNode)) > 0
    });
    finish(&vm);
    assert!(total(&vm, Counter::Nested) > 0);
    assert_eq!(total(&vm, Counter::Violations), 0);
    let entries: u64 = (0..5).map(|i| vm.region().lock(i).unwrap().2).sum();
    assert_eq!(entries, total(&vm, Counter::Acquisitions));
    for cpu in 0..8 {
        assert_eq!(vm.region().queue_nodes(cpu).unwrap(), [], "vCPU {cpu}");
    }
}
