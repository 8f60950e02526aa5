//! What becomes of a VM whose vCPU's thread fails, on real KVM. Skipped loudly where there is none.

use super::*;
use crate::error::VmmError;
use abi::{VcpuState, Workload, phase};

/// How long to wait for what happens at once, on whatever host this is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A guest of three vCPUs that are busy, or `None` without KVM.
fn busy() -> Option<(Vm, UnboundedReceiver<Notice>)> {
    match check_host(3) {
        Ok(()) => {}
        Err(VmmError::NoKvm | VmmError::NoPermission) => {
            eprintln!("SKIPPED: no usable /dev/kvm, no thread was made to fail");
            return None;
        }
        Err(error) => panic!("KVM is here but unusable: {error}"),
    }
    let config = Config {
        params: Params {
            workload: Workload::Busy as u64,
            locks: 1,
            ..Params::default()
        },
        cpl: Cpl::Cpl3,
        seccomp: true,
        affinity: vec![vec![0, 1]; 3],
    };
    let (vm, notices) = Vm::start(&config).unwrap();
    let states = || (0..3).map(|cpu| vm.region.state(cpu).unwrap());
    wait_for("all are prepared", || {
        states().all(|state| state == VcpuState::Ready)
    });
    vm.region.set_phase(phase::WARM_UP).unwrap();
    (0..3).for_each(|cpu| vm.kick(cpu).unwrap());
    wait_for("all are busy", || {
        states().all(|state| state == VcpuState::Working)
    });
    Some((vm, notices))
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets the thread of vCPU 1 do that, and returns how the vCPU ended.
fn drill(vm: &Vm, notices: &mut UnboundedReceiver<Notice>, what: fn()) -> Notice {
    *vm.shared[1].drill.lock().unwrap() = Some(what);
    let mut ended = None;
    wait_for("vCPU 1 has ended", || {
        // It comes out of the guest only if it is interrupted.
        if let Some(thread) = &vm.vcpus[1].thread {
            let _ = thread.kill(SIGRTMIN());
        }
        let heard = notices.try_recv().ok();
        ended = heard.filter(|notice| !matches!(notice, Notice::Log { .. }));
        ended.is_some()
    });
    ended.unwrap()
}

/// The others go on, and end when they are told to.
fn others_end(mut vm: Vm) {
    wait_for("its thread has ended", || {
        vm.vcpus[1].thread.as_ref().unwrap().is_finished()
    });
    for cpu in [0, 2] {
        assert!(!vm.vcpus[cpu].thread.as_ref().unwrap().is_finished());
    }
    vm.stop();
    assert!(vm.vcpus.iter().all(|vcpu| vcpu.thread.is_none()));
}

#[test]
fn a_thread_that_panics_is_told_of_and_the_others_end() {
    let Some((vm, mut notices)) = busy() else {
        return;
    };
    match drill(&vm, &mut notices, || panic!("as was to be tested")) {
        Notice::Failed { vcpu: 1, error } => {
            let text = error.to_string();
            assert!(
                text.contains("vCPU 1") && text.contains("as was to be tested"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    others_end(vm);
}

#[test]
fn a_thread_that_asks_for_what_it_has_no_use_for_is_told_of_by_the_name_of_the_call() {
    let Some((vm, mut notices)) = busy() else {
        return;
    };
    let denied = drill(&vm, &mut notices, || {
        assert!(std::fs::File::open("/dev/null").is_err());
    });
    match denied {
        Notice::Failed { vcpu: 1, error } => {
            let text = error.to_string();
            for part in ["vCPU 1", "openat", "--no-seccomp"] {
                assert!(text.contains(part), "{text}");
            }
        }
        other => panic!("{other:?}"),
    }
    others_end(vm);
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    for (locks, tasks, trace_records) in [
        (u64::MAX, 1, 0),
        (1, u64::MAX, 0),
        (1, 1, u64::MAX),
        (1 << 31, 1, 0),
    ] {
        let config = Config {
            params: Params {
                locks,
                tasks,
                trace_records,
                ..Params::default()
            },
            cpl: Cpl::Cpl3,
            seccomp: true,
            affinity: vec![vec![0]; 2],
        };
        match Vm::start(&config) {
            Err(VmmError::TooLarge { vcpus: 2, .. }) => {}
            Err(VmmError::NoKvm | VmmError::NoPermission) => {
                eprintln!("SKIPPED: no usable /dev/kvm, no size was refused");
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}
