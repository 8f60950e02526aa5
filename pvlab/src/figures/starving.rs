//! vCPUs that starve: one definition for runs, comparisons and torture.

use super::run::Run;
use abi::Counter;
use serde::Serialize;

/// A vCPU starves if the others made this many times as many acquisitions, on average, and at least as
/// many each. Where waiters queue, they make about one for each of its own.
pub(crate) const STARVED_WHILE: u64 = 20;

/// Whether a vCPU starved that made `own` acquisitions while its `others` made so many in all.
pub(crate) fn starves(own: u64, in_all: u64, others: u64) -> bool {
    let enough = STARVED_WHILE.saturating_mul(others);
    others > 0 && in_all >= enough.saturating_mul(own.max(1))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Starving {
    /// The run, counted from 1.
    pub run: usize,
    /// The vCPU, by its number in its VM.
    pub vcpu: usize,
    pub acquisitions: u64,
    /// Acquisitions that each of the others made, on average.
    pub others: f64,
    /// How long it was waiting at the end, ns, if it was.
    pub cut_off_ns: Option<u64>,
}

impl Starving {
    pub(crate) fn of(runs: &[Run<'_>]) -> Vec<Self> {
        let of_run = |(number, run): (usize, &Run<'_>)| of_run(number, *run);
        (1..).zip(runs).flat_map(of_run).collect()
    }
}

fn of_run(number: usize, run: Run<'_>) -> Vec<Starving> {
    let vcpus = &run.vm.vcpus;
    let total = run.vm.total(Counter::Acquisitions);
    let others = (vcpus.len() as u64).saturating_sub(1);
    let starving = vcpus.iter().enumerate().filter_map(|(vcpu, record)| {
        let own = record.counter(Counter::Acquisitions);
        starves(own, total - own, others).then(|| Starving {
            run: number,
            vcpu,
            acquisitions: own,
            others: (total - own) as f64 / others as f64,
            cut_off_ns: record.all_waits().filter_map(|w| w.cut_off_ns).max(),
        })
    });
    starving.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::fixture;
    use crate::scenario::Mix;

    fn starving(acquisitions: &[u64]) -> Vec<usize> {
        let vm = fixture::vm("rwlock", acquisitions);
        let all = Starving::of(&[fixture::run(&vm, Mix::Exclusive)]);
        all.iter().map(|starving| starving.vcpu).collect()
    }

    #[test]
    fn a_reader_that_got_a_twentieth_starves_and_one_that_got_more_does_not() {
        assert_eq!(starving(&[16, 400_000, 500_000]), [0]);
        assert_eq!(starving(&[50, 1_000]), [0]);
        assert_eq!(starving(&[51, 1_000]), [0usize; 0]);
        assert_eq!(starving(&[0, 19]), [0usize; 0], "too few to tell");
        assert_eq!(starving(&[0, 20]), [0]);
        assert_eq!(starving(&[0, 0, 0]), [0usize; 0]);
        assert_eq!(starving(&[0]), [0usize; 0], "nobody else");
        assert_eq!(starving(&[0, 0, 100]), [0, 1]);
    }
}
