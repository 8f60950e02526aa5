//! The report of a microbenchmark: tables as in the mails that such figures are posted in.

mod grid;
mod notes;
mod tables;
mod times;

use super::plan::{Column, Layout};
use super::result::{BenchResult, CellResult, Figure};
use crate::options::cells::Ended;
use crate::report::csv::{finite, maybe, row};
use crate::report::doc::{Block, render};
use crate::report::{Context, Format, Machine, to_json};
use crate::scenario::Scenario;
use serde::Serialize;

/// The report of a microbenchmark.
#[derive(Clone, Debug)]
pub(crate) struct BenchReport {
    context: Context,
    result: BenchResult,
}

/// The report for programs.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    workload: &'static str,
    layout: Layout,
    ended: Ended,
    locks: Vec<String>,
    threads: &'a [usize],
    columns: &'a [Column],
    rounds: usize,
    random_mix: bool,
    most_vcpus: usize,
    scenario: &'a Scenario,
    notes: Vec<String>,
    cells: &'a [CellResult],
}

impl BenchReport {
    /// A report of those results.
    pub(crate) fn new(context: Context, result: BenchResult) -> Self {
        Self { context, result }
    }

    /// The report in that format.
    pub(crate) fn render(&self, format: Format) -> String {
        let result = &self.result;
        match format {
            Format::Json => to_json(&self.json()),
            Format::Csv => csv(result),
            Format::Markdown => {
                let mut blocks = vec![Block::Lines(notes::head(&self.context, result))];
                blocks.extend(tables::blocks(result));
                blocks.push(Block::Lines(notes::foot(result)));
                render(&blocks, format)
            }
            Format::Table => {
                let lines = |lines| render(&[Block::Lines(lines)], format);
                let parts = [
                    lines(notes::head(&self.context, result)),
                    tables::text(result),
                    lines(notes::foot(result)),
                ];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn json(&self) -> Json<'_> {
        let plan = &self.result.plan;
        Json {
            schema: "pvlab.bench/1",
            machine: self.context.machine(&plan.run),
            workload: plan.workload.name(),
            layout: plan.layout,
            ended: self.result.ended,
            locks: plan.locks.iter().map(|lock| lock.name()).collect(),
            threads: &plan.threads,
            columns: &plan.columns,
            rounds: plan.rounds,
            random_mix: plan.random_mix,
            most_vcpus: plan.most_vcpus(),
            scenario: &plan.run,
            notes: notes::foot(&self.result),
            cells: &self.result.cells,
        }
    }
}

/// A row for each cell.
fn csv(result: &BenchResult) -> String {
    let header = [
        "workload",
        "lock",
        "threads",
        "vcpus",
        "column",
        "reads_to_writes",
        "split",
        "load",
        "unit",
        "median",
        "min",
        "max",
        "lo",
        "hi",
        "interval",
        "bistable",
        "change_percent",
        "runs",
        "operations",
        "reads",
        "thread_min",
        "thread_max",
        "contended",
        "read_wait_max_ns",
        "write_wait_max_ns",
        "machine",
    ];
    let mut text = row(header.map(str::to_owned));
    for cell in &result.cells {
        let figure = cell.figures.first();
        let something =
            |of: fn(&Figure) -> f64| finite(figure.map(of).filter(|figure| *figure > 0.0));
        let change = cell.change_percent.as_ref().and_then(|all| all.first());
        let sum =
            |of: fn(&super::result::RunFigures) -> u64| -> u64 { cell.runs.iter().map(of).sum() };
        text += &row([
            result.plan.workload.name().to_owned(),
            cell.lock.clone(),
            cell.threads.to_string(),
            cell.vcpus.to_string(),
            cell.column.name.clone(),
            cell.column.ratio.to_string(),
            cell.column.split.to_string(),
            cell.column.load.to_string(),
            maybe(figure.map(|figure| figure.unit)),
            something(|figure| figure.median),
            something(|figure| figure.min),
            something(|figure| figure.max),
            finite(figure.and_then(|figure| figure.lo)),
            finite(figure.and_then(|figure| figure.hi)),
            maybe(
                figure
                    .and_then(|figure| figure.interval)
                    .map(|is| is.method),
            ),
            figure
                .is_some_and(|figure| figure.bistable.is_some())
                .to_string(),
            finite(change.copied()),
            cell.runs.len().to_string(),
            sum(|run| run.operations).to_string(),
            sum(|run| run.reads).to_string(),
            maybe(cell.runs.iter().map(|run| run.thread_min).min()),
            maybe(cell.runs.iter().map(|run| run.thread_max).max()),
            sum(|run| run.contended).to_string(),
            maybe(cell.runs.iter().filter_map(|r| r.read_wait_max_ns).max()),
            maybe(cell.runs.iter().filter_map(|r| r.write_wait_max_ns).max()),
            result.plan.run.machine_name(),
        ]);
    }
    text
}

#[cfg(test)]
mod tests;
