//! The report of a microbenchmark: tables as in the mails that such figures are posted in.

mod grid;
mod notes;
mod tables;
mod times;

use super::plan::{Column, TableKind};
use super::result::{BenchResult, CellResult, Figure, RunFigures};
use crate::figures::none;
use crate::record::{Context, Ended};
use crate::report::{Block, Columns, Format, render, to_json};
use crate::scenario::Scenario;
use serde::Serialize;

#[derive(Clone, Debug)]
pub(crate) struct BenchReport {
    pub context: Context,
    pub result: BenchResult,
}

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
                let (head, foot) = (notes::head(&self.context, result), notes::foot(result));
                let mut parts = vec![lines(head), tables::text(result), lines(foot)];
                parts.retain(|part| !part.is_empty());
                parts.join("\n")
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

fn csv(result: &BenchResult) -> String {
    type Row<'a> = (&'a CellResult, Option<&'a Figure>);
    let rows = result.cells.iter().map(|cell| (cell, cell.figures.first()));
    let sum = |cell: &CellResult, of: fn(&RunFigures) -> u64| cell.runs.iter().map(of).sum::<u64>();
    let most = |cell: &CellResult, of: fn(&RunFigures) -> Option<u64>| {
        cell.runs.iter().filter_map(of).max()
    };
    Columns::new()
        .value("workload", |_: &Row<'_>| result.plan.workload.name())
        .value("lock", |(cell, _)| cell.lock.clone())
        .value("threads", |(cell, _)| cell.threads)
        .value("vcpus", |(cell, _)| cell.vcpus)
        .value("column", |(cell, _)| cell.column.name.clone())
        .value("reads_to_writes", |(cell, _)| cell.column.ratio.to_string())
        .value("split", |(cell, _)| cell.column.split)
        .value("load", |(cell, _)| cell.column.load.to_string())
        .value("unit", |(_, figure)| Some((*figure)?.unit))
        .value("median", |(_, figure)| none::some((*figure)?.median))
        .value("min", |(_, figure)| none::some((*figure)?.min))
        .value("max", |(_, figure)| none::some((*figure)?.max))
        .value("lo", |(_, figure)| (*figure)?.lo)
        .value("hi", |(_, figure)| (*figure)?.hi)
        .value("interval", |(_, figure)| Some((*figure)?.interval?.method))
        .value("bistable", |(_, figure)| {
            figure.is_some_and(|figure| figure.bistable.is_some())
        })
        .value("change_percent", |(cell, _)| {
            cell.change_percent.as_ref()?.first().copied()
        })
        .value("runs", |(cell, _)| cell.runs.len())
        .value("operations", move |(cell, _)| {
            sum(cell, |run| run.operations)
        })
        .value("reads", move |(cell, _)| sum(cell, |run| run.reads))
        .value("thread_min", |(cell, _)| {
            cell.runs.iter().map(|run| run.thread_min).min()
        })
        .value("thread_max", move |(cell, _)| {
            most(cell, |run| Some(run.thread_max))
        })
        .value("contended", move |(cell, _)| sum(cell, |run| run.contended))
        .value("read_wait_max_ns", move |(cell, _)| {
            most(cell, |run| run.read_wait_max_ns)
        })
        .value("write_wait_max_ns", move |(cell, _)| {
            most(cell, |run| run.write_wait_max_ns)
        })
        .value("machine", |_| result.plan.run.machine_name())
        .csv(rows)
}

#[cfg(test)]
mod tests;
