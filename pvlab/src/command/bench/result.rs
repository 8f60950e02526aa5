//! What came out of a microbenchmark's runs.

use super::plan::{BenchPlan, Cell, Column, TableKind};
use crate::figures::{Bistable, Support, median, none, rounds_interval};
use crate::record::{Absence, Ended, Record};
use crate::scenario::BenchKind;
use abi::Counter;
use pvlock::LockEvent;
use serde::Serialize;

#[derive(Clone, Debug)]
pub(crate) struct BenchResult {
    pub plan: BenchPlan,
    /// How it ended; [`Ended::Interrupted`] also if a run failed.
    pub ended: Ended,
    /// One for each cell that its lock can do, in their order.
    pub cells: Vec<CellResult>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellResult {
    pub lock: String,
    pub threads: usize,
    /// Those that they shared.
    pub vcpus: usize,
    pub column: Column,
    /// The figures of the tables; empty if no run is complete.
    pub figures: Vec<Figure>,
    /// Change of the figures' medians from those of the first lock, per cent; `None` for the first
    /// lock, and where there is nothing to compare.
    pub change_percent: Option<Vec<f64>>,
    /// One for each complete run.
    pub runs: Vec<RunFigures>,
    #[serde(skip)]
    pub cell: Cell,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub unit: &'static str,
    /// Of the rounds, as what follows; 0 or infinite if it is of no operation.
    #[serde(serialize_with = "none::figure")]
    pub median: f64,
    #[serde(serialize_with = "none::figure")]
    pub min: f64,
    #[serde(serialize_with = "none::figure")]
    pub max: f64,
    /// The interval that the rounds support, and what it is; a single round has none.
    pub lo: Option<f64>,
    pub hi: Option<f64>,
    pub interval: Option<Support>,
    pub bistable: Option<Bistable>,
}

impl Figure {
    /// From the least to the most, per cent of the median.
    pub(crate) fn spread_percent(&self) -> f64 {
        100.0 * (self.max - self.min) / self.median
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunFigures {
    /// Operations of all threads: acquisitions, failed waits, or round trips.
    pub operations: u64,
    /// Of these, acquisitions for reading.
    pub reads: u64,
    /// The fewest operations of a thread, and the most.
    pub thread_min: u64,
    pub thread_max: u64,
    pub seconds: f64,
    pub contended: u64,
    pub preempted_reported: bool,
    /// The longest waits, if they were timed.
    pub read_wait_max_ns: Option<u64>,
    pub write_wait_max_ns: Option<u64>,
    /// They are not in `seconds`.
    pub without_cpu: Vec<Absence>,
    pub repeated: u32,
}

impl RunFigures {
    pub(crate) fn of(workload: BenchKind, record: &Record) -> Self {
        let vm = &record.vms[0];
        let threads = vm.threads.iter();
        let of_thread: Vec<u64> = match workload {
            // A round trip is one of a pair's first.
            BenchKind::Pipe => threads.step_by(2).map(|thread| thread.reads).collect(),
            _ => threads.map(|thread| thread.operations()).collect(),
        };
        let reads = match workload {
            BenchKind::RwsemBench => vm.threads.iter().map(|thread| thread.reads).sum(),
            _ => 0,
        };
        Self {
            operations: of_thread.iter().sum(),
            reads,
            thread_min: of_thread.iter().min().copied().unwrap_or(0),
            thread_max: of_thread.iter().max().copied().unwrap_or(0),
            seconds: record.measured_s,
            contended: vm.total(Counter::Lock(LockEvent::Contended)),
            preempted_reported: record.preempted_reported(),
            read_wait_max_ns: vm.threads.iter().filter_map(|t| t.read_wait_max_ns).max(),
            write_wait_max_ns: vm.threads.iter().filter_map(|t| t.write_wait_max_ns).max(),
            without_cpu: record.without_cpu.clone(),
            repeated: record.repeated,
        }
    }
}

/// What a table's figures tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Operations of all threads, thousands each second.
    KiloRate,
    /// Operations of all threads each second.
    Rate,
    /// The same, the average of the threads.
    RatePerThread,
    /// How long the run took, ms.
    Time,
    /// How long an operation takes each pair of threads, us.
    RoundTrip,
}

impl Measure {
    pub(crate) const fn of(layout: TableKind) -> &'static [Self] {
        match layout {
            TableKind::Rates => &[Self::KiloRate],
            TableKind::Times => &[Self::Time],
            TableKind::PerThread => &[Self::RatePerThread, Self::Rate],
            TableKind::RoundTrips => &[Self::RoundTrip, Self::Rate],
        }
    }

    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::KiloRate => "kops/s",
            Self::Rate => "ops/s",
            Self::RatePerThread => "ops/s/thread",
            Self::Time => "ms",
            Self::RoundTrip => "us/op",
        }
    }

    fn figure(self, run: &RunFigures, threads: usize) -> f64 {
        let rate = run.operations as f64 / run.seconds;
        match self {
            Self::KiloRate => rate / 1e3,
            Self::Rate => rate,
            Self::RatePerThread => rate / threads as f64,
            Self::Time => run.seconds * 1e3,
            Self::RoundTrip => 1e6 * (threads as f64 / 2.0) / rate,
        }
    }
}

impl BenchResult {
    pub(crate) fn new(plan: BenchPlan, runs: &[(Cell, RunFigures)], ended: Ended) -> Self {
        let mut cells: Vec<CellResult> = Vec::new();
        let mut places = plan.order(0);
        places.sort_unstable();
        for cell in places {
            let of_cell = runs.iter().filter(|(of, _)| *of == cell);
            let mut result = CellResult {
                lock: plan.locks[cell.lock].name(),
                threads: plan.threads[cell.threads],
                vcpus: plan.vcpus(plan.threads[cell.threads]),
                column: plan.columns[cell.column].clone(),
                figures: Vec::new(),
                change_percent: None,
                runs: of_cell.map(|(_, run)| run.clone()).collect(),
                cell,
            };
            result.figures = figures(plan.layout, &result);
            // The first lock's cells come first.
            let base = Cell { lock: 0, ..cell };
            let base = cells.iter().find(|other| other.cell == base);
            result.change_percent = base.and_then(|base| change(base, &result));
            cells.push(result);
        }
        Self { plan, ended, cells }
    }

    /// The result of a cell, if its lock can do it.
    pub(crate) fn cell(&self, lock: usize, threads: usize, column: usize) -> Option<&CellResult> {
        let wanted = Cell::new(lock, threads, column);
        self.cells.iter().find(|result| result.cell == wanted)
    }
}

fn figures(layout: TableKind, cell: &CellResult) -> Vec<Figure> {
    let figure = |measure: &Measure| {
        let of_run = |run| measure.figure(run, cell.threads);
        let rounds: Vec<f64> = cell.runs.iter().map(of_run).collect();
        let something = rounds.iter().all(|figure| none::is_figure(*figure));
        let interval = rounds_interval(&rounds).filter(|_| something);
        Some(Figure {
            unit: measure.unit(),
            median: median(&rounds)?,
            min: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            max: rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            lo: interval.map(|((lo, _), _)| lo),
            hi: interval.map(|((_, hi), _)| hi),
            interval: interval.map(|(_, support)| support),
            bistable: Bistable::of(&rounds),
        })
    };
    Measure::of(layout).iter().filter_map(figure).collect()
}

fn change(base: &CellResult, cell: &CellResult) -> Option<Vec<f64>> {
    let pairs = base.figures.iter().zip(&cell.figures);
    let change = pairs.map(|(base, new)| 100.0 * (new.median / base.median - 1.0));
    Some(change.collect()).filter(|changes: &Vec<f64>| !changes.is_empty())
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Plans and results made up for tests.

    use super::*;
    use crate::command::bench::plan::{Load, Ratio};
    use crate::figures::fixture::scenario;
    use crate::scenario::{Scenario, WorkTime};
    use pvlock::LockKind;

    /// A plan in the layout of rates.
    pub(crate) fn plan(locks: &[&str], threads: &[usize]) -> BenchPlan {
        let column = |(name, ratio): (&str, Ratio)| Column {
            name: name.to_owned(),
            ratio,
            split: false,
            load: Load::Pauses(1),
        };
        let mut run = Scenario {
            latency: false,
            ..scenario(LockKind::Tas)
        };
        run.workload.outside = WorkTime::ZERO;
        BenchPlan {
            workload: BenchKind::RwsemBench,
            layout: TableKind::Rates,
            locks: locks.iter().map(|lock| lock.parse().unwrap()).collect(),
            threads: threads.to_vec(),
            columns: [
                ("wlock", Ratio::WRITES),
                ("rlock", Ratio::READS),
                ("mixed", Ratio::EQUAL),
            ]
            .map(column)
            .to_vec(),
            rounds: 3,
            random_mix: false,
            vcpus: 2,
            run,
        }
    }

    /// A run of a second.
    pub(crate) fn run(operations: u64) -> RunFigures {
        RunFigures {
            operations,
            reads: operations / 2,
            thread_min: operations / 4,
            thread_max: operations / 2,
            seconds: 1.0,
            contended: 7,
            preempted_reported: false,
            read_wait_max_ns: None,
            write_wait_max_ns: None,
            without_cpu: Vec::new(),
            repeated: 0,
        }
    }

    pub(crate) fn timed(ms: f64) -> RunFigures {
        RunFigures {
            seconds: ms / 1e3,
            ..run(1_000_000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::fixture::record;
    use crate::record::ThreadRecord;
    use pvlock::LockKind;

    fn threads(counts: &[(u64, u64)]) -> Record {
        let mut record = record(LockKind::Tas, 10);
        let thread = |&(reads, writes)| ThreadRecord {
            reads,
            writes,
            write_wait_max_ns: Some(writes),
            ..ThreadRecord::default()
        };
        record.vms[0].threads = counts.iter().map(thread).collect();
        record
    }

    #[test]
    fn operations_are_what_the_original_counts() {
        let record = threads(&[(3, 5), (2, 4)]);
        let run = RunFigures::of(BenchKind::RwsemBench, &record);
        assert_eq!((run.operations, run.reads), (14, 5));
        assert_eq!((run.thread_min, run.thread_max), (6, 8));
        assert_eq!(run.write_wait_max_ns, Some(5));
        // Two pairs; what their second members do is the same again.
        let record = threads(&[(7, 8), (8, 7), (20, 21), (21, 20)]);
        let run = RunFigures::of(BenchKind::Pipe, &record);
        assert_eq!((run.operations, run.thread_min, run.reads), (27, 7, 0));
    }

    #[test]
    fn figures_are_medians_and_changes_are_theirs() {
        let plan = fixture::plan(&["rwlock", "tas"], &[2]);
        let runs = [(0, 2_000_000), (0, 1_000_000), (0, 1_100_000), (1, 550_000)]
            .map(|(lock, n)| (Cell::new(lock, 0, 0), fixture::run(n)));
        let result = BenchResult::new(plan, &runs, Ended::Complete);
        // tas cannot be read.
        assert_eq!(result.cells.len(), 4);
        let base = result.cell(0, 0, 0).unwrap();
        assert_eq!(base.figures[0].median, 1100.0);
        assert!((base.figures[0].spread_percent() - 90.909).abs() < 0.001);
        assert_eq!(base.change_percent, None);
        let other = result.cell(1, 0, 0).unwrap();
        assert_eq!(other.change_percent, Some(vec![-50.0]));
        assert!(result.cell(0, 0, 1).unwrap().figures.is_empty());
        assert!(result.cell(1, 0, 1).is_none());
    }

    #[test]
    fn measures_of_a_run() {
        let run = fixture::timed(500.0);
        let of = |measure: Measure| measure.figure(&run, 4);
        assert_eq!(of(Measure::KiloRate), 2000.0);
        assert_eq!(of(Measure::Rate), 2e6);
        assert_eq!(of(Measure::RatePerThread), 5e5);
        assert_eq!(of(Measure::Time), 500.0);
        // Two pairs at once: each makes half of the round trips.
        assert_eq!(of(Measure::RoundTrip), 1.0);
    }
}
