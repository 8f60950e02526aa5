//! The tables of a microbenchmark: the figures, their changes, and their spread.

use super::grid::{Grid, Row};
use super::times;
use crate::command::bench::plan::TableKind;
use crate::command::bench::result::{BenchResult, CellResult, Measure};
use crate::human::or_dash;
use crate::report::Block;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Figure,
    Change,
    Spread,
}

impl Show {
    /// Figure number `number` of the cell, for people.
    fn text(self, cell: &CellResult, measure: Measure, number: usize) -> Option<String> {
        let figure = cell.figures.get(number)?;
        let (shown, text): (f64, fn(f64) -> String) = match (self, measure) {
            (Self::Figure, Measure::Time) => (figure.median, milliseconds),
            (Self::Figure, _) => (figure.median, rate),
            (Self::Change, _) => (*cell.change_percent.as_ref()?.get(number)?, percent),
            (Self::Spread, _) => (figure.spread_percent(), |spread| format!("{spread:.1}%")),
        };
        // There are runs in which nothing was done.
        Some(match shown.is_finite() && figure.median != 0.0 {
            true => text(shown),
            false => "none".to_owned(),
        })
    }
}

pub(crate) fn text(result: &BenchResult) -> String {
    let grids = grids(result);
    if result.plan.layout == TableKind::Times {
        return times::text(&grids);
    }
    grids.iter().map(Grid::text).collect::<Vec<_>>().join("\n")
}

/// All tables as parts of a report in Markdown.
pub(crate) fn blocks(result: &BenchResult) -> Vec<Block> {
    grids(result).iter().map(Grid::block).collect()
}

/// Two locks stand side by side, more of them below each other; so do those of execution times, of which two
/// are called before and after.
fn grids(result: &BenchResult) -> Vec<Grid> {
    let plan = &result.plan;
    let locks: Vec<usize> = (0..plan.locks.len()).collect();
    let times = plan.layout == TableKind::Times;
    let two = locks.len() == 2;
    // What comes below the header of all has its colon there.
    let colon = if times { "" } else { ":" };
    let groups = || locks.chunks(if two && !times { 2 } else { 1 });
    let figures = groups().map(|locks| {
        let title = match locks {
            [0] if times && two => format!("Before ({})", plan.locks[0]),
            [_] if times && two => format!("After ({})", plan.locks[1]),
            _ => String::new(),
        };
        grid(result, locks, Show::Figure, title)
    });
    let changes = locks.iter().skip(1).map(|&lock| {
        let (from, to) = (plan.locks[0], plan.locks[lock]);
        let title = match times && two {
            true => "% Change".to_owned(),
            false => format!("% Change from {from} to {to}{colon}"),
        };
        grid(result, &[lock], Show::Change, title)
    });
    let spreads = groups().filter(|_| plan.rounds > 1).map(|locks| {
        let of = match locks {
            [lock] if times => format!(" of {}", plan.locks[*lock]),
            _ => String::new(),
        };
        let what = "(most minus least of the rounds, in % of the median)";
        let title = format!("Spread{of} {what}{colon}");
        grid(result, locks, Show::Spread, title)
    });
    figures.chain(changes).chain(spreads).collect()
}

fn grid(result: &BenchResult, locks: &[usize], show: Show, title: String) -> Grid {
    let plan = &result.plan;
    let times = plan.layout == TableKind::Times;
    let measures = Measure::of(plan.layout);
    let all: Vec<usize> = (0..plan.columns.len()).collect();
    // Of execution times there is a row for each ratio.
    let together =
        |&a: &usize, &b: &usize| !times || plan.columns[a].ratio == plan.columns[b].ratio;
    let parts: Vec<&[usize]> = all.chunk_by(together).collect();
    // Columns that the lock cannot do are left out.
    let can = |lock: usize, part: &[usize]| -> Vec<usize> {
        let part = part.iter().copied();
        part.filter(|&column| plan.can(lock, column)).collect()
    };
    let name = |column: usize, measure: &Measure| match (plan.layout, measure) {
        (TableKind::Rates | TableKind::Times, _) => plan.columns[column].name.clone(),
        (_, Measure::RatePerThread) => "per thread".to_owned(),
        (_, Measure::RoundTrip) => "us/op".to_owned(),
        _ => "total".to_owned(),
    };
    let group = |&lock: &usize| {
        let columns = can(lock, &all).into_iter();
        let names = columns.flat_map(|column| measures.iter().map(move |of| name(column, of)));
        (plan.locks[lock].name(), names.collect())
    };
    let loads = || {
        let load = |&column: &usize| plan.columns[column].load.to_string();
        let loads = parts[0].iter().map(load);
        ("load".to_owned(), loads.collect())
    };
    let mut rows = Vec::new();
    for (place, &threads) in plan.threads.iter().enumerate() {
        for part in &parts {
            let mut cells = Vec::new();
            for &lock in locks {
                for column in can(lock, part) {
                    let cell = result.cell(lock, place, column);
                    let figures = measures.iter().enumerate().map(|(number, &measure)| {
                        let shown = cell.and_then(|cell| show.text(cell, measure, number));
                        or_dash(shown, |text| text)
                    });
                    cells.extend(figures);
                }
            }
            if !cells.is_empty() {
                // The ratio of a lock that is only taken exclusively says nothing.
                let lock = plan.locks[locks[0]];
                let ratio = plan.columns[part[0]].ratio;
                let ratio = lock.kind.is_rw().then(|| format!("/{ratio}"));
                let name = times.then(|| lock.name() + &ratio.unwrap_or_default());
                rows.push(Row {
                    name,
                    threads,
                    cells,
                });
            }
        }
    }
    let groups = match times {
        true => vec![loads()],
        false => locks.iter().map(group).collect(),
    };
    Grid {
        title,
        groups,
        rows,
    }
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
    format!("{ms:.0$}", usize::from(ms < 999.95))
}

/// `-93.5%`, `+5.1%`.
pub(crate) fn percent(change: f64) -> String {
    let text = format!("{change:+.1}%");
    if text == "-0.0%" {
        return "+0.0%".to_owned();
    }
    text
}
