//! What a report shows of readers and writers, contexts and uneven choices: nothing where there are
//! none.

use super::column::Columns;
use super::doc::{Block, Table};
use super::lock::{LockRow, fairness, waits};
use crate::figures::{Side, Summary, WaitNs};
use crate::human::{count, listed, or_dash, plural, rate, share, throughput};
use crate::record::VcpuRecord;
use crate::scenario::{Mix, Scenario};
use abi::Counter;
use pvlock::LockEvent;

/// The locks and who takes them, as asked for.
pub(crate) fn asked(scenario: &Scenario) -> String {
    let work = &scenario.workload;
    let mut text = plural(work.locks, "lock");
    if work.skew > 0.0 {
        text += &format!(" (skew {})", work.skew);
    }
    match work.mix {
        Mix::Exclusive => {}
        Mix::ReadShare(share) => text += &format!(", {:.1} % reads", 100.0 * share),
        Mix::Readers(readers) => text += &format!(", {} of each VM", plural(readers, "reader")),
    }
    if work.contexts > 1 {
        text += &format!(", {} contexts of each vCPU", work.contexts);
    }
    text
}

/// The blocks about the locks, or those of the VMs.
pub(crate) fn blocks(scenario: &Scenario, locks: &[LockRow<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    if scenario.workload.mix != Mix::Exclusive {
        blocks.push(Block::Table(sides(locks)));
    }
    if scenario.workload.contexts > 1 {
        blocks.push(Block::Table(nested(locks)));
    }
    if scenario.workload.skew > 0.0 {
        let share = |share| format!("{:.1} %", 100.0 * share);
        let each = (locks.iter())
            .map(|row| format!("{} ({row})", or_dash(row.summary.most_used_lock, share)));
        let line = format!("share of the most used lock: {}", listed(each));
        blocks.push(Block::Lines(vec![line]));
    }
    blocks
}

/// Readers and writers, each for themselves.
fn sides(locks: &[LockRow<'_>]) -> Table {
    let rows = locks.iter().filter_map(|lock| {
        let sharing = lock.summary.sharing.as_ref()?;
        let sides = [("read", &sharing.reads), ("write", &sharing.writes)];
        Some(sides.map(|(what, side)| (lock, what, side)))
    });
    let title = "Reads and writes, each for themselves: rate, share in all acquisitions, fairness, \
                 waiting times";
    type Row<'a> = (&'a LockRow<'a>, &'static str, &'a Side);
    Columns::new()
        .cell("lock", |(lock, ..): &Row<'_>| lock.to_string())
        .cell("side", |(_, what, _)| (*what).to_owned())
        .left()
        .cell("rate", |(lock, _, side)| {
            throughput(lock.summary.rate(side.acquisitions))
        })
        .include(side("").without("p99.9"), |row| Some(row.2))
        .table(title, rows.flatten())
}

/// The columns of one side; `of` is put before the names.
fn side<'a>(of: &str) -> Columns<'a, Option<&'a Side>> {
    let asked = |side: &Option<&Side>| side.and_then(|side| side.share);
    Columns::new()
        .value(format!("{of}share"), asked)
        .cell("share", move |side| {
            or_dash(asked(side), |share| format!("{:.2} %", 100.0 * share))
        })
        .include(fairness(of), |side| {
            side.map(|side| (side.fairness, side.wait_ns))
        })
}

/// Interrupted contexts, uneven choices, readers and writers of a lock, for programs.
pub(crate) fn columns<'a>() -> Columns<'a, &'a Summary> {
    let reads = |summary: &&'a Summary| Some(&summary.sharing.as_ref()?.reads);
    let writes = |summary: &&'a Summary| Some(&summary.sharing.as_ref()?.writes);
    Columns::new()
        .value("nested", |summary: &&'a Summary| summary.nested)
        .value("most_used_lock", |summary| summary.most_used_lock)
        .value("reads", move |row| Some(reads(row)?.acquisitions))
        .include(side("read_"), reads)
        .value("writes", move |row| Some(writes(row)?.acquisitions))
        .include(side("write_"), writes)
        .values_only()
}

/// How deep vCPUs were interrupted.
fn nested(locks: &[LockRow<'_>]) -> Table {
    let columns = Columns::new()
        .cell("lock", |row: &&LockRow<'_>| row.to_string())
        .cell("nested", |row| rate(row.summary.rate(row.summary.nested)))
        .cell("share", |r| share(r.summary.nested, r.summary.acquisitions));
    let events = [
        ("2nd node", LockEvent::LockUseNode2),
        ("3rd node", LockEvent::LockUseNode3),
        ("4th node", LockEvent::LockUseNode4),
        ("no node", LockEvent::LockNoNode),
    ];
    let columns = events.into_iter().fold(columns, |columns, (title, event)| {
        columns.cell(title, move |row| {
            let events = &row.summary.events;
            count(events.get(event.name()).copied().unwrap_or(0))
        })
    });
    let title = "Contexts: acquisitions that interrupted others, and waits in their CPU's further \
                 queue nodes";
    columns.table(title, locks)
}

/// Each vCPU's reads and writes.
///
/// `vcpus`: each with its name and the length of the time that its figures are of, s.
pub(crate) fn vcpus<'a>(vcpus: impl Iterator<Item = (String, &'a VcpuRecord, f64)>) -> Table {
    type Row<'a> = (String, &'a VcpuRecord, f64);
    let title = "Each vCPU: reads and writes per second, and how long they waited";
    let per_second = |count: u64, length_s: f64| rate(count as f64 / length_s.max(1e-9));
    let few_waits = || waits("").without("p99.9");
    Columns::new()
        .cell("VM.vCPU", |(name, ..): &Row<'a>| name.clone())
        .cell("reads", move |(_, vcpu, s)| {
            per_second(vcpu.counter(Counter::Reads), *s)
        })
        .include(few_waits(), |(_, vcpu, _)| {
            WaitNs::pooled(vcpu.read_waits())
        })
        .cell("writes", move |(_, vcpu, s)| {
            let all = vcpu.counter(Counter::Acquisitions);
            per_second(all.saturating_sub(vcpu.counter(Counter::Reads)), *s)
        })
        .include(few_waits(), |(_, vcpu, _)| WaitNs::pooled(vcpu.waits()))
        .table(title, vcpus)
}
