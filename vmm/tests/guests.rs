//! Real KVM guests: they boot, halt and are kicked, panic, fault, hang and stop.
//! Without /dev/kvm these tests say loudly that they were skipped.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A test fails by panicking.

mod support;

use abi::{Counter, Params, VcpuState, Workload, flags, phase};
use host::thread::ThreadStats;
use host::{HostError, Notice};
use pvlock::{LockEvent, LockKind};
use std::time::Duration;
use support::{all_are, enter, finish, kvm_is_here, spin, start, total, wait_for, work};
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::{Config, Cpl, Vm, VmmError};

/// Public reports of monitors that mishandle halts and burn a CPU (uhyve 14, libkrun 28).
#[test]
fn halted_vcpus_cost_no_cpu_and_every_kick_wakes() {
    if !kvm_is_here() {
        return;
    }
    // Prepared vCPUs are halted: watch one second of them.
    let (vm, _events) = start(spin(LockKind::PvQSpinLock), 8);
    wait_for("all vCPUs are halted", || {
        (0..8).all(|cpu| vm.is_halted(cpu))
    });
    let cpu_time = || -> Duration {
        (0..8)
            .map(|cpu| ThreadStats::of(vm.tid(cpu).unwrap()).cpu.unwrap())
            .sum()
    };
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_time() - before;
    assert!(
        used < Duration::from_millis(10),
        "8 halted vCPUs used {used:?} in a second"
    );

    // Overcommitted, with a short threshold, waiters halt all the time. All get on, to the end.
    work(&vm);
    wait_for("many halts", || total(&vm, Counter::Halts) > 2000);
    finish(&vm);
    for cpu in 0..8 {
        let guest = vm.region().counters(cpu).unwrap()[Counter::Halts.index()];
        assert_eq!(vm.exits(cpu)["halt"], guest, "each halt is one exit");
    }
    let kicked = total(&vm, Counter::Lock(LockEvent::PvKickUnlock));
    assert_eq!(total(&vm, Counter::Kicks), kicked, "only releases kick");
}

#[test]
fn the_probe_measures_halts_and_kicks() {
    use guest::workload::probe;
    if !kvm_is_here() {
        return;
    }
    let (vm, _events) = start(
        Params {
            workload: Workload::Probe as u64,
            locks: 1,
            lock_kind: LockKind::PvNext as u64,
            ..Params::default()
        },
        2,
    );
    work(&vm);
    wait_for("the probe has ended", || all_are(&vm, VcpuState::Done));
    for (cpu, hist) in [
        (0, probe::HIST_KICK_RUNNING),
        (0, probe::HIST_HALT),
        (0, probe::HIST_KICK_HALTED),
        (0, probe::HIST_YIELD),
        (0, probe::HIST_BARRIER),
        (1, probe::HIST_KICK_TO_RUN),
    ] {
        let trials: u64 = vm.region().hist(cpu, hist).unwrap().iter().sum();
        assert_eq!(trials, probe::TRIALS, "vCPU {cpu}, histogram {hist}");
    }
    assert_eq!(vm.exits(0)["yield"], probe::TRIALS);
}

#[test]
fn two_guests_run_at_once_and_apart() {
    if !kvm_is_here() {
        return;
    }
    let (a, _events_a) = start(spin(LockKind::PvQSpinLock), 2);
    let (b, _events_b) = start(spin(LockKind::Tas), 3);
    work(&a);
    work(&b);
    wait_for("both get on", || {
        [&a, &b]
            .iter()
            .all(|vm| vm.region().acquisitions().unwrap() > 1000)
    });
    finish(&a);
    // The other does not notice.
    let seen = b.region().acquisitions().unwrap();
    wait_for("the other gets on", || {
        b.region().acquisitions().unwrap() > seen
    });
    finish(&b);
    for vm in [&a, &b] {
        assert_eq!(
            vm.region().lock(0).unwrap().2,
            total(vm, Counter::Acquisitions)
        );
    }
}

#[test]
fn a_guest_can_say_something() {
    if !kvm_is_here() {
        return;
    }
    let params = Params {
        workload: Workload::Busy as u64,
        locks: 1,
        ..Params::default()
    };
    let (vm, mut events) = start(params, 2);
    work(&vm);
    for _ in 0..2 {
        match first_event(&mut events) {
            Notice::Log { message, .. } => assert_eq!(message, "busy until told to stop"),
            other => panic!("{other:?}"),
        }
    }
    finish(&vm);
}

/// The first event that there is.
fn first_event(events: &mut UnboundedReceiver<Notice>) -> Notice {
    let mut found = None;
    wait_for("a vCPU has ended", || {
        found = events.try_recv().ok();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_panic_shows_the_guests_message() {
    if !kvm_is_here() {
        return;
    }
    let params = Params {
        workload: Workload::Panic as u64,
        critical_ns: 4711,
        locks: 1,
        ..Params::default()
    };
    let (vm, mut events) = start(params, 2);
    work(&vm);
    match first_event(&mut events) {
        Notice::Panicked { vcpu: 0, message } => {
            assert!(
                message.contains("a panic was asked for (critical_ns = 4711)"),
                "{message}"
            );
            assert!(
                message.contains("guest/src/workload"),
                "says where: {message}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_is_reported_with_the_place() {
    if !kvm_is_here() {
        return;
    }
    let (vm, mut events) = start(
        Params {
            workload: Workload::Fault as u64,
            locks: 1,
            ..Params::default()
        },
        2,
    );
    work(&vm);
    match first_event(&mut events) {
        Notice::Failed { vcpu: 0, error } => {
            let Some(VmmError::TripleFault { registers, .. }) = error.downcast_ref() else {
                panic!("{error}");
            };
            let text = registers.to_string();
            assert!(text.contains("rip 0x") && text.contains("rsp 0x"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hanging_guest_can_be_looked_at_and_stopped() {
    if !kvm_is_here() {
        return;
    }
    let (mut vm, _events) = start(
        Params {
            workload: Workload::Hang as u64,
            locks: 1,
            ..Params::default()
        },
        3,
    );
    work(&vm);
    wait_for("all vCPUs hang", || all_are(&vm, VcpuState::Working));
    enter(&vm, phase::STOP);
    for registers in vm.registers() {
        let text = registers.expect("a running vCPU answers").to_string();
        assert!(text.contains("(guest::"), "symbolised: {text}");
    }
    vm.stop();
    assert!(!all_are(&vm, VcpuState::Done));
}

#[test]
fn a_halted_guest_can_be_looked_at_and_stopped() {
    if !kvm_is_here() {
        return;
    }
    let params = Params {
        flags: flags::DROP_KICKS,
        spin_threshold: 10,
        ..spin(LockKind::PvQSpinLock)
    };
    let (mut vm, _events) = start(params, 4);
    work(&vm);
    // With all kicks lost, the queue ends up asleep behind a head that nobody wakes.
    wait_for("the queue sleeps", || {
        (0..4).filter(|&cpu| vm.is_halted(cpu)).count() >= 2
    });
    assert_eq!(vm.registers().iter().filter(|r| r.is_some()).count(), 4);
    vm.stop();
}

#[test]
fn cpl_0_runs_the_same_image() {
    if !kvm_is_here() {
        return;
    }
    let config = Config {
        params: spin(LockKind::QSpinLock),
        cpl: Cpl::Cpl0,
        seccomp: true,
        affinity: vec![vec![0, 1]; 2],
    };
    let (vm, _events) = Vm::start(&config).unwrap();
    work(&vm);
    wait_for("some acquisitions", || {
        vm.region().acquisitions().unwrap() > 20
    });
    finish(&vm);
    assert_eq!(
        vm.region().lock(0).unwrap().2,
        total(&vm, Counter::Acquisitions)
    );
}

#[test]
fn the_levels_that_run_here_can_be_told_apart() {
    if !kvm_is_here() {
        return;
    }
    assert!(
        vmm::cpl::ticks_per_turn(Cpl::Cpl3).unwrap().is_some(),
        "CPL 3 runs everywhere"
    );
    vmm::cpl::detect().unwrap();
}

#[test]
fn a_vcpu_cannot_be_placed_on_a_cpu_that_does_not_exist() {
    if !kvm_is_here() {
        return;
    }
    let config = Config {
        params: spin(LockKind::Tas),
        cpl: Cpl::Cpl3,
        seccomp: true,
        affinity: vec![vec![0], vec![1000]],
    };
    match Vm::start(&config) {
        Err(VmmError::Host(HostError::Affinity { vcpu: 1, cpus, .. })) => assert_eq!(cpus, [1000]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_yield_to_a_halted_vcpu_is_futile_and_counted_as_that() {
    if !kvm_is_here() {
        return;
    }
    let (vm, _events) = start(
        Params {
            workload: Workload::Probe as u64,
            ..spin(LockKind::Tas)
        },
        2,
    );
    work(&vm);
    wait_for("the probe is done", || all_are(&vm, VcpuState::Done));
    assert_eq!(total(&vm, Counter::Yields), guest::workload::probe::TRIALS);
    // vCPU 1 is halted when it is yielded to, unless the host was very busy.
    assert!(total(&vm, Counter::YieldsToHalted) > 0);
    let futile = total(&vm, Counter::FutileYields);
    let told = total(&vm, Counter::YieldsToHalted) + total(&vm, Counter::YieldsToRunning);
    assert!(told <= futile && futile <= total(&vm, Counter::Yields));
}

/// KVM_CREATE_VM fails with EINTR when a signal is pending (as every ioctl may): it is made again.
#[test]
fn signals_do_not_keep_a_vm_from_being_made() {
    use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};
    extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    if !kvm_is_here() {
        return;
    }
    register_signal_handler(SIGRTMIN() + 1, nothing).unwrap();
    let maker = std::thread::spawn(|| {
        for _ in 0..10 {
            drop(start(spin(LockKind::Tas), 2));
        }
    });
    while !maker.is_finished() {
        maker.kill(SIGRTMIN() + 1).unwrap();
        std::thread::sleep(Duration::from_micros(50));
    }
    maker.join().unwrap();
}
