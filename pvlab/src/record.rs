//! What a run yielded. Nothing here, nor downstream of it, knows which machine made it.

use crate::host::Host;
use crate::host::limits::Limits;
pub use crate::machine::Unknown;
use crate::scenario::{Lock, Scenario};
use crate::trace::account::Account;
use abi::Counter;
use abi::hist::{BUCKETS, bucket_values};
use pvlock::LockEvent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything about one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Where it was run, and why there; files and reports for programs have that beside the record.
    #[serde(skip)]
    pub context: Context,
    /// Of a traced run: what its waiting was spent on, which reports have beside the record, too.
    #[serde(skip)]
    pub account: Option<Account>,
    /// What was run.
    pub scenario: Scenario,
    /// How the start of the measurement was chosen.
    pub start: Start,
    /// Length of the measurement, s, without [`Self::without_cpu`]; for a fixed number of acquisitions, until
    /// the last vCPU had made them.
    pub measured_s: f64,
    /// Times within the measurement in which nothing of this process had a CPU.
    #[serde(default)]
    pub without_cpu: Vec<Absence>,
    /// Times that the run was repeated as there were such times in it.
    #[serde(default)]
    pub repeated: u32,
    /// From the launch of the run to the first acquisition, ms; `None` if there was none.
    pub first_acquisition_ms: Option<f64>,
    /// What else happened on the host; `None` of a simulated machine.
    pub surroundings: Option<Surroundings>,
    /// What could not be found out.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
    /// The run was stopped by a signal before its time.
    pub interrupted: bool,
    /// What gave the control plane precedence over the vCPUs ([`host::sched::Precedence::name`]).
    #[serde(default)]
    pub control_plane: String,
    /// What work, and looking at it, was found to cost before the run, if that was found out.
    pub calibration: Option<Calibration>,
    /// One for each VM of the scenario.
    pub vms: Vec<VmRecord>,
}

/// Where it was run, and why there, as every report for programs says it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Context {
    /// The machine's name.
    pub machine: String,
    /// Whether it is simulated.
    pub simulated: bool,
    /// Why that machine was chosen, or what it is.
    pub machine_reason: String,
    /// The host, unless the machine is simulated: it has no part in the figures then.
    pub host: Option<Host>,
}

impl Context {
    /// Where the scenario is run, by this host.
    pub fn new(host: Host, machine_reason: String, scenario: &Scenario) -> Self {
        let simulated = scenario.machine.is_simulated();
        Self {
            machine: scenario.machine_name(),
            simulated,
            machine_reason,
            host: (!simulated).then_some(host),
        }
    }
}

/// How a series of rounds ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All rounds are complete.
    Complete,
    /// A signal came.
    Interrupted,
    /// A lock did not exclude.
    ExclusionBroken,
}

/// What happened on the host during the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// What kept this process from the host's CPUs.
    pub limits: Limits,
    /// For how long threads of its cgroups waited for their quota, all in all, ms; `None` if there is none, or
    /// that is unknown.
    pub throttled_ms: Option<f64>,
    /// How many of the scenario's CPUs other processes had on average, a hypervisor under the host among
    /// them; `None` if that is unknown, or the measurement was too short to tell (400 ms).
    pub others_cpus: Option<f64>,
}

/// A time in which nothing of this process had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absence {
    /// When it began, in s of measured time.
    pub at_s: f64,
    /// Its length, ms; of a vCPU that had not used its CPU all the time before, up to 100 ms less than it was.
    pub ms: f64,
    /// Why.
    pub cause: Cause,
}

/// Why nothing of this process had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The process was stopped (SIGSTOP, Ctrl-Z, a debugger).
    Stopped,
    /// The host was suspended.
    Suspended,
    /// The CPUs were taken away: by a hypervisor under this host, by a frozen cgroup, by other work.
    NoCpu,
}

impl Cause {
    /// What happened.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Stopped => "the process was stopped",
            Self::Suspended => "the host was suspended",
            Self::NoCpu => "its CPUs were taken away",
        }
    }
}

/// What to tell of such times, if there are any: how long they were in all, and what happened.
pub fn absent(absences: &[Absence]) -> Option<String> {
    let longest = absences.iter().max_by(|a, b| a.ms.total_cmp(&b.ms))?;
    let all: f64 = absences.iter().map(|absence| absence.ms).sum();
    let (all_s, what) = (all / 1e3, longest.cause.what());
    Some(format!("{all_s:.1} s without CPU ({what})"))
}

/// What work, and looking at it, costs: found out by one vCPU while all others halted, and used by all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// A unit of work, ns.
    pub unit_ns: f64,
    /// A look at the clock, ns.
    pub look_ns: f64,
    /// What is in every critical section besides the work, ns. It has been taken off the work.
    pub section_ns: f64,
    /// What is between two acquisitions besides the work, ns. Likewise.
    pub outside_ns: f64,
}

/// How long a paravirtual waiter spins before it halts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spinning {
    /// As it was asked for, or measured, ns.
    pub time_ns: f64,
    /// Turns of its loop in that time.
    pub turns: u32,
}

/// How the start of the measurement was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Length of the warm-up, ms.
    pub warm_up_ms: f64,
    /// Why it ended.
    pub reason: StartReason,
}

/// Why the warm-up ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartReason {
    /// The scenario is not overcommitted: the warm-up's time was over.
    NotOvercommitted,
    /// Its time was over and every vCPU had been preempted at least once.
    EveryVcpuDescheduled,
    /// Twice its time was over, and these vCPUs (counted through all VMs) had not been preempted, but had halted or
    /// yielded; the others had been preempted.
    HaltedOnly(Vec<usize>),
    /// Its time was over, and the host does not tell who has been preempted.
    PreemptionsUnknown,
    /// The longest warm-up was over, though these vCPUs (counted through all VMs) had neither been
    /// preempted nor halted.
    LimitReached(Vec<usize>),
}

/// One VM's part of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VmRecord {
    /// The lock's name.
    pub lock: String,
    /// Whether the lock excluded.
    pub exclusion: ExclusionCheck,
    /// Critical sections as they were found to be, ns, if any was seen: the mean of a sample, but for those
    /// that were interrupted.
    pub critical_ns: Option<f64>,
    /// What is between two acquisitions, likewise.
    pub outside_ns: Option<f64>,
    /// What timing one acquisition costs, ns, if acquisitions were timed.
    pub probe_ns: Option<f64>,
    /// Share of the most used lock in the exclusive acquisitions, over the whole run including the
    /// warm-up; `None` if there is one lock, or no such acquisition.
    pub most_used_lock: Option<f64>,
    /// Whether the machine was seen to tell which vCPUs are preempted, so that locks could ask.
    #[serde(default)]
    pub preempted_reported: bool,
    /// Frequency of the clock whose ticks counters and waits are in, kHz.
    #[serde(default)]
    pub clock_khz: u64,
    /// Where a fixed number of acquisitions was asked for: from the start until the first vCPU had made
    /// its acquisitions, s; `None` if none had when the run was interrupted.
    pub first_done_s: Option<f64>,
    /// How long waiters spun before they halted, where that was given as a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinning: Option<Spinning>,
    /// One for each vCPU.
    pub vcpus: Vec<VcpuRecord>,
    /// One for each thread of a microbenchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadRecord>,
}

/// One thread's part of a microbenchmark. Counts are of the measurement alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// The vCPU that executes it.
    pub vcpu: usize,
    /// Operations that read: acquisitions for reading, or numbers read from a pipe.
    pub reads: u64,
    /// All others.
    pub writes: u64,
    /// The longest wait for reading, ns, if waits were timed; with one that was still going on at the
    /// end.
    pub read_wait_max_ns: Option<u64>,
    /// All others, likewise.
    pub write_wait_max_ns: Option<u64>,
    /// When a fixed number of operations was done, s after the start of the measurement.
    pub finished_s: Option<f64>,
}

impl ThreadRecord {
    /// All operations.
    pub const fn operations(&self) -> u64 {
        self.reads + self.writes
    }
}

/// The check of mutual exclusion, over the whole run including the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExclusionCheck {
    /// Acquisitions counted by the vCPUs, without those for reading.
    pub acquisitions: u64,
    /// Entries counted, without atomicity, under the locks; `None`: exclusion was not checked.
    pub entries: Option<u64>,
    /// Times a vCPU saw another one inside; `None` likewise.
    pub violations: Option<u64>,
    /// Turns that may have been under way when vCPUs were ended: for each, one entry may be there
    /// without its acquisition.
    #[serde(default)]
    pub cut_off: u64,
}

impl ExclusionCheck {
    /// Whether nothing contradicts mutual exclusion, which nothing does that was not checked.
    pub fn held(self) -> bool {
        self.violations.unwrap_or(0) == 0 && self.lost().unwrap_or(0) == 0
    }

    /// Whether it was checked.
    pub fn checked(self) -> bool {
        self.entries.is_some()
    }

    /// By how much the entries under the locks miss what the acquisitions allow, if they were counted.
    pub fn lost(self) -> Option<u64> {
        self.entries.map(|entries| {
            let too_few = self.acquisitions.saturating_sub(entries);
            let too_many = entries.saturating_sub(self.acquisitions + self.cut_off);
            too_few.max(too_many)
        })
    }
}

/// One vCPU's part of a run. Counts are of the measurement alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VcpuRecord {
    /// Host CPU it was pinned to, if any.
    pub cpu: Option<usize>,
    /// What it did in the whole measurement.
    #[serde(flatten)]
    pub whole: Figures,
    /// What it did until the first vCPU of its VM had made its fixed number of acquisitions, so that all
    /// were at work; what was begun by then counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_at_work: Option<Figures>,
    /// When it had made its fixed number of acquisitions, s after the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_s: Option<f64>,
    /// Its critical sections as they were found to be, ns, if any was seen in the measurement.
    pub critical_ns: Option<f64>,
    /// What is between two of its acquisitions, likewise.
    pub outside_ns: Option<f64>,
    /// CPU time of its thread, ns; `None`: unknown, here as below.
    pub cpu_ns: Option<u64>,
    /// Times its thread blocked.
    pub voluntary_switches: Option<u64>,
    /// Times its thread was preempted.
    pub involuntary_switches: Option<u64>,
    /// Steal time as KVM reported it, ns.
    pub steal_ns: Option<u64>,
    /// Exits to the VMM by kind (halt, yield, log, exit, signal).
    pub exits: BTreeMap<String, u64>,
    /// KVM's own statistics of the vCPU; zeros are left out. Without KVM there are none.
    pub kvm: Option<BTreeMap<String, u64>>,
}

/// What a vCPU counted in an interval. Where acquisitions are timed, they are those that the waits are
/// of: one figure is made of the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Counters by name (see [`Counter::name`]); zeros are left out.
    pub counters: BTreeMap<String, u64>,
    /// How long acquisitions waited that were not for reading, if they were timed.
    pub waits: Option<Waits>,
    /// How long those for reading waited, if they were timed and it was to make any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_waits: Option<Waits>,
}

impl Figures {
    /// The value of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter.name()).copied().unwrap_or(0)
    }
}

impl VcpuRecord {
    /// What it did while all vCPUs were at work: in the whole measurement, unless a fixed number of
    /// acquisitions was asked for.
    pub fn figures(&self) -> &Figures {
        self.all_at_work.as_ref().unwrap_or(&self.whole)
    }

    /// The value of a counter, of [`Self::figures`].
    pub fn counter(&self, counter: Counter) -> u64 {
        self.figures().counter(counter)
    }

    /// How long acquisitions waited that were not for reading, of [`Self::figures`].
    pub fn waits(&self) -> Option<&Waits> {
        self.figures().waits.as_ref()
    }

    /// How long acquisitions for reading waited, likewise.
    pub fn read_waits(&self) -> Option<&Waits> {
        self.figures().read_waits.as_ref()
    }

    /// How long acquisitions waited, of both kinds.
    pub fn all_waits(&self) -> impl Iterator<Item = &Waits> {
        self.waits().into_iter().chain(self.read_waits())
    }
}

/// A distribution of waiting times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Pairs of bucket number ([`abi::hist`], in ns after conversion of its bounds) and count.
    pub buckets: Vec<(u16, u64)>,
    /// Frequency of the clock that the buckets count in, kHz.
    pub khz: u64,
    /// The longest wait, ns; includes one that was still going on at the end.
    pub max_ns: u64,
    /// The length so far, ns, of a wait that was still going on at the end. It is in no bucket.
    pub cut_off_ns: Option<u64>,
}

impl Waits {
    /// Waits that have ended.
    pub fn ended(&self) -> u64 {
        self.buckets.iter().map(|&(_, count)| count).sum()
    }

    /// Upper bound in ns, and count, of each bucket in use, in ascending order.
    pub fn in_ns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let khz = u128::from(self.khz.max(1));
        self.buckets
            .iter()
            .filter(|(bucket, _)| usize::from(*bucket) < BUCKETS)
            .map(move |&(bucket, count)| {
                let ticks = u128::from(*bucket_values(bucket.into()).end());
                let ns = u64::try_from(ticks * 1_000_000 / khz);
                (ns.unwrap_or(u64::MAX), count)
            })
    }
}

impl Record {
    /// vCPU records of all VMs.
    pub fn vcpus(&self) -> impl Iterator<Item = &VcpuRecord> {
        self.vms.iter().flat_map(|vm| &vm.vcpus)
    }

    /// The length of what the figures of `vm`, one of these, are of, s: for a fixed number of acquisitions
    /// the time in which all its vCPUs were at work.
    pub fn at_work_s(&self, vm: &VmRecord) -> f64 {
        vm.first_done_s.unwrap_or(self.measured_s)
    }

    /// Whether the machine was seen to tell any VM which vCPUs are preempted.
    pub fn preempted_reported(&self) -> bool {
        self.vms.iter().any(|vm| vm.preempted_reported)
    }
}

impl VmRecord {
    /// The sum of a counter over the vCPUs, while all were at work ([`VcpuRecord::figures`]).
    pub fn total(&self, counter: Counter) -> u64 {
        self.vcpus.iter().map(|vcpu| vcpu.counter(counter)).sum()
    }

    /// Acquisitions that found the lock taken, if the lock tells: peers do not.
    pub fn contended(&self) -> Option<u64> {
        let of_peer = |lock: Lock| lock.kind.peer().is_some();
        let peer = self.lock.parse().is_ok_and(of_peer);
        (!peer).then(|| self.total(Counter::Lock(LockEvent::Contended)))
    }

    /// The sum of a counter over the vCPUs, in the whole measurement.
    pub fn whole(&self, counter: Counter) -> u64 {
        let vcpus = self.vcpus.iter();
        vcpus.map(|vcpu| vcpu.whole.counter(counter)).sum()
    }
}
