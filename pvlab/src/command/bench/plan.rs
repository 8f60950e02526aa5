//! What a microbenchmark's table is made of, and in which order its cells are run.

use crate::scenario::{Bench, BenchKind, Lock, Mix, Scenario, VmSpec, WorkTime};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct BenchPlan {
    pub workload: BenchKind,
    /// The others are compared with the first.
    pub locks: Vec<Lock>,
    /// Those that the threads share, if there are as many threads.
    pub vcpus: usize,
    pub threads: Vec<usize>,
    pub layout: TableKind,
    /// What is done with each lock, by each number of threads.
    pub columns: Vec<Column>,
    pub rounds: usize,
    /// Operations read by chance, instead of reads being evenly spread.
    pub random_mix: bool,
    /// The scenario of every run, but for what a cell says.
    pub run: Scenario,
}

/// How the tables of a microbenchmark look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TableKind {
    /// A column for each mix of reads and writes; rates.
    Rates,
    /// A row for each mix, a column for each load; execution times.
    Times,
    /// The average of the threads, and the total.
    PerThread,
    /// The time of a round trip, and the total.
    RoundTrips,
}

/// What is done in a cell, beside its lock and its number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Column {
    pub name: String,
    pub ratio: Ratio,
    /// Threads only read or only write; otherwise each does both.
    pub split: bool,
    pub load: Load,
}

/// Reads to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ratio {
    pub reads: u32,
    pub writes: u32,
}

impl Ratio {
    pub(crate) const WRITES: Self = Self::new(0, 1);
    pub(crate) const READS: Self = Self::new(1, 0);
    pub(crate) const EQUAL: Self = Self::new(1, 1);

    pub(crate) const fn new(reads: u32, writes: u32) -> Self {
        Self { reads, writes }
    }

    /// The share of reads, from 0 to 1.
    pub(crate) fn share(self) -> f64 {
        f64::from(self.reads) / (f64::from(self.reads) + f64::from(self.writes))
    }

    /// How many of `threads` read where each only reads or only writes; `None` if that is no whole
    /// number.
    pub(crate) fn readers(self, threads: usize) -> Option<usize> {
        let all = u128::from(self.reads) + u128::from(self.writes);
        let reads = threads as u128 * u128::from(self.reads);
        let whole = reads.is_multiple_of(all);
        whole.then(|| usize::try_from(reads / all).ok())?
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.reads, self.writes)
    }
}

/// What is done inside a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// So many turns of a busy-wait loop (x86 `pause`).
    Pauses(u64),
    Ns(WorkTime),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pauses(n) => write!(f, "{n}"),
            Self::Ns(time) => write!(f, "{time}"),
        }
    }
}

/// A cell, by its place in the plan's lists; in the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub lock: usize,
    pub threads: usize,
    pub column: usize,
}

impl Cell {
    pub(crate) const fn new(lock: usize, threads: usize, column: usize) -> Self {
        Self {
            lock,
            threads,
            column,
        }
    }
}

impl BenchPlan {
    /// Whether the lock at that place can do what the column asks for.
    pub(crate) fn can(&self, lock: usize, column: usize) -> bool {
        self.columns[column].ratio.reads == 0 || self.locks[lock].can_be_read()
    }

    /// All cells in the order of a round: those that are compared with each other come one after the
    /// other, each lock taking its turn to be the first.
    pub(crate) fn order(&self, round: usize) -> Vec<Cell> {
        let n = self.locks.len();
        let mut cells = Vec::new();
        for threads in 0..self.threads.len() {
            for column in 0..self.columns.len() {
                let locks = (0..n).map(|place| (place + round) % n);
                let can = locks.filter(|&lock| self.can(lock, column));
                cells.extend(can.map(|lock| Cell::new(lock, threads, column)));
            }
        }
        cells
    }

    pub(crate) fn vcpus(&self, threads: usize) -> usize {
        match self.run.machine.facts().tasks {
            true => threads.min(self.vcpus),
            false => threads,
        }
    }

    pub(crate) fn most_vcpus(&self) -> usize {
        let vcpus = self.threads.iter().map(|&threads| self.vcpus(threads));
        vcpus.max().unwrap_or(0)
    }

    pub(crate) fn scenario(&self, cell: Cell, round: usize) -> Scenario {
        let threads = self.threads[cell.threads];
        let vcpus = self.vcpus(threads);
        let column = &self.columns[cell.column];
        let mut scenario = self.run.clone().in_round(round);
        let lock = self.locks[cell.lock];
        scenario.vms = vec![VmSpec { lock, vcpus }];
        let (pauses, critical) = match column.load {
            Load::Pauses(n) => (n, WorkTime::ZERO),
            Load::Ns(time) => (0, time),
        };
        scenario.workload.critical = critical;
        scenario.workload.locks = self.workload.locks(vcpus, threads);
        scenario.workload.mix = match (column.ratio.reads, column.ratio.readers(threads)) {
            (0, _) => Mix::Exclusive,
            (_, Some(readers)) if column.split => Mix::Readers(readers),
            _ => Mix::ReadShare(column.ratio.share()),
        };
        scenario.bench = Some(Bench {
            workload: self.workload,
            threads,
            pauses,
            random_mix: self.random_mix && column.ratio.reads > 0,
        });
        scenario
    }

    /// How long a run ought to take, if that is known.
    pub(crate) fn expected(&self) -> Option<Duration> {
        Some(self.run.warm_up + self.run.length.duration()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::bench::result::fixture;

    #[test]
    fn ratios_split_threads_where_they_can() {
        assert_eq!(Ratio::EQUAL.readers(16), Some(8));
        assert_eq!(Ratio::EQUAL.readers(1), None);
        let ten = Ratio::new(10, 1);
        assert_eq!((ten.readers(11), ten.readers(10)), (Some(10), None));
        assert_eq!(ten.to_string(), "10:1");
        assert!((ten.share() - 10.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn locks_that_are_compared_are_neighbours_and_take_turns() {
        let plan = fixture::plan(&["rwlock", "rwlock"], &[1, 4]);
        let locks = |round| plan.order(round).iter().map(|c| c.lock).collect::<Vec<_>>();
        assert_eq!(locks(0), [0, 1].repeat(6));
        assert_eq!(locks(1), [1, 0].repeat(6));
    }

    #[test]
    fn a_lock_without_a_read_side_only_writes() {
        let plan = fixture::plan(&["tas"], &[1]);
        assert_eq!(plan.columns.len(), 3);
        let cells = plan.order(0);
        assert_eq!(cells.len(), 1);
        assert_eq!(plan.scenario(cells[0], 0).workload.mix, Mix::Exclusive);
    }

    #[test]
    fn threads_share_vcpus_and_are_host_threads_where_there_are_none() {
        let mut plan = fixture::plan(&["rwlock"], &[1, 16]);
        plan.vcpus = 2;
        assert_eq!([1, 16].map(|threads| plan.vcpus(threads)), [1, 2]);
        assert_eq!(plan.most_vcpus(), 2);
        let cell = Cell::new(0, 1, 2);
        let scenario = plan.scenario(cell, 0);
        assert_eq!(scenario.workload.mix, Mix::ReadShare(0.5));
        assert_eq!(scenario.bench.unwrap().threads, 16);
        plan.columns[2].split = true;
        assert_eq!(plan.scenario(cell, 0).workload.mix, Mix::Readers(8));
        plan.run.machine = crate::scenario::MachineKind::Threads;
        assert_eq!(plan.scenario(cell, 0).vms[0].vcpus, 16);
    }
}
