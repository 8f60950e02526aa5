//! The report of a validation.

use super::result::ValidationCell;
use crate::figures::stats::in_words;
use crate::figures::{none, two_states};
use crate::human::{or_dash, rate, rates, ratio, throughput};
use crate::record::Context;
use crate::report::column::Columns;
use crate::report::doc::{Block, Table, render};
use crate::report::{Format, headline, to_json};
use crate::scenario::Scenario;
use serde::Serialize;

/// The report of a validation.
#[derive(Debug)]
pub(crate) struct ValidateReport {
    /// Where the real runs were made, and why there.
    pub context: Context,
    /// A real run.
    pub scenario: Scenario,
    /// The simulated machine's name.
    pub against: String,
    /// How often each cell was run on either machine.
    pub rounds: usize,
    /// The cells.
    pub cells: Vec<ValidationCell>,
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    machine: String,
    machine_reason: &'a str,
    host: Option<&'a crate::host::Host>,
    simulated_machine: &'a str,
    rounds: usize,
    scenario: &'a Scenario,
    cells: &'a [ValidationCell],
}

impl ValidateReport {
    /// The report in that format.
    pub(crate) fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_json(&Json {
                schema: "pvlab.validate/1",
                machine: self.scenario.machine_name(),
                machine_reason: &self.context.machine_reason,
                host: self.context.host.as_ref(),
                simulated_machine: &self.against,
                rounds: self.rounds,
                scenario: &self.scenario,
                cells: &self.cells,
            }),
            Format::Csv => columns().csv(&self.cells),
            Format::Table | Format::Markdown => {
                let blocks = [
                    Block::Lines(self.lines()),
                    Block::Table(self.table()),
                    Block::Lines(self.two_states()),
                ];
                render(&blocks, format)
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let near = self.cells.iter().filter(|cell| cell.is_near()).count();
        vec![
            headline(&self.context, &self.scenario),
            format!(
                "simulated: {}, the same with as many vCPUs and CPUs; figures in the columns so marked are \
                 simulated",
                self.against
            ),
            format!("rounds: {} on either machine", self.rounds),
            format!(
                "near enough: {near} of {} cells (throughput within the factor given; halts and kicks, where \
                 there are enough to tell, within 2)",
                self.cells.len()
            ),
        ]
    }

    /// Cells whose rounds fall into two groups.
    fn two_states(&self) -> Vec<String> {
        let sides = self.cells.iter().flat_map(|cell| {
            [("real", &cell.real), ("simulated", &cell.simulated)]
                .map(|(machine, side)| (cell, machine, side.bistable))
        });
        let lines = sides.filter_map(|(cell, machine, states)| {
            let states = two_states(states?);
            Some(format!(
                "warning: {}, {} vCPUs, {machine}: {states}",
                cell.lock, cell.vcpus
            ))
        });
        lines.collect()
    }

    fn table(&self) -> Table {
        columns().table(
            "Acquisitions, halts and kicks per second of all vCPUs together (medians over the rounds; 95 % interval)",
            &self.cells,
        )
    }
}

fn columns<'a>() -> Columns<'a, &'a ValidationCell> {
    let near = |cell: &&ValidationCell| if cell.is_near() { "yes" } else { "NO" }.to_owned();
    Columns::new()
        .text("lock", "lock", |cell: &&ValidationCell| cell.lock.clone())
        .text("vcpus", "vCPUs", |cell| cell.vcpus.to_string())
        .value("real_acquisitions_per_s", |cell| {
            none::some(cell.real.acquisitions_per_s)
        })
        .cell("real", |cell| throughput(cell.real.acquisitions_per_s))
        .value("real_lo", |cell| none::some(cell.real.interval?.0))
        .value("real_hi", |cell| none::some(cell.real.interval?.1))
        .cell("interval", |cell| {
            or_dash(cell.real.interval, rates) + in_words(cell.real.interval_is)
        })
        .value("simulated_acquisitions_per_s", |cell| {
            none::some(cell.simulated.acquisitions_per_s)
        })
        .cell("simulated", |cell| {
            throughput(cell.simulated.acquisitions_per_s)
        })
        .value("ratio", |cell| none::some(cell.ratio))
        .cell("sim/real", |cell| ratio(cell.ratio))
        .text("within", "within", |cell| cell.within.to_string())
        .value("real_halts_per_s", |cell| cell.real.halts_per_s)
        .cell("halts real", |cell| rate(cell.real.halts_per_s))
        .value("simulated_halts_per_s", |cell| cell.simulated.halts_per_s)
        .cell("simulated", |cell| rate(cell.simulated.halts_per_s))
        .value("real_kicks_per_s", |cell| cell.real.kicks_per_s)
        .cell("kicks real", |cell| rate(cell.real.kicks_per_s))
        .value("simulated_kicks_per_s", |cell| cell.simulated.kicks_per_s)
        .cell("simulated", |cell| rate(cell.simulated.kicks_per_s))
        .value("near", |cell| cell.is_near())
        .cell("near", near)
}
