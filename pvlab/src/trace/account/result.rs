//! The account itself. Times are in ns.

use super::episode::Episodes;
use abi::hist::{BUCKETS, bucket_of, bucket_values};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ops::Index;

/// A cause of waiting; the [module](super) says which applies when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The holder ran its critical section.
    HolderRunning,
    /// The holder did not run: lock-holder preemption, LHP.
    HolderPreempted,
    /// The lock was free and the next waiter did not run: lock-waiter preemption, LWP.
    NextPreempted,
    /// The lock was free for this waiter and it did not run.
    OwnPreemption,
    /// The lock was free and the next waiter was kicked and not up yet.
    KickToRun,
    /// The lock was free and on its way to a waiter that ran.
    HandOver,
    /// It was not known which vCPU held the lock.
    Unattributed,
}

impl Part {
    /// Every part, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::HolderRunning,
        Self::HolderPreempted,
        Self::NextPreempted,
        Self::OwnPreemption,
        Self::KickToRun,
        Self::HandOver,
        Self::Unattributed,
    ];

    /// The part's name for programs, without a unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HolderRunning => "holder_running",
            Self::HolderPreempted => "holder_preempted",
            Self::NextPreempted => "next_preempted",
            Self::OwnPreemption => "own_preemption",
            Self::KickToRun => "kick_to_run",
            Self::HandOver => "hand_over",
            Self::Unattributed => "unattributed",
        }
    }
}

/// A time for each part, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts([u64; Part::ALL.len()]);

impl Parts {
    /// Adds `ns` to a part.
    pub fn add(&mut self, part: Part, ns: u64) {
        add(&mut self.0[part as usize], ns);
    }

    /// Moves `ns`, or what there is, from one part to another.
    pub(super) fn shift(&mut self, from: Part, to: Part, ns: u64) {
        let ns = ns.min(self[from]);
        self.0[from as usize] -= ns;
        self.add(to, ns);
    }

    /// Adds all parts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for part in Part::ALL {
            self.add(part, other[part]);
        }
    }

    /// All parts together, ns.
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

impl Index<Part> for Parts {
    type Output = u64;

    fn index(&self, part: Part) -> &u64 {
        &self.0[part as usize]
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Part::ALL.map(|part| (part.name(), self[part])))
    }
}

/// The account of a trace.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Account {
    /// Whether the machine was simulated: nothing was measured then.
    pub simulated: bool,
    /// From the first event to the end.
    pub span_ns: u64,
    /// Events read.
    pub events: u64,
    /// Of them, ignored because they name a VM, vCPU or lock that there is not.
    pub foreign_events: u64,
    /// The VMs; a report adds to each what is made of its tallies.
    #[serde(skip)]
    pub vms: Vec<VmAccount>,
}

impl Account {
    /// Acquisitions whose parts did not add up to their wait. If there are any, the account is wrong.
    pub fn sum_violations(&self) -> u64 {
        self.vms.iter().map(|vm| vm.total.sum_violations).sum()
    }
}

/// The account of a VM.
#[derive(Clone, Debug, serde::Serialize)]
pub struct VmAccount {
    /// Number of the VM.
    pub vm: u16,
    /// Name of its lock algorithm.
    pub lock: &'static str,
    /// Number of its vCPUs.
    pub vcpus: usize,
    /// vCPUs of which no switch was seen: whether these were on a CPU is not known.
    pub vcpus_without_switches: usize,
    /// All locks together.
    #[serde(skip)]
    pub total: Tally,
    /// Each lock, by number.
    #[serde(skip)]
    pub locks: Vec<Tally>,
}

/// What became of the acquisitions of a lock, or of several.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Tally {
    /// Complete acquisitions.
    pub acquisitions: u64,
    /// Of them, not at once.
    pub waited: u64,
    /// Successful `try_lock`s; not among `acquisitions`.
    pub tried: u64,
    /// Total wait, unfinished ones included.
    pub wait_ns: u64,
    /// The wait by cause.
    pub parts_ns: Parts,
    /// Waits that had not ended when the trace did.
    pub unfinished: u64,
    /// Their share of `wait_ns`.
    pub unfinished_wait_ns: u64,
    /// Acquisitions of which the beginning was not seen; their waits are not accounted.
    pub incomplete: u64,
    /// Acquisitions given up because events are missing; their waits are not accounted.
    pub dropped: u64,
    /// Acquisitions that began while the trace had another holder.
    pub overlaps: u64,
    /// Acquisitions whose parts differ from their wait by more than 1 us and 1 %.
    pub sum_violations: u64,
    /// The largest such difference.
    pub worst_violation_ns: u64,
    /// Times in which the holder did not run while others waited.
    pub lhp: Episodes,
    /// Times in which the lock was free and the next waiter did not run while others waited.
    pub lwp: Episodes,
    /// Times in which the lock was free and the next waiter was kicked and not up yet while others
    /// waited.
    pub kick: Episodes,
    /// Total time the holder did not run, whether anyone waited or not.
    pub holder_off_ns: u64,
    /// The episodes of all kinds that cost the other waiters most, worst first.
    pub stalls: Vec<super::Episode>,
    /// Halts behind others in the queue.
    pub halts_queued: u64,
    /// Halts as the next waiter.
    pub halts_head: u64,
    /// Halts that ended without the waiter being able to go on: it woke without having become next, or
    /// it was next, did not get the lock, and halted again.
    pub futile_halts: u64,
    /// Kicks.
    pub kicks: u64,
    /// From the kick of a halted waiter until it was up.
    pub kick_to_run_ns: KickToRun,
    /// Directed yields.
    pub yields: u64,
    /// Yields to a vCPU that ran already, or after which the yielder ran again before the lock had been
    /// released.
    pub futile_yields: u64,
    /// What was done on purpose.
    pub injected: Injected,
}

/// Preemption on purpose: the truth to compare an account with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Injected {
    /// Times a holder was held off its CPU.
    pub holder: u64,
    /// For how long, in all.
    pub holder_ns: u64,
    /// Of `holder_off_ns`, while the holder was held off on purpose.
    pub holder_found_ns: u64,
    /// Times the next waiter was held off its CPU, the lock being held or free.
    pub next: u64,
    /// For how long, in all.
    pub next_ns: u64,
    /// How long the lock was free meanwhile.
    pub next_found_ns: u64,
}

/// A distribution of times, ns. Percentiles are at most 6.25 % too high and never too low.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KickToRun {
    /// Empty until something is recorded.
    buckets: Vec<u64>,
    max: u64,
}

impl KickToRun {
    pub(super) fn record(&mut self, ns: u64) {
        self.buckets.resize(BUCKETS, 0);
        self.buckets[bucket_of(ns)] += 1;
        self.max = self.max.max(ns);
    }

    /// How many times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The longest, ns; `None` if there is none.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The time that `percent` % of them do not exceed, ns; `None` if there is none.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= wanted
        })?;
        Some((*bucket_values(bucket).end()).min(self.max))
    }

    /// Upper bounds of the buckets that are not empty, ns, and how many times are in each.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.buckets.iter().enumerate();
        let counts = counts.filter(|(_, count)| **count > 0);
        counts.map(|(bucket, &count)| (*bucket_values(bucket).end(), count))
    }

    fn merge(&mut self, other: &Self) {
        if !other.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }
}

impl Serialize for KickToRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("count", &self.count())?;
        map.serialize_entry("p50", &self.percentile(50))?;
        map.serialize_entry("p99", &self.percentile(99))?;
        map.serialize_entry("max", &self.max())?;
        map.serialize_entry("buckets", &Vec::from_iter(self.buckets()))?;
        map.end()
    }
}

/// Adds `ns`: what somebody else may have written can be of any length.
pub(super) fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// Adds up the fields of those names.
macro_rules! add_up {
    ($mine:expr, $theirs:expr, $($field:ident)+) => {
        $(add(&mut $mine.$field, $theirs.$field);)+
    };
}

/// A difference between parts and wait up to here is a matter of clocks, ns.
const SUM_TOLERANCE_NS: u64 = 1_000;

impl Tally {
    /// Accounts a wait of `wait_ns`, by the time stamps, that came to `parts` by the clocks.
    pub(super) fn wait(&mut self, wait_ns: u64, parts: &Parts) {
        add(&mut self.wait_ns, wait_ns);
        self.parts_ns.add_all(parts);
        let difference = parts.sum().abs_diff(wait_ns);
        if difference > SUM_TOLERANCE_NS.max(wait_ns / 100) {
            self.sum_violations += 1;
            self.worst_violation_ns = self.worst_violation_ns.max(difference);
        }
    }

    /// The waiting for a cause in each acquisition, ns; `None` if there was no acquisition.
    pub fn per_acquisition_ns(&self, part: Part) -> Option<f64> {
        (self.acquisitions > 0).then(|| self.parts_ns[part] as f64 / self.acquisitions as f64)
    }

    /// All waiting in each acquisition, ns; `None` if there was no acquisition.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.acquisitions > 0).then(|| self.wait_ns as f64 / self.acquisitions as f64)
    }

    /// The share of all waiting that a cause has, from 0 to 1; `None` if there was no waiting.
    pub fn share(&self, part: Part) -> Option<f64> {
        let whole = self.parts_ns.sum();
        (whole > 0).then(|| self.parts_ns[part] as f64 / whole as f64)
    }

    /// Takes in what became of another lock's acquisitions.
    pub fn merge(&mut self, other: &Self) {
        add_up!(self, other, acquisitions waited tried wait_ns unfinished unfinished_wait_ns
            incomplete dropped overlaps sum_violations holder_off_ns halts_queued halts_head
            futile_halts kicks yields futile_yields);
        add_up!(self.injected, other.injected, holder holder_ns holder_found_ns
            next next_ns next_found_ns);
        self.parts_ns.add_all(&other.parts_ns);
        self.worst_violation_ns = self.worst_violation_ns.max(other.worst_violation_ns);
        self.lhp.merge(&other.lhp);
        self.lwp.merge(&other.lwp);
        self.kick.merge(&other.kick);
        for stall in &other.stalls {
            super::episode::keep_worst(&mut self.stalls, |stall| stall.waited_ns, stall);
        }
        self.kick_to_run_ns.merge(&other.kick_to_run_ns);
    }
}
