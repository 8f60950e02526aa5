//! The report of a microbenchmark: tables as in the mails that such figures are posted in.

mod grid;
mod notes;
mod tables;
mod times;

use super::plan::{Column, TableKind};
use super::result::{BenchResult, CellResult, Figure, RunFigures};
use crate::figures::none;
use crate::record::{Context, Ended};
use crate::report::column::Columns;
use crate::report::doc::{Block, render};
use crate::report::{Format, to_json};
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
    context: &'a Context,
    workload: &'static str,
    layout: TableKind,
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
            context: &self.context,
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
    let figure =
        |cell: &&CellResult, of: fn(&Figure) -> f64| none::some(of(cell.figures.first()?));
    let end = |cell: &&CellResult, of: fn(&Figure) -> Option<f64>| of(cell.figures.first()?);
    let sum =
        |cell: &&CellResult, of: fn(&RunFigures) -> u64| cell.runs.iter().map(of).sum::<u64>();
    let most = |cell: &&CellResult, of: fn(&RunFigures) -> Option<u64>| {
        cell.runs.iter().filter_map(of).max()
    };
    Columns::new()
        .value("workload", |_: &&CellResult| result.plan.workload.name())
        .value("lock", |cell| cell.lock.clone())
        .value("threads", |cell| cell.threads)
        .value("vcpus", |cell| cell.vcpus)
        .value("column", |cell| cell.column.name.clone())
        .value("reads_to_writes", |cell| cell.column.ratio.to_string())
        .value("split", |cell| cell.column.split)
        .value("load", |cell| cell.column.load.to_string())
        .value("unit", |cell| Some(cell.figures.first()?.unit))
        .value("median", move |cell| figure(cell, |figure| figure.median))
        .value("min", move |cell| figure(cell, |figure| figure.min))
        .value("max", move |cell| figure(cell, |figure| figure.max))
        .value("lo", move |cell| end(cell, |figure| figure.lo))
        .value("hi", move |cell| end(cell, |figure| figure.hi))
        .value("interval", |cell| {
            Some(cell.figures.first()?.interval?.method)
        })
        .value("bistable", |cell| {
            cell.figures
                .first()
                .is_some_and(|figure| figure.bistable.is_some())
        })
        .value("change_percent", |cell| {
            cell.change_percent.as_ref()?.first().copied()
        })
        .value("runs", |cell| cell.runs.len())
        .value("operations", move |cell| sum(cell, |run| run.operations))
        .value("reads", move |cell| sum(cell, |run| run.reads))
        .value("thread_min", |cell| {
            cell.runs.iter().map(|run| run.thread_min).min()
        })
        .value("thread_max", move |cell| {
            most(cell, |run| Some(run.thread_max))
        })
        .value("contended", move |cell| sum(cell, |run| run.contended))
        .value("read_wait_max_ns", move |cell| {
            most(cell, |run| run.read_wait_max_ns)
        })
        .value("write_wait_max_ns", move |cell| {
            most(cell, |run| run.write_wait_max_ns)
        })
        .value("machine", |_| result.plan.run.machine_name())
        .csv(&result.cells)
}

#[cfg(test)]
mod tests;
