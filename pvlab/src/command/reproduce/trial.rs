//! A run, and which figures of a table it yields.

use super::published::Place;
use crate::command::torture::course;
use crate::command::torture::record::{Counts, Outcome, Role};
use crate::record::Record;
use crate::scenario::{BenchKind, Scenario, Torture};
use crate::session::{Interval, Observer, RunError, run_undisturbed};
use abi::Counter;
use std::time::Duration;

/// Figures of a run, each with its place.
pub(crate) type Found = Vec<(Place, f64)>;

/// A run that is made with several seeds.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// For people.
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
    pub(crate) reading: Reading,
}

/// What is read of a run.
#[derive(Clone, Debug)]
pub(crate) enum Reading {
    /// Operations of all threads each second, times `scale`.
    Rate { place: Place, scale: f64 },
    /// The same, the average of the threads.
    RatePerThread { place: Place },
    /// How long so many operations of each thread take, ms; fewer are made.
    Time { place: Place, operations: u64 },
    /// Acquisitions of all vCPUs each second, times `scale`.
    Acquisitions { place: Place, scale: f64 },
    /// The same, and the most over the least of a vCPU.
    Spin { place: Place, scale: f64 },
    /// Reports of locktorture, and how long writers waited.
    Reports {
        block: &'static str,
        torture: Torture,
        slice: Duration,
    },
}

/// When a locktorture reports, in seconds after its start, and how that is simulated: by slices, each of which
/// stands for what is between two reports.
pub(crate) const REPORTS: usize = 3;

impl Trial {
    /// Runs it with the seed of round `round`. `None`: it was interrupted.
    pub(crate) fn run(&self, round: usize) -> Result<Option<Found>, RunError> {
        let scenario = self.scenario.clone().in_round(round);
        if let Reading::Reports {
            block,
            torture,
            slice,
        } = &self.reading
        {
            return match course::run(&scenario, torture, *slice, &mut Silent) {
                Ok(outcome) if outcome.interrupted => Ok(None),
                Ok(outcome) => Ok(Some(reports(block, &outcome))),
                Err(RunError::Interrupted) => Ok(None),
                Err(error) => Err(error),
            };
        }
        match run_undisturbed(&scenario, &mut Silent) {
            Ok(record) if record.interrupted => Ok(None),
            Ok(record) => Ok(Some(self.read(&record))),
            Err(RunError::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, record: &Record) -> Found {
        let vm = &record.vms[0];
        let operations = || {
            let threads = vm.threads.iter();
            let of_thread = threads.map(|thread| match record.scenario.bench {
                // A round trip is one of a pair's first.
                Some(bench) if bench.workload == BenchKind::Pipe => thread.reads as f64 / 2.0,
                _ => thread.operations() as f64,
            });
            of_thread.sum::<f64>()
        };
        match &self.reading {
            Reading::Rate { place, scale } => {
                vec![(place.clone(), operations() / record.measured_s * scale)]
            }
            Reading::RatePerThread { place } => {
                let threads = vm.threads.len() as f64;
                vec![(place.clone(), operations() / record.measured_s / threads)]
            }
            Reading::Time { place, operations } => {
                let made = self.scenario.length.iterations().max(1) as f64;
                let ms = record.measured_s * 1e3 * (*operations as f64 / made);
                vec![(place.clone(), ms)]
            }
            Reading::Acquisitions { place, scale } => {
                let all = vm.total(Counter::Acquisitions) as f64;
                vec![(place.clone(), all / record.measured_s * scale)]
            }
            Reading::Spin { place, scale } => {
                let of_vcpu = vm
                    .vcpus
                    .iter()
                    .map(|vcpu| vcpu.counter(Counter::Acquisitions) as f64);
                let (all, most, least) = of_vcpu.fold((0.0, 0.0, f64::INFINITY), |(a, m, l), n| {
                    (a + n, f64::max(m, n), f64::min(l, n))
                });
                let column = format!("{} max/min", place.column);
                let fairness = Place::new(&place.block, &place.row, column);
                let mut found = vec![(place.clone(), all / record.measured_s * scale)];
                if least > 0.0 {
                    found.push((fairness, most / least));
                }
                found
            }
            Reading::Reports { .. } => Vec::new(),
        }
    }
}

/// The rates in each slice, and the longest wait of a writer.
fn reports(block: &str, outcome: &Outcome) -> Found {
    let mut found = Vec::new();
    let mut before = (0.0, 0, 0);
    for (number, counts) in outcome.intervals.iter().take(REPORTS).enumerate() {
        let reads = counts.reads.map_or(0, |tally| tally.total);
        let now = (counts.at_s, counts.writes.total, reads);
        let length = (now.0 - before.0).max(1e-9);
        let n = number + 1;
        for (side, count) in [("writes", now.1 - before.1), ("reads", now.2 - before.2)] {
            found.push((
                Place::new(block, format!("{side} {n}"), "rate"),
                count as f64 / length,
            ));
        }
        let fails = |fail: u64| fail as f64;
        if matches!(block, "old" | "queued") {
            for (side, fail) in [
                ("writes", counts.writes.fail),
                ("reads", counts.reads.map_or(0, |tally| tally.fail)),
            ] {
                for column in ["fail", "max", "min"] {
                    // Max and min were those of failures.
                    found.push((
                        Place::new(block, format!("{side} {n}"), column),
                        fails(fail),
                    ));
                }
            }
        }
        before = now;
    }
    let writers = outcome.threads.iter().filter(|t| t.role == Role::Writer);
    let longest = writers.map(|t| t.longest_wait_ns).max().unwrap_or(0);
    found.push((Place::new(block, "writer", "longest wait"), longest as f64));
    found
}

struct Silent;

impl Observer<Interval> for Silent {}
impl Observer<Counts> for Silent {}
