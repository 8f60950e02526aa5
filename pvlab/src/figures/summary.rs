//! One lock's runs, in a handful of figures.

use super::run::{Fairness, Run};
use super::sharing::Sharing;
use super::starving::Starving;
use super::stats;
use super::waits::WaitNs;
use crate::record::{ExclusionCheck, Record, Spinning, VcpuRecord, VmRecord};
use abi::Counter;
use pvlock::LockEvent;
use serde::Serialize;
use std::collections::BTreeMap;

/// Whether the lock excluded in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exclusion {
    /// Nothing contradicts it.
    Held,
    Broken,
    /// Nobody knows: critical sections touched no data.
    NotChecked,
}

impl Exclusion {
    fn of(checks: impl Iterator<Item = ExclusionCheck> + Clone) -> Self {
        if !checks.clone().all(ExclusionCheck::held) {
            Self::Broken
        } else if checks.clone().all(ExclusionCheck::checked) {
            Self::Held
        } else {
            Self::NotChecked
        }
    }

    /// Of several locks together: what is worst.
    pub(crate) fn worst(each: impl IntoIterator<Item = Self>) -> Self {
        let each: Vec<_> = each.into_iter().collect();
        let bad = [Self::Broken, Self::NotChecked];
        let worst = bad.into_iter().find(|worst| each.contains(worst));
        worst.unwrap_or(Self::Held)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::NotChecked => "not_checked",
        }
    }
}

/// A lock's runs. Counts are sums over vCPUs and runs, of the measurements alone; with a fixed number of
/// acquisitions, until the first vCPU had made them, as from then on the lock is not what it was.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Length of all measurements together, s, likewise.
    pub measured_s: f64,
    /// Their length until the last vCPU was done, s. CPU times, steal, switches and exits are of that.
    pub whole_s: f64,
    /// Acquisitions until the last vCPU was done.
    pub whole_acquisitions: u64,
    pub exclusion: Exclusion,
    /// Times a vCPU saw another one inside, in the whole of the runs, if it was looked.
    pub violations: Option<u64>,
    /// By how much the counter under the lock missed the acquisitions, in the whole of the runs, if it was
    /// counted.
    pub lost_entries: Option<u64>,
    /// How evenly vCPUs got it; unknown where some acquisitions were for reading, see `sharing`.
    pub fairness: Fairness,
    /// Readers and writers, each for themselves, if some acquisitions were to be for reading.
    pub sharing: Option<Sharing>,
    /// How long acquisitions waited, if they were timed.
    pub wait_ns: Option<WaitNs>,
    /// vCPUs that starved, in whichever run.
    pub starving: Vec<Starving>,
    pub acquisitions: u64,
    /// Acquisitions that were made in a context that had interrupted another.
    pub nested: u64,
    /// Acquisitions that found the lock taken; `None`: the lock does not tell.
    pub contended: Option<u64>,
    pub halts: u64,
    pub kicks: u64,
    /// Queued waiters that woke without having become queue head.
    pub spurious_wakes: u64,
    pub yields: u64,
    /// Those of them that gave nothing.
    pub futile_yields: u64,
    /// Exits to the VMM by kind.
    pub exits: BTreeMap<String, u64>,
    /// Every lock event by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Frequency of the clock whose ticks `pv_latency_kick` and `pv_latency_wake` count, kHz.
    pub clock_khz: Option<u64>,
    /// Critical section as achieved, ns: median over the runs.
    pub critical_ns: Option<f64>,
    /// The shortest and the longest that any vCPU achieved in any run, ns.
    pub critical_range_ns: Option<[f64; 2]>,
    /// Work outside as achieved, ns: median over the runs.
    pub outside_ns: Option<f64>,
    /// What timing an acquisition cost, ns: median over the runs.
    pub probe_ns: Option<f64>,
    /// Share of the most used lock in the exclusive acquisitions, warm-up included: median over the
    /// runs, if there are several locks.
    pub most_used_lock: Option<f64>,
    /// How long waiters spun before they halted, where that was given as a time: in the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spinning: Option<Spinning>,
    /// CPU time of the vCPU threads, ns; `None`: unknown of some of them, here as below.
    pub cpu_ns: Option<u64>,
    /// Steal time as KVM reported it, ns, if it did.
    pub steal_ns: Option<u64>,
    /// Times that vCPU threads blocked.
    pub voluntary_switches: Option<u64>,
    /// Times that vCPU threads were preempted.
    pub involuntary_switches: Option<u64>,
}

impl Summary {
    pub(crate) fn of(runs: &[Run<'_>]) -> Self {
        let vcpus = || runs.iter().flat_map(|run| &run.vm.vcpus);
        let checks = || runs.iter().map(|run| run.vm.exclusion);
        let total = |counter| runs.iter().map(|run| run.vm.total(counter)).sum::<u64>();
        let middle = |value: fn(&VmRecord) -> Option<f64>| {
            stats::median(runs.iter().filter_map(|run| value(run.vm)))
        };
        let mut exits = BTreeMap::new();
        for (kind, count) in vcpus().flat_map(|vcpu| &vcpu.exits) {
            *exits.entry(kind.clone()).or_default() += count;
        }
        let event = |&event: &LockEvent| (event.name(), total(Counter::Lock(event)));
        let sharing = Sharing::of(runs);
        let fairness = match sharing {
            None => Fairness::of(&runs.iter().map(Run::shares).collect::<Vec<_>>()),
            Some(_) => Fairness::default(),
        };
        Self {
            measured_s: runs.iter().map(Run::at_work_s).sum(),
            whole_s: runs.iter().map(|run| run.measured_s).sum(),
            whole_acquisitions: (runs.iter().map(|run| run.vm.whole(Counter::Acquisitions))).sum(),
            exclusion: Exclusion::of(checks()),
            violations: checks().map(|check| check.violations).sum(),
            lost_entries: checks().map(ExclusionCheck::lost).sum(),
            fairness,
            wait_ns: WaitNs::pooled(vcpus().flat_map(VcpuRecord::all_waits)),
            starving: Starving::of(runs),
            nested: total(Counter::Nested),
            acquisitions: total(Counter::Acquisitions),
            contended: runs.iter().map(|run| run.vm.contended()).sum(),
            halts: total(Counter::Halts),
            kicks: total(Counter::Kicks),
            spurious_wakes: total(Counter::Lock(LockEvent::PvSpuriousWakeup)),
            yields: total(Counter::Yields),
            futile_yields: total(Counter::FutileYields),
            exits,
            events: BTreeMap::from_iter(LockEvent::ALL.iter().map(event)),
            clock_khz: (runs.iter().map(|run| run.vm.clock_khz)).find(|&khz| khz > 0),
            critical_ns: middle(|vm| vm.critical_ns),
            critical_range_ns: range(vcpus().filter_map(|vcpu| vcpu.critical_ns)),
            outside_ns: middle(|vm| vm.outside_ns),
            probe_ns: middle(|vm| vm.probe_ns),
            most_used_lock: middle(|vm| vm.most_used_lock),
            spinning: runs.iter().find_map(|run| run.vm.spinning),
            cpu_ns: known(vcpus().map(|vcpu| vcpu.cpu_ns)),
            steal_ns: known(vcpus().map(|vcpu| vcpu.steal_ns)),
            voluntary_switches: known(vcpus().map(|vcpu| vcpu.voluntary_switches)),
            involuntary_switches: known(vcpus().map(|vcpu| vcpu.involuntary_switches)),
            sharing,
        }
    }

    pub(crate) fn of_vms(record: &Record) -> Vec<Self> {
        let vms = record.vms.iter();
        vms.map(|vm| Self::of(&[Run::of(record, vm)])).collect()
    }

    /// A count per second of measurement.
    pub(crate) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.measured_s.max(1e-9)
    }

    /// CPUs that were in use, on average, if that is known.
    pub(crate) fn cpus(&self) -> Option<f64> {
        let ns = self.cpu_ns?;
        Some(ns as f64 / 1e9 / self.whole_s.max(1e-9))
    }

    /// Exits to the VMM of all kinds, per second.
    pub(crate) fn exits_per_s(&self) -> f64 {
        self.all_exits() as f64 / self.whole_s.max(1e-9)
    }

    pub(crate) fn all_exits(&self) -> u64 {
        self.exits.values().sum()
    }
}

/// The sum of figures that are all known; of none, it is unknown.
pub(crate) fn known(mut figures: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = figures.next()??;
    figures.try_fold(first, |sum, figure| Some(sum + figure?))
}

/// The least and the most of the values.
pub(crate) fn range(values: impl Iterator<Item = f64> + Clone) -> Option<[f64; 2]> {
    let least = values.clone().min_by(f64::total_cmp)?;
    let most = values.max_by(f64::total_cmp)?;
    Some([least, most])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::fixture;
    use crate::scenario::Mix;

    #[test]
    fn fairness_of_alternating_starvation_does_not_average_out() {
        let (one, two) = (fixture::vm("tas", &[10, 0]), fixture::vm("tas", &[0, 10]));
        let runs = [&one, &two].map(|vm| fixture::run(vm, Mix::Exclusive));
        let fairness = Summary::of(&runs).fairness;
        assert_eq!(fairness.jain, Some(0.5));
        assert_eq!(fairness.max_over_min, Some(f64::INFINITY));
        assert!(serde_json::to_value(fairness).unwrap()["max_over_min"].is_null());
    }

    #[test]
    fn counts_add_up_and_every_event_is_there() {
        let mut vm = fixture::vm("pv-qspinlock", &[10, 30]);
        for (vcpu, halts) in vm.vcpus.iter_mut().zip([3, 4]) {
            let halts = fixture::counters(&[(Counter::Halts, halts)]);
            vcpu.whole.counters.extend(halts);
        }
        vm.vcpus[1].exits.insert("halt".into(), 7);
        let runs = [Run {
            measured_s: 2.0,
            ..fixture::run(&vm, Mix::Exclusive)
        }; 2];
        let summary = Summary::of(&runs);
        assert_eq!(summary.acquisitions, 80);
        assert_eq!(summary.halts, 14);
        assert_eq!(summary.all_exits(), 14);
        assert_eq!(summary.rate(summary.acquisitions), 20.0);
        assert_eq!(summary.events.len(), LockEvent::COUNT);
        assert_eq!(summary.fairness.jain, Some(0.8));
        assert_eq!(summary.steal_ns, None, "unknown is not zero");
        assert_eq!(runs[0].throughput(), 20.0);
    }

    #[test]
    fn nothing_is_summarised_without_nan() {
        let summary = Summary::of(&[]);
        assert_eq!(summary.rate(0), 0.0);
        assert_eq!(summary.fairness.jain, None);
        let vm = fixture::vm("tas", &[0, 0]);
        let of = |measured_s| Run {
            measured_s,
            ..fixture::run(&vm, Mix::Exclusive)
        };
        assert_eq!(of(2.0).throughput(), 0.0);
        assert_eq!(of(2.0).throughput_for_ratio(), 0.25);
        assert!(of(0.0).throughput().is_finite());
    }
}
