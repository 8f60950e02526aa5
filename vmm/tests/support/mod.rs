//! Starts guests, leads them through their phases, and waits for what they do.
#![allow(dead_code, reason = "each test uses some of it")]

mod kvm;

pub(crate) use kvm::kvm_is_here;

use abi::{Counter, Params, VcpuState, Workload, phase};
use host::Notice;
use pvlock::LockKind;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::{Config, Cpl, Vm};

pub(crate) fn spin(lock: LockKind) -> Params {
    Params {
        workload: Workload::Spin as u64,
        lock_kind: lock.id().into(),
        locks: 1,
        critical_ns: 200,
        outside_ns: 200,
        spin_threshold: 2000,
        ..Params::default()
    }
}

pub(crate) fn start(params: Params, vcpus: usize) -> (Vm, UnboundedReceiver<Notice>) {
    let config = Config {
        params,
        cpl: Cpl::Cpl3,
        seccomp: true,
        affinity: vec![vec![0, 1]; vcpus],
    };
    Vm::start(&config).unwrap()
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn enter(vm: &Vm, phase: u32) {
    vm.region().set_phase(phase).unwrap();
    (0..vm.region().layout().vcpus()).for_each(|cpu| vm.kick(cpu).unwrap());
}

pub(crate) fn all_are(vm: &Vm, state: VcpuState) -> bool {
    (0..vm.region().layout().vcpus()).all(|cpu| vm.region().state(cpu).unwrap() == state)
}

/// From prepared to working.
pub(crate) fn work(vm: &Vm) {
    wait_for("all vCPUs are prepared", || all_are(vm, VcpuState::Ready));
    enter(vm, phase::WARM_UP);
}

pub(crate) fn finish(vm: &Vm) {
    enter(vm, phase::STOP);
    wait_for("all vCPUs are done", || all_are(vm, VcpuState::Done));
}

pub(crate) fn total(vm: &Vm, counter: Counter) -> u64 {
    let vcpus = 0..vm.region().layout().vcpus();
    vcpus
        .map(|cpu| vm.region().counters(cpu).unwrap()[counter.index()])
        .sum()
}
