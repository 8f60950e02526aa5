//! The report of an advice.

use super::advice::{Advice, Choice, LockCell, Place};
use crate::figures::none;
use crate::human::{nanos, or_dash, ratio, ratios, throughput};
use crate::record::Context;
use crate::report::column::Columns;
use crate::report::doc::Block;
use crate::report::{Format, Report, headline};
use crate::scenario::Scenario;
use serde::Serialize;

/// An advice, with what it rests upon.
#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.advise/1")]
pub(crate) struct AdviceReport {
    #[serde(flatten)]
    context: Context,
    /// Of tables.
    #[serde(skip)]
    first_line: String,
    /// Rounds of each cell.
    rounds: usize,
    /// What each run was, but for its lock, its vCPUs and its neighbours.
    scenario: Scenario,
    #[serde(flatten)]
    advice: Advice,
}

impl AdviceReport {
    pub(crate) fn new(
        context: &Context,
        scenario: &Scenario,
        rounds: usize,
        advice: Advice,
    ) -> Self {
        Self {
            context: context.clone(),
            first_line: headline(context, scenario),
            rounds,
            scenario: scenario.clone(),
            advice,
        }
    }

    fn rows(&self) -> Vec<(Place, &LockCell)> {
        let cells = self.advice.cells.iter();
        cells
            .flat_map(|cell| cell.locks.iter().map(|lock| (cell.place, lock)))
            .collect()
    }
}

impl Report for AdviceReport {
    fn csv(&self) -> String {
        columns().csv(self.rows())
    }

    fn blocks(&self, _: Format) -> Vec<Block> {
        let choice = match self.advice.choice {
            Choice::On => "turn paravirtual locks on",
            Choice::Off => "leave paravirtual locks off",
            Choice::Either => "paravirtual locks make no difference here",
            Choice::Depends => "it depends on the overcommit, as below",
            Choice::Unknown => "none; the evidence does not tell",
        };
        let mut lines = vec![format!("advice: {choice}")];
        lines.extend(self.advice.reasons.iter().cloned());
        let title = "Acquisitions a second (median of the rounds), and the ratio to qspinlock, which is what a guest \
                     takes without paravirtual locks (95 % interval)";
        vec![
            Block::Lines(vec![
                self.first_line.clone(),
                format!("rounds: {}, interleaved", self.rounds),
            ]),
            Block::Lines(lines),
            Block::Table(columns().table(title, self.rows())),
        ]
    }
}

type Row<'a> = (Place, &'a LockCell);

fn columns<'a>() -> Columns<'a, Row<'a>> {
    Columns::new()
        .text("vcpus_per_cpu", "a CPU", |(place, _): &Row<'_>| {
            place.overcommit.to_string()
        })
        .text("neighbours", "neighbours", |(place, _)| {
            place.neighbours.to_string()
        })
        .text("lock", "lock", |(_, lock)| lock.lock.clone())
        .left()
        .value("acquisitions_per_s", |(_, lock)| {
            none::some(lock.acquisitions_per_s)
        })
        .cell("rate", |(_, lock)| throughput(lock.acquisitions_per_s))
        .value("ratio", |(_, lock)| lock.ratio)
        .cell("ratio", |(_, lock)| or_dash(lock.ratio, ratio))
        .value("lo", |(_, lock)| lock.lo)
        .value("hi", |(_, lock)| lock.hi)
        .cell("interval", |(_, lock)| {
            or_dash(lock.lo.zip(lock.hi), ratios)
        })
        .value("longest_wait_ns", |(_, lock)| lock.longest_wait_ns)
        .cell("longest wait", |(_, lock)| {
            or_dash(lock.longest_wait_ns, nanos)
        })
}
