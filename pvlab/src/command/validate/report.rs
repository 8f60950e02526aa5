//! The report of a validation.

use super::result::ValidationCell;
use crate::figures::{in_words, none, two_states};
use crate::host::Host;
use crate::human::{or_dash, rate, rates, ratio, throughput};
use crate::report::{Block, Columns, Format, Report};
use crate::scenario::Scenario;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.validate/1")]
pub(crate) struct ValidateReport {
    /// Of tables.
    #[serde(skip)]
    pub first_line: String,
    pub machine: String,
    /// Why on that.
    pub machine_reason: String,
    pub host: Option<Host>,
    pub simulated_machine: String,
    /// How often each cell was run on either machine.
    pub rounds: usize,
    /// A real run.
    pub scenario: Scenario,
    pub cells: Vec<ValidationCell>,
}

impl Report for ValidateReport {
    fn csv(&self) -> String {
        columns().csv(&self.cells)
    }

    fn blocks(&self, _: Format) -> Vec<Block> {
        let near = self.cells.iter().filter(|cell| cell.is_near()).count();
        let same =
            "the same with as many vCPUs and CPUs; figures in the columns so marked are simulated";
        let lines = vec![
            self.first_line.clone(),
            format!("simulated: {}, {same}", self.simulated_machine),
            format!("rounds: {} on either machine", self.rounds),
            format!(
                "near enough: {near} of {} cells (throughput within the factor given; halts and kicks, where \
                 there are enough to tell, within 2)",
                self.cells.len()
            ),
        ];
        let title = "Acquisitions, halts and kicks per second of all vCPUs together (medians over \
                     the rounds; 95 % interval)";
        let table = columns().table(title, &self.cells);
        vec![
            Block::Lines(lines),
            Block::Table(table),
            Block::Lines(self.two_states()),
        ]
    }
}

impl ValidateReport {
    /// Cells whose rounds fall into two groups.
    fn two_states(&self) -> Vec<String> {
        let sides = self.cells.iter().flat_map(|cell| {
            [("real", &cell.real), ("simulated", &cell.simulated)]
                .map(|(machine, side)| (cell, machine, side.bistable))
        });
        let lines = sides.filter_map(|(ValidationCell { lock, vcpus, .. }, machine, states)| {
            let states = two_states(states?);
            Some(format!(
                "warning: {lock}, {vcpus} vCPUs, {machine}: {states}"
            ))
        });
        lines.collect()
    }
}

fn columns<'a>() -> Columns<'a, &'a ValidationCell> {
    let near = |cell: &&ValidationCell| if cell.is_near() { "yes" } else { "NO" }.to_owned();
    Columns::new()
        .text("lock", "lock", |cell: &&ValidationCell| cell.lock.name())
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
