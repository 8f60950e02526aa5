//! What reports say of a lock's summary: the columns, and the lines.

use super::column::Columns;
use super::doc::Block;
use crate::figures::{Exclusion, Fairness, Summary, WaitNs, Warning};
use crate::human::{listed, nanos, or_dash, or_unknown, rate, ratio, share};
use crate::scenario::Lock;
use std::fmt;

/// A lock in a report: one of a comparison, or that of a VM.
#[derive(Clone, Copy)]
pub(crate) struct LockRow<'a> {
    /// The VM's number, if it is that of a VM.
    pub vm: Option<usize>,
    pub lock: Lock,
    pub summary: &'a Summary,
}

impl fmt::Display for LockRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vm) = self.vm {
            write!(f, "{vm} ")?;
        }
        write!(f, "{}", self.lock)
    }
}

/// p50, p99, p99.9 and the longest wait; `of` is put before the names.
pub(crate) fn waits<'a>(of: &str) -> Columns<'a, Option<WaitNs>> {
    type Figure = fn(WaitNs) -> (u64, bool);
    let figures: [(&str, &str, Figure); 4] = [
        ("p50", "wait p50", |w| (w.p50, w.at_least.p50)),
        ("p99", "p99", |w| (w.p99, w.at_least.p99)),
        ("p999", "p99.9", |w| (w.p999, w.at_least.p999)),
        ("max", "max", |w| (w.max, w.at_least.max)),
    ];
    (figures.into_iter()).fold(Columns::new(), |columns, (name, title, figure)| {
        columns
            .value(
                format!("{of}wait_{name}_ns"),
                move |waits: &Option<WaitNs>| waits.map(|waits| figure(waits).0),
            )
            .cell(title, move |waits| {
                or_dash(waits.map(figure), |(ns, at_least)| {
                    if at_least { ">= " } else { "" }.to_owned() + &nanos(ns)
                })
            })
    })
}

/// How even, and how long waits were; `of` is put before the names.
pub(crate) fn fairness<'a>(of: &str) -> Columns<'a, Option<(Fairness, Option<WaitNs>)>> {
    type Row = Option<(Fairness, Option<WaitNs>)>;
    let jain = |row: &Row| row.and_then(|(fairness, _)| fairness.jain);
    let max_over_min = |row: &Row| row.and_then(|(fairness, _)| fairness.max_over_min);
    Columns::new()
        .value(format!("{of}jain"), jain)
        .cell("Jain", move |row| {
            or_dash(jain(row), |jain| format!("{jain:.3}"))
        })
        .value(format!("{of}max_over_min"), max_over_min)
        .cell("max/min", move |row| or_dash(max_over_min(row), ratio))
        .include(waits(of), |row| row.and_then(|(_, waits)| waits))
}

/// What a table's rows are called: the numbers of VMs, or locks.
pub(crate) fn named<'a>(title: &str) -> Columns<'a, LockRow<'a>> {
    Columns::new().cell(title, |row: &LockRow<'_>| match row.vm {
        Some(number) => number.to_string(),
        None => row.lock.name(),
    })
}

/// What waiters of the lock do, so that nobody takes a spinning lock for a halting one.
pub(crate) fn slow_path<'a>() -> Columns<'a, LockRow<'a>> {
    let words = |row: &LockRow<'_>| match (row.lock.traits().queues, row.lock.traits().halts) {
        _ if row.lock.traits().control => "none",
        _ if row.lock.kind.peer().is_some() => "its own",
        (true, true) => "queue, halt",
        (false, true) => "halt",
        (true, false) => "queue, spin",
        (false, false) => "spin",
    };
    let columns = Columns::new().cell("slow path", move |row| words(row).to_owned());
    columns.left()
}

/// How even a lock was, and how long its waits were.
pub(crate) fn evenness<'a>() -> Columns<'a, LockRow<'a>> {
    Columns::new().include(fairness(""), |row: &LockRow<'_>| {
        Some((row.summary.fairness, row.summary.wait_ns))
    })
}

pub(crate) fn waiting<'a>() -> Columns<'a, LockRow<'a>> {
    let per_second = |count: fn(&Summary) -> u64| {
        move |row: &LockRow<'_>| match row.lock.kind.peer() {
            None => rate(row.summary.rate(count(row.summary))),
            // What it does while it waits is its own affair.
            Some(_) => "-".to_owned(),
        }
    };
    Columns::new()
        .value("contended", |r: &LockRow<'_>| r.summary.contended)
        .cell("contended", |r| {
            or_dash(r.summary.contended, |n| share(n, r.summary.acquisitions))
        })
        .value("halts", |r| r.summary.halts)
        .cell("halts", per_second(|s| s.halts))
        .value("kicks", |r| r.summary.kicks)
        .cell("kicks", per_second(|s| s.kicks))
        .value("spurious_wakes", |r| r.summary.spurious_wakes)
        .cell("spurious", per_second(|s| s.spurious_wakes))
        // Of a lock that yields, or of a machine that makes spinning vCPUs yield.
        .value("yields", |r| r.summary.yields)
        .cell("yields", |r| {
            let yields = r.lock.traits().yields || r.summary.yields > 0;
            or_dash(yields.then(|| r.summary.rate(r.summary.yields)), rate)
        })
        .value("futile_yields", |r| r.summary.futile_yields)
        .cell("futile", |r| {
            share(r.summary.futile_yields, r.summary.yields)
        })
        .value("exits", |r| r.summary.all_exits())
        .cell("exits", |r| rate(r.summary.exits_per_s()))
        .value("cpu_ns", |r| r.summary.cpu_ns)
        .cell("CPUs", |r| {
            or_unknown(r.summary.cpus(), |cpus| format!("{cpus:.2}"))
        })
}

/// What there is to say of waits that were cut off at the end.
pub(crate) fn cut_off(locks: &[LockRow<'_>]) -> Option<Block> {
    let each = listed(locks.iter().filter_map(|row| {
        let waits = row.summary.wait_ns?;
        let longest = nanos(waits.longest_cut_off?);
        let n = waits.cut_off;
        Some(format!("{n} ({row}, longest so far {longest})"))
    }));
    (!each.is_empty()).then(|| {
        Block::Lines(vec![format!(
            "waits cut off at the end: {each}; >= marks figures that would be higher had they been seen to end"
        )])
    })
}

/// What to cry out if a lock did not exclude.
pub(crate) fn exclusion_broken(locks: &[LockRow<'_>]) -> Option<String> {
    let broken = |row: &&LockRow<'_>| row.summary.exclusion == Exclusion::Broken;
    let LockRow { lock, summary, .. } = locks.iter().find(broken)?;
    Some(format!(
        "MUTUAL EXCLUSION BROKEN by lock '{lock}': {} times a vCPU saw another one inside, and the \
         counter under the lock misses {} acquisitions; the figures mean nothing",
        summary.violations.unwrap_or(0),
        summary.lost_entries.unwrap_or(0)
    ))
}

/// The warnings as the last part of a report.
pub(crate) fn warnings(warnings: &[Warning]) -> Block {
    let lines = warnings.iter();
    let lines = lines.map(|warning| format!("warning: {}", warning.text));
    Block::Lines(lines.collect())
}
