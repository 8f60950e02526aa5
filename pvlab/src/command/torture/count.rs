//! Counting: what each thread has done, and what all of a role have.

use super::record::{Counts, Role};
use crate::machine::RunningVm;
use crate::scenario::Scenario;
use abi::{Counter, VcpuArea};
use host::region::RegionError;
use pvlock::LockEvent;
use serde::Serialize;
use std::mem::offset_of;

/// What one thread has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) acquisitions: u64,
    pub(crate) around: u64,
    pub(crate) violations: u64,
    pub(crate) late: u64,
    pub(crate) contended: u64,
}

impl Count {
    /// That of each vCPU.
    pub(crate) fn all(vm: &dyn RunningVm) -> Result<Vec<Self>, RegionError> {
        let vcpus = 0..vm.region().layout().vcpus();
        vcpus.map(|vcpu| Self::of(vm, vcpu)).collect()
    }

    /// That of one vCPU.
    pub(crate) fn of(vm: &dyn RunningVm, vcpu: usize) -> Result<Self, RegionError> {
        let counters = vm.region().counters(vcpu)?;
        let of = |counter: Counter| counters[counter.index()];
        Ok(Self {
            acquisitions: of(Counter::Acquisitions),
            around: of(Counter::Around),
            violations: of(Counter::Violations),
            late: of(Counter::Late),
            contended: of(Counter::Lock(LockEvent::Contended)),
        })
    }

    /// Failures, in locktorture's sense.
    pub(crate) fn failures(&self) -> u64 {
        self.violations + self.late
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
        let of = |figure: fn(&Count) -> u64| {
            let all = || counts.iter().map(figure);
            (
                all().sum(),
                all().max().unwrap_or(0),
                all().min().unwrap_or(0),
            )
        };
        let (total, max, min) = of(|count| count.acquisitions);
        let (fail, fail_max, fail_min) = of(Count::failures);
        Self {
            total,
            max,
            min,
            fail,
            fail_max,
            fail_min,
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
    let writers = (0..counts.len()).filter(|&vcpu| scenario.role(vcpu).0 == Role::Writer);
    writers
        .map(|vcpu| counts[vcpu].acquisitions + counts[vcpu].around)
        .sum()
}

/// Acquisitions of each vCPU so far.
pub(crate) fn acquisitions(vm: &dyn RunningVm) -> Result<Vec<u64>, RegionError> {
    let field = offset_of!(VcpuArea, counters) + 8 * Counter::Acquisitions.index();
    let region = vm.region();
    (0..region.layout().vcpus())
        .map(|vcpu| region.vcpu_word(vcpu, field))
        .collect()
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
        let count = |acquisitions, violations, late| Count {
            acquisitions,
            violations,
            late,
            ..Count::default()
        };
        let tally = Tally::of(&[count(10, 0, 1), count(3, 2, 0), count(7, 0, 0)]);
        assert_eq!((tally.total, tally.max, tally.min), (20, 10, 3));
        assert_eq!((tally.fail, tally.fail_max, tally.fail_min), (3, 2, 0));
        assert_eq!(Tally::of(&[]), Tally::default());
    }
}
