//! What figures are made of: one VM's part of one run.

use super::stats;
use crate::record::{Record, VcpuRecord, VmRecord};
use crate::scenario::Mix;
use abi::Counter;
use serde::Serialize;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub vm: &'a VmRecord,
    /// Length of the run's measurement, s; with a fixed number of acquisitions, to the last of them.
    pub measured_s: f64,
    /// Who was to read.
    pub mix: Mix,
}

impl<'a> Run<'a> {
    /// That VM's part of the run that `record` is of.
    pub(crate) fn of(record: &Record, vm: &'a VmRecord) -> Self {
        Self {
            vm,
            measured_s: record.measured_s,
            mix: record.scenario.workload.mix,
        }
    }

    /// The part of the first VM, the only one in series of runs.
    pub(crate) fn first(record: &'a Record) -> Option<Self> {
        Some(Self::of(record, record.vms.first()?))
    }

    /// Acquisitions per second of all vCPUs.
    pub(crate) fn throughput(&self) -> f64 {
        self.per_second(self.vm.total(Counter::Acquisitions) as f64)
    }

    /// [`Self::throughput`] as it enters ratios: a run without any acquisition counts as half a
    /// one, which is less than any other run can have and yet has a logarithm.
    pub(crate) fn throughput_for_ratio(&self) -> f64 {
        self.per_second((self.vm.total(Counter::Acquisitions) as f64).max(0.5))
    }

    /// For how long all vCPUs were at work, s: what the figures are of.
    pub(crate) fn at_work_s(&self) -> f64 {
        self.vm.first_done_s.unwrap_or(self.measured_s)
    }

    fn per_second(&self, count: f64) -> f64 {
        // A measurement that was cut off at once has length zero.
        count / self.at_work_s().max(1e-9)
    }

    pub(super) fn shares(&self) -> Vec<f64> {
        let of = |vcpu: &VcpuRecord| vcpu.counter(Counter::Acquisitions) as f64;
        self.vm.vcpus.iter().map(of).collect()
    }
}

/// How evenly vCPUs got the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Fairness {
    /// Jain's index over the vCPUs' acquisitions, median over the runs.
    pub jain: Option<f64>,
    /// Most acquisitions of a vCPU over the least, median over the runs; infinite (null in JSON)
    /// if a vCPU had none.
    pub max_over_min: Option<f64>,
}

impl Fairness {
    /// Of the acquisitions of each vCPU in each run. Fairness is a matter of each run: which vCPU is starved
    /// changes from run to run, and sums over the runs would hide it.
    pub(super) fn of(runs: &[Vec<f64>]) -> Self {
        let typical = |index: fn(&[f64]) -> Option<f64>| {
            stats::median(runs.iter().filter_map(|shares| index(shares)))
        };
        Self {
            jain: typical(stats::jain),
            max_over_min: typical(stats::max_over_min),
        }
    }
}
