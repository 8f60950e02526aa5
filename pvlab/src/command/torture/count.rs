//! Counting: what each thread has done, and what all of a role have.

use super::record::Counts;
use crate::machine::RunningVm;
use crate::scenario::Scenario;
use abi::{Counter, VcpuArea, VcpuState};
use host::region::RegionError;
use serde::Serialize;
use std::mem::offset_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count(Vec<u64>);

impl Count {
    pub(crate) fn all(vm: &dyn RunningVm) -> Result<Vec<Self>, RegionError> {
        let vcpus = 0..vm.region().layout().vcpus();
        vcpus.map(|vcpu| Self::of(vm, vcpu)).collect()
    }

    pub(crate) fn of(vm: &dyn RunningVm, vcpu: usize) -> Result<Self, RegionError> {
        vm.region().counters(vcpu).map(Self)
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0[counter.index()]
    }

    /// Takes back that so many acquisitions were late.
    pub(crate) fn forgive(&mut self, late: u64) {
        let count = &mut self.0[Counter::Late.index()];
        *count = count.saturating_sub(late);
    }

    /// Failures, in locktorture's sense.
    pub(crate) fn failures(&self) -> u64 {
        self.get(Counter::Violations) + self.get(Counter::Late)
    }
}

/// What all threads of one role have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    /// Acquisitions; the most, and the least, of one of them.
    pub total: u64,
    pub max: u64,
    pub min: u64,
    /// Failures, likewise.
    pub fail: u64,
    pub fail_max: u64,
    pub fail_min: u64,
}

impl Tally {
    pub(crate) fn of(counts: &[Count]) -> Self {
        let acquisitions = || counts.iter().map(|count| count.get(Counter::Acquisitions));
        let failures = || counts.iter().map(Count::failures);
        Self {
            total: acquisitions().sum(),
            max: acquisitions().max().unwrap_or(0),
            min: acquisitions().min().unwrap_or(0),
            fail: failures().sum(),
            fail_max: failures().max().unwrap_or(0),
            fail_min: failures().min().unwrap_or(0),
        }
    }
}

impl Counts {
    /// Of what the threads have done until `at_s` seconds after the start.
    pub(crate) fn new(scenario: &Scenario, at_s: f64, counts: &[Count]) -> Self {
        let (writers, readers) = counts.split_at(scenario.writers());
        let shared = scenario.vms[0].lock.kind.is_rw();
        Self {
            at_s,
            writes: Tally::of(writers),
            reads: shared.then(|| Tally::of(readers)),
        }
    }
}

/// Acquisitions for writing, nested ones included, as the threads have counted them.
pub(crate) fn exclusive(scenario: &Scenario, counts: &[Count]) -> u64 {
    let writers = counts.iter().take(scenario.writers());
    let own = writers.map(|count| count.get(Counter::Acquisitions) + count.get(Counter::Around));
    own.sum()
}

pub(crate) fn acquisitions(vm: &dyn RunningVm) -> Result<Vec<u64>, RegionError> {
    let region = vm.region();
    (0..region.layout().vcpus())
        .map(|vcpu| region.acquisitions_of(vcpu))
        .collect()
}

pub(crate) fn states(vm: &dyn RunningVm) -> Result<Vec<VcpuState>, RegionError> {
    let vcpus = 0..vm.region().layout().vcpus();
    vcpus.map(|vcpu| vm.region().state(vcpu)).collect()
}

/// When the wait began that vCPU `vcpu` is in, in ticks; 0 if it is in none.
pub(crate) fn waiting_since(vm: &dyn RunningVm, vcpu: usize) -> Result<u64, RegionError> {
    vm.region()
        .vcpu_word(vcpu, offset_of!(VcpuArea, wait_since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_and_min_are_of_acquisitions_and_separately_of_failures() {
        let count = |acquisitions, violations, late| {
            let of = |counter| match counter {
                Counter::Acquisitions => acquisitions,
                Counter::Violations => violations,
                Counter::Late => late,
                _ => 0,
            };
            Count(Counter::all().map(of).collect())
        };
        let tally = Tally::of(&[count(10, 0, 1), count(3, 2, 0), count(7, 0, 0)]);
        assert_eq!((tally.total, tally.max, tally.min), (20, 10, 3));
        assert_eq!((tally.fail, tally.fail_max, tally.fail_min), (3, 2, 0));
        assert_eq!(Tally::of(&[]), Tally::default());
    }
}
