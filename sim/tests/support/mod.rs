//! A machine with one VM, for tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]
#![allow(unsafe_code)] // The region is given by address.

use abi::{Counter, Params, Switch, SwitchKind, VcpuArea, VcpuState, Workload, phase};
use host::Region;
use host::region::layout_of;
use pvlock::LockKind;
use sim::{Options, Rule, Simulation, Spec, VmConfig, presets};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine and the region of its VM.
pub struct Lab {
    pub sim: Simulation,
    pub region: Region,
    pub vcpus: usize,
}

/// A machine on which nothing varies and all figures are round: 2 sockets of 4 cores, vCPUs in turn.
pub fn exact(changes: &[&str]) -> Spec {
    let mut spec = presets::find("cascade-lake-2s").unwrap();
    let round = [
        "sockets=2",
        "cores=4",
        "threads=1",
        "links=1",
        "jitter=0",
        "hit_ns=1",
        "rmw_ns=8",
        "fence_ns=8",
        "kept=1",
        "crowd_ns=0",
        "loop_ns=0",
        "syscall_ns=0",
        "transfer_socket_ns=50",
        "transfer_cross_ns=120",
        "memory_ns=100",
        "read_busy_ns=10",
        "invalidate_ns=2",
        "clock_ns=16",
        "wait_on_line=1",
        "virtual_machine=1",
        "exit_ns=1000",
        "entry_ns=500",
        "kick_ns=300",
        "wake_ns=2000",
        "halt_poll_max_ns=0",
        "ple=0",
        "idle_exit_ns=700",
        "deep_idle_after_ns=200us",
        "deep_idle_exit_ns=30us",
        "eevdf=0",
        "slice_ns=1ms",
        "tick_ns=0",
        "tick_jitter_ns=0",
        "wakeup_preemption=0",
        "switch_ns=1500",
        "migration_ns=0",
        "balance_ns=0",
        "timer_slack_ns=0",
    ];
    for change in round.iter().chain(changes) {
        spec.set(change).unwrap();
    }
    spec.check().unwrap();
    spec
}

/// vCPU n on CPU n modulo `cpus`, and on no other.
pub fn pinned(vcpus: usize, cpus: usize) -> Vec<Vec<usize>> {
    (0..vcpus).map(|vcpu| vec![vcpu % cpus]).collect()
}

/// Each vCPU on any of the first `cpus` CPUs.
pub fn anywhere(vcpus: usize, cpus: usize) -> Vec<Vec<usize>> {
    vec![(0..cpus).collect(); vcpus]
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
        let options = Options {
            seed,
            ..Options::default()
        };
        Self::with(spec, options, params, cpus)
    }

    pub fn with(spec: &Spec, options: Options, params: Params, cpus: &[Vec<usize>]) -> Self {
        let region = Region::in_process(&params).unwrap();
        region.set_preempted_is_reported().unwrap();
        let sees_sections = |rule: &Rule| matches!(rule, Rule::DescheduleHolder { .. });
        let instrumented = params.instrumented() || options.rules.iter().any(sees_sections);
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

    /// Prepares, and has all work at once, `iterations` times each, until the machine has run for `most`
    /// ns: from the first acquisition of vCPU 0 to its last release, ns.
    pub fn complete(&mut self, most: u64) -> u64 {
        self.sim.run_until(1_000_000);
        self.enter(phase::MEASURE);
        self.sim.run_until(most);
        let finished = self.word(0, offset_of!(VcpuArea, finished));
        assert!(finished > 0, "{}", self.states());
        finished - self.word(0, offset_of!(VcpuArea, first_acquisition))
    }

    /// A word of a vCPU's area.
    pub fn word(&self, vcpu: usize, offset: usize) -> u64 {
        self.region.vcpu_word(vcpu, offset).unwrap()
    }

    pub fn vcpu_states(&self) -> Vec<VcpuState> {
        (0..self.vcpus)
            .map(|vcpu| self.region.state(vcpu).unwrap())
            .collect()
    }

    /// What all vCPUs are doing.
    pub fn states(&self) -> String {
        let state = |vcpu| format!("vCPU {vcpu} {}\n", self.sim.state(0, vcpu));
        (0..self.vcpus).map(state).collect()
    }

    /// Changes the first word of lock 0, as a CPU would that has nothing else to do with the machine.
    pub fn set_lock(&self, value: u32) {
        let address = self.region.host_address().unwrap() + self.region.layout().lock(0);
        // SAFETY: within the region, aligned, only ever used atomically, and nothing executes.
        let word: &AtomicU32 = unsafe { &*std::ptr::with_exposed_provenance(address) };
        word.store(value, Ordering::Relaxed);
    }

    /// When vCPUs got `cpu` since that was last asked, and which: in the order of time.
    pub fn arrivals(&mut self, cpu: u32) -> Vec<(u64, usize)> {
        let mut all: Vec<(u64, usize)> = Vec::new();
        for vcpu in 0..self.vcpus {
            let switches = self.sim.take_switches(0, vcpu);
            let here = |s: &&Switch| s.cpu == cpu && s.kind == SwitchKind::In;
            all.extend(switches.iter().filter(here).map(|s| (s.at_ns, vcpu)));
        }
        all.sort_unstable();
        all
    }
}
