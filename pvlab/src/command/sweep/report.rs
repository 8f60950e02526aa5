//! The report of a sweep.

use super::result::{LockAt, Point, Sweep};
use crate::figures::{in_words, none, two_states};
use crate::human::{or_dash, ratio, ratios, throughput};
use crate::record::Context;
use crate::report::{Block, Columns, Format, Report, Table, headline};
use crate::scenario::Scenario;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.sweep/1")]
pub(crate) struct SweepReport {
    #[serde(flatten)]
    pub context: Context,
    /// The name of the parameter that was swept over.
    pub parameter: &'static str,
    /// What its values are in.
    pub unit: &'static str,
    /// Runs of each lock at each value.
    pub rounds: usize,
    /// A run, without the parameter that was swept over.
    pub scenario: Scenario,
    pub points: Vec<Point>,
    #[serde(skip)]
    pub sweep: Sweep,
}

impl Report for SweepReport {
    fn csv(&self) -> String {
        let rows = self.points.iter();
        let rows = rows.flat_map(|point| point.locks.iter().map(move |lock| (point.value, lock)));
        Columns::new()
            .value(self.parameter, |(value, _): &(f64, &LockAt)| *value)
            .value("lock", |(_, lock)| lock.lock.clone())
            .value("acquisitions_per_s", |(_, lock)| {
                none::some(lock.acquisitions_per_s)
            })
            .value("ratio", |(_, lock)| none::some(lock.ratio))
            .value("ratio_lo", |(_, lock)| none::some(lock.ratio_interval?.0))
            .value("ratio_hi", |(_, lock)| none::some(lock.ratio_interval?.1))
            .value("machine", |_| self.scenario.machine_name())
            .csv(rows)
    }

    fn blocks(&self, _: Format) -> Vec<Block> {
        let what = self.sweep.parameter.what.trim().trim_end_matches('.');
        let lines = vec![
            headline(&self.context, &self.scenario),
            format!("swept over: {} ({what})", self.parameter),
            format!(
                "simulated: nothing was measured; {} seeds of each",
                self.rounds
            ),
        ];
        vec![
            Block::Lines(lines),
            Block::Table(self.table()),
            Block::Lines(self.two_states()),
        ]
    }
}

impl SweepReport {
    /// Cells whose rounds fall into two groups.
    fn two_states(&self) -> Vec<String> {
        let cells = (self.points.iter())
            .flat_map(|point| point.locks.iter().map(move |lock| (point.value, lock)));
        let lines = cells.filter_map(|(value, lock)| {
            let states = two_states(lock.bistable?);
            let value = self.sweep.name_of(value);
            Some(format!("warning: {}, {value}: {states}", lock.lock))
        });
        lines.collect()
    }

    fn table(&self) -> Table {
        let columns = Columns::new().cell(self.parameter, |point: &&Point| {
            self.sweep.name_of(point.value)
        });
        let names: Vec<_> = (self.points.iter().take(1))
            .flat_map(|point| point.locks.iter().map(|lock| &lock.lock))
            .collect();
        let columns = (names.iter().enumerate()).fold(columns, |columns, (i, name)| {
            let made = move |point: &&Point| throughput(point.locks[i].acquisitions_per_s);
            columns.cell(*name, made)
        });
        let others = names.iter().enumerate().skip(1);
        let columns = others.fold(columns, |columns, (i, name)| {
            let compared = columns.cell(format!("{name}/{}", names[0]), move |point| {
                ratio(point.locks[i].ratio)
            });
            compared.cell("interval", move |point| {
                let lock = &point.locks[i];
                or_dash(lock.ratio_interval, ratios) + in_words(lock.ratio_interval_is)
            })
        });
        let title = "Acquisitions per second of all vCPUs together, simulated (medians over the seeds; 95 % intervals)";
        let mut table = columns.table(title, &self.points);
        table.left.clear();
        table
    }
}
