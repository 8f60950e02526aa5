//! What to run: everything that defines a run, and nothing about how it went.

mod bench;
pub(crate) mod limits;
mod lock;
pub mod selection;
mod spin;
mod work;

pub use bench::{Bench, BenchKind};
pub use limits::ScenarioError;
pub(crate) use lock::PeerUsage;
pub use lock::{Lock, UnknownLock, join_dispatch, split_dispatch};
pub use selection::SlowPath;
pub use spin::{NoThreshold, SpinThreshold};
pub(crate) use work::whole;
pub use work::{Data, Spread, WorkTime};

pub use crate::machine::{CplChoice, MachineKind, SIM_PREFIX, Simulated};
use crate::scenario::selection::Offered;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One run. Part of every [`Record`](crate::record::Record), so that any result can be run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Where the vCPUs run.
    pub machine: MachineKind,
    /// Which simulated machine, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// The virtual machines, all running at the same time.
    pub vms: Vec<VmSpec>,
    /// CPUs to use, of the host or of the simulated machine.
    pub cpus: Vec<usize>,
    /// How vCPUs are placed on them.
    pub placement: Placement,
    /// What each vCPU does.
    pub workload: Work,
    /// How long.
    pub length: Length,
    /// Least time before the measurement starts.
    #[serde(with = "nanoseconds", rename = "warm_up_ns")]
    pub warm_up: Duration,
    /// How long a paravirtual waiter spins before it halts.
    pub spin_threshold: SpinThreshold,
    /// Host threads that compete with the vCPUs for the same CPUs.
    pub noise: usize,
    /// Privilege level of the guest (KVM only).
    pub cpl: CplChoice,
    /// Whether vCPUs' threads are confined to the system calls that they need (KVM only).
    #[serde(default = "yes", skip_serializing_if = "is_so")]
    pub seccomp: bool,
    /// Whether acquisitions are timed.
    pub latency: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// A VM that makes no acquisition for this long is reported as stuck.
    #[serde(with = "nanoseconds", rename = "watchdog_ns")]
    pub watchdog: Duration,
    /// What the guests' kernels are offered, for locks that they choose themselves.
    #[serde(default)]
    pub offered: Offered,
    /// NUMA nodes that the vCPUs of each VM are told they are on, in equal runs.
    #[serde(default = "one")]
    pub numa_nodes: u32,
    /// Preemption on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<Preempt>,
    /// Torture the lock, instead of working with it as `workload` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torture: Option<Torture>,
    /// Run a microbenchmark, instead of working as `workload` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bench: Option<Bench>,
    /// Locks are told whether a vCPU is preempted, where that is known.
    #[serde(default = "yes")]
    pub vcpu_is_preempted: bool,
    /// Fault injection: kicks are dropped, so that halted waiters sleep for ever.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_kicks: bool,
}

impl Scenario {
    /// How long a run of it ought to take, if that is known.
    pub fn expected(&self) -> Option<Duration> {
        // Launching and stopping take about a tenth of a second.
        const AROUND: Duration = Duration::from_millis(100);
        match self.length {
            Length::Duration(_) if self.machine.is_simulated() => None,
            Length::Duration(duration) => Some(duration + self.warm_up + AROUND),
            Length::Iterations(_) => None,
        }
    }

    /// These guests with nothing to do, and everything else as it is unless somebody says otherwise.
    pub(crate) fn bare(
        machine: MachineKind,
        vms: Vec<VmSpec>,
        cpus: Vec<usize>,
        length: Length,
    ) -> Self {
        Self {
            machine,
            simulated: None,
            vms,
            cpus,
            placement: Placement::Pinned,
            workload: Work {
                locks: 1,
                contexts: 1,
                ..Work::default()
            },
            length,
            warm_up: Duration::ZERO,
            spin_threshold: SpinThreshold::Own,
            noise: 0,
            cpl: CplChoice::Auto,
            seccomp: true,
            latency: true,
            seed: 1,
            watchdog: Duration::from_secs(10),
            offered: Offered::default(),
            numa_nodes: 1,
            preempt: None,
            torture: None,
            bench: None,
            vcpu_is_preempted: true,
            drop_kicks: false,
        }
    }

    /// The machine's name, as users write it.
    pub fn machine_name(&self) -> String {
        match &self.simulated {
            Some(simulated) => format!("{SIM_PREFIX}{}", simulated.preset),
            None => self.machine.name().to_owned(),
        }
    }

    /// The scenario in round number `round`, counted from 0. On a simulated machine the same once more would
    /// be the same to the last bit, so that each round has a seed of its own: `round` is added to it.
    pub fn in_round(mut self, round: usize) -> Self {
        if self.machine.is_simulated() {
            self.seed = self.seed.wrapping_add(round as u64);
        }
        self
    }

    /// vCPUs of all VMs.
    pub fn vcpus(&self) -> usize {
        self.vms.iter().map(|vm| vm.vcpus).sum()
    }

    /// Whether vCPUs and noise outnumber the CPUs, so that some must wait.
    pub fn overcommitted(&self) -> bool {
        self.vcpus() + self.noise > self.cpus.len()
    }

    /// The host CPU of the vCPU with that number, counted through all VMs; `None`: any of `cpus`.
    pub fn cpu_of(&self, vcpu: usize) -> Option<usize> {
        match &self.placement {
            Placement::Pinned => Some(self.cpus[vcpu % self.cpus.len()]),
            Placement::Floating => None,
            Placement::Map(map) => Some(map[vcpu]),
        }
    }
}

/// How a lock is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torture {
    /// Length of the rare long holds; zero: there are none.
    #[serde(with = "nanoseconds", rename = "long_hold_ns")]
    pub long_hold: Duration,
    /// Locks that may be held around the one under torture, 0 to 8.
    pub nested_locks: usize,
    /// Longest time that a writer's acquisition may take; zero: any.
    #[serde(with = "nanoseconds", rename = "acquire_limit_ns")]
    pub acquire_limit: Duration,
    /// Everybody pauses for that long after each time of that length; zero: never.
    #[serde(with = "nanoseconds", rename = "stutter_ns")]
    pub stutter: Duration,
    /// How often another CPU is left idle; zero: all are used all the time.
    #[serde(with = "nanoseconds", rename = "shuffle_interval_ns")]
    pub shuffle_interval: Duration,
    /// Whether writers' threads have real-time scheduling (SCHED_FIFO).
    pub writer_fifo: bool,
    /// Whether interrupts are off from before an acquisition until after the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub irqs_off: bool,
}

/// Preemption on demand: somebody is held off its CPU now and then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preempt {
    /// Which vCPU.
    pub whom: Whom,
    /// For how long, ns; less than 2^32.
    pub ns: u32,
    /// In which share of acquisitions, from 0 to 1.
    pub share: f64,
}

/// Which vCPU is held off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whom {
    /// One that has just taken a lock.
    Holder,
    /// One that has just become next in line.
    NextWaiter,
}

/// A virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmSpec {
    /// The lock its vCPUs use.
    pub lock: Lock,
    /// How many vCPUs it has.
    pub vcpus: usize,
}

/// How vCPUs are placed on host CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// vCPU i on the i-th of the CPUs, round and round.
    Pinned,
    /// Any vCPU on any of the CPUs, as the host scheduler likes.
    Floating,
    /// vCPU i on the host CPU at place i.
    Map(Vec<usize>),
}

/// What each vCPU does: take a lock, compute, release it, compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Length of the critical section.
    #[serde(rename = "critical_ns")]
    pub critical: WorkTime,
    /// Work outside; its mean, if it is random.
    #[serde(rename = "outside_ns")]
    pub outside: WorkTime,
    /// Whether it is random.
    #[serde(default, skip_serializing_if = "Spread::is_fixed")]
    pub outside_spread: Spread,
    /// Where the data lies that a critical section touches.
    #[serde(default)]
    pub data: Data,
    /// Number of locks, chosen from at random.
    pub locks: usize,
    /// How unevenly they are chosen: the exponent of a Zipf distribution; 0: all alike.
    #[serde(default)]
    pub skew: f64,
    /// Which acquisitions read and which write.
    #[serde(default)]
    pub mix: Mix,
    /// Contexts of each vCPU, one interrupting the other; 1: no interrupts.
    #[serde(default = "one")]
    pub contexts: u32,
}

/// Which acquisitions read and which write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// Everybody takes the lock exclusively; of a reader-writer lock, the write side.
    #[default]
    Exclusive,
    /// Each vCPU reads in this share of its acquisitions, from 0 to 1. In a microbenchmark, each thread.
    ReadShare(f64),
    /// This many vCPUs, the last, only read; the others only write.
    Readers(usize),
}

impl Work {
    /// One turn of critical section and outside work.
    pub(crate) fn turn(&self) -> Duration {
        self.critical.duration() + self.outside.duration()
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_so(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// This long, not counting the warm-up.
    #[serde(with = "nanoseconds", rename = "duration_ns")]
    Duration(Duration),
    /// This many acquisitions by each vCPU, not counting the warm-up.
    Iterations(u64),
}

impl Length {
    /// The time, if one is given.
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::Duration(duration) => Some(duration),
            Self::Iterations(_) => None,
        }
    }

    /// Acquisitions by each vCPU, 0 if a time is given instead.
    pub const fn iterations(self) -> u64 {
        match self {
            Self::Duration(_) => 0,
            Self::Iterations(n) => n,
        }
    }
}

/// A duration in whole nanoseconds; more than 584 years are that.
pub(crate) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Durations as whole nanoseconds.
mod nanoseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        super::whole_ns(*d).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_nanos)
    }
}
