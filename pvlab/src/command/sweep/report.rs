//! The report of a sweep.

use super::result::{LockAt, Point, Sweep};
use crate::figures::stats::in_words;
use crate::figures::{none, two_states};
use crate::human::{or_dash, ratio, ratios, throughput};
use crate::record::Context;
use crate::report::column::Columns;
use crate::report::doc::{Block, Table, render};
use crate::report::{Format, Machine, headline, to_json};
use crate::scenario::Scenario;
use serde::Serialize;

/// The report of a sweep.
#[derive(Debug)]
pub(crate) struct SweepReport {
    /// Where it was run.
    pub context: Context,
    /// A run, without the parameter that was swept over.
    pub scenario: Scenario,
    /// What was swept over.
    pub sweep: Sweep,
    /// Runs of each lock at each value.
    pub rounds: usize,
    /// What came out at each value.
    pub points: Vec<Point>,
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    parameter: &'static str,
    unit: &'static str,
    rounds: usize,
    scenario: &'a Scenario,
    points: &'a [Point],
}

impl SweepReport {
    /// The report in that format.
    pub(crate) fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_json(&Json {
                schema: "pvlab.sweep/1",
                machine: self.context.machine(&self.scenario),
                parameter: self.sweep.parameter.name,
                unit: self.sweep.parameter.unit.symbol(),
                rounds: self.rounds,
                scenario: &self.scenario,
                points: &self.points,
            }),
            Format::Csv => self.csv(),
            Format::Table | Format::Markdown => {
                let lines = vec![
                    headline(&self.context, &self.scenario),
                    format!(
                        "swept over: {} ({})",
                        self.sweep.parameter.name,
                        self.sweep.parameter.what.trim().trim_end_matches('.')
                    ),
                    format!(
                        "simulated: nothing was measured; {} seeds of each",
                        self.rounds
                    ),
                ];
                let blocks = [
                    Block::Lines(lines),
                    Block::Table(self.table()),
                    Block::Lines(self.two_states()),
                ];
                render(&blocks, format)
            }
        }
    }

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
        let names = self.points.first().map_or(&[][..], |point| &point.locks);
        let mut header = vec![self.sweep.parameter.name.to_owned()];
        header.extend(names.iter().map(|lock| lock.lock.clone()));
        for lock in names.iter().skip(1) {
            header.push(format!("{}/{}", lock.lock, names[0].lock));
            header.push("interval".to_owned());
        }
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        let title = "Acquisitions per second of all vCPUs together, simulated (medians over the seeds; 95 % intervals)";
        let mut table = Table::new(title, &header);
        table.left.clear();
        for point in &self.points {
            let mut row = vec![self.sweep.name_of(point.value)];
            row.extend(
                point
                    .locks
                    .iter()
                    .map(|lock| throughput(lock.acquisitions_per_s)),
            );
            for lock in point.locks.iter().skip(1) {
                row.push(ratio(lock.ratio));
                row.push(or_dash(lock.ratio_interval, ratios) + in_words(lock.ratio_interval_is));
            }
            table.row(row);
        }
        table
    }

    fn csv(&self) -> String {
        let rows = self.points.iter();
        let rows = rows.flat_map(|point| point.locks.iter().map(move |lock| (point.value, lock)));
        Columns::new()
            .value(self.sweep.parameter.name, |(value, _): &(f64, &LockAt)| {
                *value
            })
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
}
