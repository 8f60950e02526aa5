//! The tables of a microbenchmark: the figures, their changes, and their spread.

use super::grid::Grid;
use super::times;
use super::times::{Row, Section};
use crate::command::bench::plan::{BenchPlan, Load, Ratio, TableKind};
use crate::command::bench::result::{BenchResult, CellResult, Measure};
use crate::report::doc::Block;

/// What a table shows of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Figure,
    Change,
    Spread,
}

impl Show {
    /// Figure number `measure` of the cell, for people.
    fn text(self, cell: &CellResult, measure: Measure, number: usize) -> Option<String> {
        let figure = cell.figures.get(number)?;
        let shown = match self {
            Self::Figure => figure.median,
            Self::Change => *cell.change_percent.as_ref()?.get(number)?,
            Self::Spread => figure.spread_percent(),
        };
        // Of runs in which nothing was done.
        if !shown.is_finite() || figure.median == 0.0 {
            return Some("none".to_owned());
        }
        Some(match self {
            Self::Figure => match measure {
                Measure::Time => milliseconds(figure.median),
                _ => rate(figure.median),
            },
            Self::Change => percent(*cell.change_percent.as_ref()?.get(number)?),
            Self::Spread => format!("{:.1}%", figure.spread_percent()),
        })
    }
}

/// All tables as plain text.
pub(crate) fn text(result: &BenchResult) -> String {
    if result.plan.layout == TableKind::Times {
        return times::text(&sections(result));
    }
    let grids: Vec<_> = grids(result).iter().map(Grid::text).collect();
    grids.join("\n")
}

/// All tables as parts of a report in Markdown.
pub(crate) fn blocks(result: &BenchResult) -> Vec<Block> {
    let plan = &result.plan;
    if plan.layout == TableKind::Times {
        let mut loads: Vec<String> = Vec::new();
        for column in &plan.columns {
            let load = column.load.to_string();
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        let sections = sections(result);
        return sections.iter().map(|s| times::block(s, &loads)).collect();
    }
    grids(result).iter().map(Grid::block).collect()
}

/// Two locks stand side by side, more of them below each other.
fn grids(result: &BenchResult) -> Vec<Grid> {
    let plan = &result.plan;
    let locks: Vec<usize> = (0..plan.locks.len()).collect();
    let measured = |show| {
        let groups: Vec<&[usize]> = match locks.len() {
            2 => vec![&locks],
            _ => locks.chunks(1).collect(),
        };
        groups
            .into_iter()
            .map(move |locks| grid(result, locks, show))
    };
    let mut grids: Vec<Grid> = measured(Show::Figure).collect();
    for lock in 1..locks.len() {
        let mut changes = grid(result, &[lock], Show::Change);
        changes.title = format!("% Change from {} to {}:", plan.locks[0], plan.locks[lock]);
        if !changes.rows.is_empty() {
            grids.push(changes);
        }
    }
    if plan.rounds > 1 {
        let spreads = measured(Show::Spread).map(|mut grid| {
            grid.title = "Spread (most minus least of the rounds, in % of the median):".to_owned();
            grid
        });
        grids.extend(spreads);
    }
    grids
}

fn grid(result: &BenchResult, locks: &[usize], show: Show) -> Grid {
    let plan = &result.plan;
    let measures = Measure::of(plan.layout);
    // Columns that the lock cannot do are left out.
    let columns = |lock: usize| (0..plan.columns.len()).filter(move |&c| plan.can(lock, c));
    let names = |lock| {
        columns(lock).flat_map(|column| {
            measures.iter().map(move |measure| match plan.layout {
                TableKind::Rates | TableKind::Times => plan.columns[column].name.clone(),
                TableKind::PerThread | TableKind::RoundTrips => match measure {
                    Measure::RatePerThread => "per thread".to_owned(),
                    Measure::RoundTrip => "us/op".to_owned(),
                    _ => "total".to_owned(),
                },
            })
        })
    };
    let group = |&lock: &usize| (plan.locks[lock].name(), names(lock).collect());
    let row = |threads: usize| {
        let cells = locks.iter().flat_map(|&lock| {
            columns(lock).flat_map(move |column| {
                let cell = result.cell(lock, threads, column);
                measures.iter().enumerate().map(move |(number, &measure)| {
                    cell.and_then(|cell| show.text(cell, measure, number))
                        .unwrap_or_else(|| "-".to_owned())
                })
            })
        });
        (plan.threads[threads], cells.collect())
    };
    Grid {
        title: String::new(),
        groups: locks.iter().map(group).collect(),
        rows: (0..plan.threads.len()).map(row).collect(),
    }
}

/// The tables of execution times. Two locks are called before and after.
fn sections(result: &BenchResult) -> Vec<Section> {
    let plan = &result.plan;
    let section = |lock: usize, title: String, show| Section {
        title,
        rows: rows(result, lock, show),
    };
    let mut sections: Vec<Section> = (0..plan.locks.len())
        .map(|lock| {
            let title = match (plan.locks.len(), lock) {
                (2, 0) => format!("Before ({})", plan.locks[0]),
                (2, 1) => format!("After ({})", plan.locks[1]),
                _ => String::new(),
            };
            section(lock, title, Show::Figure)
        })
        .collect();
    for lock in 1..plan.locks.len() {
        let title = match plan.locks.len() {
            2 => "% Change".to_owned(),
            _ => format!("% Change from {} to {}", plan.locks[0], plan.locks[lock]),
        };
        sections.push(section(lock, title, Show::Change));
    }
    if plan.rounds > 1 {
        for lock in 0..plan.locks.len() {
            let title = format!(
                "Spread of {} (most minus least of the rounds, in % of the median)",
                plan.locks[lock]
            );
            sections.push(section(lock, title, Show::Spread));
        }
    }
    sections
}

fn rows(result: &BenchResult, lock: usize, show: Show) -> Vec<Row> {
    let plan = &result.plan;
    let mut rows = Vec::new();
    for threads in 0..plan.threads.len() {
        for ratio in ratios(plan) {
            let columns = (0..plan.columns.len())
                .filter(|&column| plan.columns[column].ratio == ratio && plan.can(lock, column));
            let cells = columns.map(|column| {
                let cell = result.cell(lock, threads, column);
                let text = cell.and_then(|cell| show.text(cell, Measure::Time, 0));
                let load: Load = plan.columns[column].load;
                (load.to_string(), text.unwrap_or_else(|| "-".to_owned()))
            });
            let cells: Vec<_> = cells.collect();
            if !cells.is_empty() {
                // The ratio of a lock that is only taken exclusively says nothing.
                let name = if plan.locks[lock].kind.is_rw() {
                    format!("{}/{ratio}", plan.locks[lock])
                } else {
                    plan.locks[lock].name()
                };
                rows.push(Row {
                    name,
                    threads: plan.threads[threads],
                    cells,
                });
            }
        }
    }
    rows
}

/// The plan's ratios, each once.
fn ratios(plan: &BenchPlan) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for column in &plan.columns {
        if !ratios.contains(&column.ratio) {
            ratios.push(column.ratio);
        }
    }
    ratios
}

/// `27,373`, `61`, `5.81`.
pub(crate) fn rate(value: f64) -> String {
    if value < 9.995 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `530.7`, `2915`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 999.95 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// `-93.5%`, `+5.1%`.
pub(crate) fn percent(change: f64) -> String {
    let text = format!("{change:+.1}%");
    if text == "-0.0%" {
        return "+0.0%".to_owned();
    }
    text
}
