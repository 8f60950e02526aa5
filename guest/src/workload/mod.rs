//! The workloads, and what every vCPU runs first.

mod alone;
mod bench;
mod check;
pub mod choice;
pub mod conformance;
mod exponential;
pub mod futex_hash;
mod lengths;
pub mod lock_pi;
pub mod nested;
pub mod pipe;
mod place;
pub mod probe;
pub mod relay;
pub mod rwsem_bench;
pub mod spin;
mod subject;
pub mod torture;
pub mod turn;

use crate::machine::VcpuAreaExt as _;
use crate::{Machine, trace, work};
use abi::{self, Params, VcpuArea, VcpuState, Workload, phase};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// What a vCPU executes, from its start to its end.
///
/// # Panics
/// If the region is not one this program understands, or if the workload says so.
pub fn run<M: Machine>() {
    let (vcpu, params, workload) = wanted::<M>();
    match workload {
        Workload::Spin => spin::run::<M>(vcpu, params),
        Workload::Probe => probe::run::<M>(vcpu),
        Workload::Relay => relay::run::<M>(vcpu),
        Workload::Conformance => conformance::run::<M>(vcpu, params),
        Workload::Torture => torture::run::<M>(vcpu, params),
        Workload::RwsemBench => rwsem_bench::run::<M>(vcpu, params),
        Workload::FutexHash => futex_hash::run::<M>(vcpu, params),
        Workload::LockPi => lock_pi::run::<M>(vcpu, params),
        Workload::Pipe => pipe::run::<M>(vcpu, params),
        Workload::Busy => {
            start::<M>(vcpu);
            M::log("busy until told to stop");
            while current_phase(vcpu) != phase::STOP {
                work::roughly::<M>(1000);
            }
        }
        Workload::Panic => {
            start::<M>(vcpu);
            assert!(
                vcpu.cpu != 0,
                "a panic was asked for (critical_ns = {})",
                params.critical_ns
            );
            wait_for_stop::<M>(vcpu);
        }
        Workload::Hang => {
            start::<M>(vcpu);
            hang::<M>();
        }
        Workload::Hostile => panic!("only a guest image of its own can be hostile"),
        Workload::Fault => {
            start::<M>(vcpu);
            if vcpu.cpu == 0 {
                fault();
            }
            wait_for_stop::<M>(vcpu);
        }
    }
    vcpu.state.store(VcpuState::Done as u32, Relaxed);
}

/// The same where the steps of acquisitions must be seen ([`Params::instrumented`]), which is so for the
/// spin workload only: the others are not compiled a second time.
///
/// # Panics
/// As [`run`], and if the workload is another.
pub fn run_instrumented<M: Machine>() {
    let (vcpu, params, workload) = wanted::<M>();
    assert!(
        workload == Workload::Spin,
        "{workload:?} cannot be traced, interrupted or preempted on demand"
    );
    spin::run::<M>(vcpu, params);
    trace::finish(vcpu);
    vcpu.state.store(VcpuState::Done as u32, Relaxed);
}

/// What this vCPU is to do.
fn wanted<M: Machine>() -> (&'static VcpuArea, &'static Params, Workload) {
    let vcpu = M::vcpu();
    let params = &vcpu.header().params;
    assert!(
        params.magic == abi::MAGIC && params.version == abi::VERSION,
        "host and guest do not agree: host version {}, guest version {}",
        params.version,
        abi::VERSION
    );
    let Some(workload) = Workload::from_raw(params.workload) else {
        panic!("unknown workload {}", params.workload);
    };
    (vcpu, params, workload)
}

/// Says that this vCPU is prepared, and halts until the warm-up begins.
fn start<M: Machine>(vcpu: &VcpuArea) {
    start_and::<M>(vcpu, || {});
}

/// As [`start`], and calls `calibrate` if the host wants to know of this vCPU what work costs.
fn start_and<M: Machine>(vcpu: &VcpuArea, calibrate: impl FnOnce()) {
    trace::prepare(vcpu);
    vcpu.state.store(VcpuState::Ready as u32, Relaxed);
    let word = &vcpu.header().control.phase;
    // Acquire pairs with the host's Release store of the phase: what it and vCPU 0 have prepared is
    // visible then.
    while word.load(Acquire) == phase::PREPARE {
        M::halt_while(word, |now| now == phase::PREPARE);
    }
    if vcpu.cpu == 0 && word.load(Acquire) == phase::CALIBRATE {
        calibrate();
    }
    // Acquire as above.
    while word.load(Acquire) == phase::CALIBRATE {
        M::halt_while(word, |now| now == phase::CALIBRATE);
    }
    vcpu.state.store(VcpuState::Working as u32, Relaxed);
}

fn current_phase(vcpu: &VcpuArea) -> u32 {
    vcpu.header().control.phase.load(Relaxed)
}

/// Halts until the host says stop (it kicks every vCPU then).
fn wait_for_stop<M: Machine>(vcpu: &VcpuArea) {
    while current_phase(vcpu) != phase::STOP {
        M::halt_while(&vcpu.header().control.phase, |now| now != phase::STOP);
    }
}

/// Never returns, and makes no progress.
#[inline(never)]
fn hang<M: Machine>() {
    loop {
        work::roughly::<M>(1_000_000);
    }
}

/// Loads from an address that nothing is mapped at.
#[allow(unsafe_code)] // The point of the exercise.
#[inline(never)]
fn fault() {
    // SAFETY: none: the load faults, which on bare metal ends the vCPU before it yields a value.
    unsafe { core::ptr::with_exposed_provenance::<u64>(8).read_volatile() };
}
