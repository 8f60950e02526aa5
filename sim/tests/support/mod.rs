//! A machine with one VM, for tests.
#![allow(clippy::unwrap_used, dead_code)]
#![allow(unsafe_code)] // The region is given by address.

use guest::abi::{Counter, Params, Workload, phase};
use pvlock::LockKind;
use sim::{Options, Simulation, Spec, VmConfig};
use vmm::Region;
use vmm::region::layout_of;

/// A machine and the region of its VM.
pub struct Lab {
    pub sim: Simulation,
    pub region: Region,
    pub vcpus: usize,
}

/// What the spin workload is to do, with `lock`.
pub fn spin(lock: &str, vcpus: usize) -> Params {
    Params {
        vcpus: vcpus as u64,
        locks: 1,
        workload: Workload::Spin as u64,
        lock_kind: LockKind::from_name(lock).unwrap().id().into(),
        critical_ns: 100,
        outside_ns: 100,
        spin_threshold: 1 << 15,
        tsc_khz: 1_000_000,
        seed: 1,
        ..Params::default()
    }
}

impl Lab {
    pub fn new(spec: &Spec, seed: u64, params: Params, cpus: &[Vec<usize>]) -> Self {
        Self::with(
            spec,
            Options {
                seed,
                ..Options::default()
            },
            params,
            cpus,
        )
    }

    pub fn with(spec: &Spec, options: Options, params: Params, cpus: &[Vec<usize>]) -> Self {
        let region = Region::in_process(&params).unwrap();
        region.set_preempted_is_reported().unwrap();
        let instrumented = params.instrumented() || !options.rules.is_empty();
        let mut sim = Simulation::new(spec, options);
        let config = VmConfig {
            layout: layout_of(&params),
            region: region.host_address().unwrap(),
            affinity: cpus.to_vec(),
            instrumented,
        };
        // SAFETY: the region is filled in, and kept by the result, whose field `sim` is dropped first.
        unsafe { sim.add_vm(&config) }.unwrap();
        Self {
            sim,
            region,
            vcpus: cpus.len(),
        }
    }

    /// Prepares, warms up for `warm_up` ns, and measures for `length` ns: the acquisitions of each vCPU.
    pub fn measure(&mut self, warm_up: u64, length: u64) -> Vec<u64> {
        self.sim.run_until(1_000_000);
        self.enter(phase::WARM_UP);
        let start = self.sim.now_ns();
        self.sim.run_until(start + warm_up);
        self.enter(phase::MEASURE);
        let before = self.acquisitions();
        self.sim.run_until(start + warm_up + length);
        let after = self.acquisitions();
        after.iter().zip(before).map(|(a, b)| a - b).collect()
    }

    pub fn enter(&mut self, phase: u32) {
        self.region.set_phase(phase).unwrap();
        for vcpu in 0..self.vcpus {
            self.sim.kick(0, vcpu);
        }
    }

    pub fn counter(&self, vcpu: usize, counter: Counter) -> u64 {
        self.region.counters(vcpu).unwrap()[counter.index()]
    }

    pub fn total(&self, counter: Counter) -> u64 {
        (0..self.vcpus)
            .map(|vcpu| self.counter(vcpu, counter))
            .sum()
    }

    pub fn acquisitions(&self) -> Vec<u64> {
        (0..self.vcpus)
            .map(|vcpu| self.counter(vcpu, Counter::Acquisitions))
            .collect()
    }
}
