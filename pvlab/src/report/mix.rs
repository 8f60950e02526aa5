//! What a report shows of readers and writers, contexts and uneven choices: nothing where there are
//! none.

use super::cells::wait_cells;
use super::csv;
use super::doc::{Block, Table};
use super::human::{count, or_dash, plural, rate, ratio, share};
use crate::figures::{Side, Summary, WaitNs};
use crate::record::VcpuRecord;
use crate::scenario::{Mix, Scenario, Workload};
use abi::Counter;
use pvlock::LockEvent;

/// The locks and who takes them, as asked for.
pub(crate) fn asked(scenario: &Scenario) -> String {
    let Workload {
        locks,
        skew,
        mix,
        contexts,
        ..
    } = scenario.workload;
    let mut text = plural(locks, "lock");
    if skew > 0.0 {
        text += &format!(" (skew {skew})");
    }
    match mix {
        Mix::Exclusive => {}
        Mix::ReadShare(share) => text += &format!(", {:.1} % reads", 100.0 * share),
        Mix::Readers(readers) => text += &format!(", {} of each VM", plural(readers, "reader")),
    }
    if contexts > 1 {
        text += &format!(", {contexts} contexts of each vCPU");
    }
    text
}

/// The blocks about the named summaries: one for each lock, or each VM.
pub(crate) fn blocks<'a>(
    scenario: &Scenario,
    summaries: impl Iterator<Item = (String, &'a Summary)> + Clone,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    if scenario.workload.mix != Mix::Exclusive {
        blocks.push(Block::Table(sides(summaries.clone())));
    }
    if scenario.workload.contexts > 1 {
        blocks.push(Block::Table(nested(summaries.clone())));
    }
    if scenario.workload.skew > 0.0 {
        let each = summaries.map(|(name, summary)| {
            let share = |share| format!("{:.1} %", 100.0 * share);
            format!("{} ({name})", or_dash(summary.most_used_lock, share))
        });
        let each: Vec<_> = each.collect();
        blocks.push(Block::Lines(vec![format!(
            "share of the most used lock: {}",
            each.join(", ")
        )]));
    }
    blocks
}

/// Readers and writers, each for themselves.
fn sides<'a>(summaries: impl Iterator<Item = (String, &'a Summary)>) -> Table {
    let mut table = Table::new(
        "Reads and writes, each for themselves: rate, share in all acquisitions, fairness, waiting \
         times",
        &[
            "lock", "side", "vCPUs", "rate", "share", "Jain", "max/min", "wait p50", "p99",
            "p99.9", "max",
        ],
    );
    table.left.push(1);
    for (name, summary) in summaries {
        let Some(sharing) = &summary.sharing else {
            continue;
        };
        for (what, side) in [("read", &sharing.reads), ("write", &sharing.writes)] {
            let mut row = vec![
                name.clone(),
                what.to_owned(),
                super::human::throughput(summary.rate(side.acquisitions)),
                or_dash(side.share, |share| format!("{:.2} %", 100.0 * share)),
                or_dash(side.fairness.jain, |jain| format!("{jain:.3}")),
                or_dash(side.fairness.max_over_min, ratio),
            ];
            row.extend(few_waits(side.wait_ns));
            table.row(row);
        }
    }
    table
}

/// Cells for p50, p99 and the longest wait.
fn few_waits(waits: Option<WaitNs>) -> [String; 3] {
    let [p50, p99, _, max] = wait_cells(waits);
    [p50, p99, max]
}

/// How deep vCPUs were interrupted.
fn nested<'a>(summaries: impl Iterator<Item = (String, &'a Summary)>) -> Table {
    let mut table = Table::new(
        "Contexts: acquisitions that interrupted others, and waits in their CPU's further queue nodes",
        &[
            "lock", "nested", "share", "2nd node", "3rd node", "4th node", "no node",
        ],
    );
    for (name, summary) in summaries {
        let event =
            |event: LockEvent| count(summary.events.get(event.name()).copied().unwrap_or(0));
        table.row(vec![
            name,
            rate(summary.rate(summary.nested)),
            share(summary.nested, summary.acquisitions),
            event(LockEvent::LockUseNode2),
            event(LockEvent::LockUseNode3),
            event(LockEvent::LockUseNode4),
            event(LockEvent::LockNoNode),
        ]);
    }
    table
}

/// Each vCPU's reads and writes.
///
/// `vcpus`: each with its name and the length of the time that its figures are of, s.
pub(crate) fn vcpus<'a>(vcpus: impl Iterator<Item = (String, &'a VcpuRecord, f64)>) -> Table {
    let mut table = Table::new(
        "Each vCPU: reads and writes per second, and how long they waited",
        &[
            "VM.vCPU", "reads", "wait p50", "p99", "max", "writes", "wait p50", "p99", "max",
        ],
    );
    for (name, vcpu, length_s) in vcpus {
        let per_second = |count: u64| rate(count as f64 / length_s.max(1e-9));
        let reads = vcpu.counter(Counter::Reads);
        let writes = vcpu.counter(Counter::Acquisitions).saturating_sub(reads);
        let mut row = vec![name, per_second(reads)];
        row.extend(few_waits(WaitNs::pooled(vcpu.read_waits())));
        row.push(per_second(writes));
        row.extend(few_waits(WaitNs::pooled(vcpu.waits())));
        table.row(row);
    }
    table
}

/// Columns of a comparison's CSV.
pub(crate) const CSV: [&str; 18] = [
    "nested",
    "most_used_lock",
    "reads",
    "read_share",
    "read_jain",
    "read_max_over_min",
    "read_wait_p50_ns",
    "read_wait_p99_ns",
    "read_wait_p999_ns",
    "read_wait_max_ns",
    "writes",
    "write_share",
    "write_jain",
    "write_max_over_min",
    "write_wait_p50_ns",
    "write_wait_p99_ns",
    "write_wait_p999_ns",
    "write_wait_max_ns",
];

/// Their cells.
pub(crate) fn csv_cells(summary: &Summary) -> Vec<String> {
    let mut cells = vec![
        summary.nested.to_string(),
        csv::maybe(summary.most_used_lock),
    ];
    let sharing = summary.sharing.as_ref();
    for side in [sharing.map(|s| &s.reads), sharing.map(|s| &s.writes)] {
        cells.extend([
            csv::maybe(side.map(|side| side.acquisitions)),
            csv::maybe(side.and_then(|side| side.share)),
            csv::maybe(side.and_then(|side: &Side| side.fairness.jain)),
            csv::finite(side.and_then(|side| side.fairness.max_over_min)),
        ]);
        cells.extend(csv_waits(side.and_then(|side| side.wait_ns)));
    }
    cells
}

/// Cells for p50, p99, p99.9 and the longest wait.
pub(crate) fn csv_waits(waits: Option<WaitNs>) -> [String; 4] {
    [
        csv::maybe(waits.map(|waits| waits.p50)),
        csv::maybe(waits.map(|waits| waits.p99)),
        csv::maybe(waits.map(|waits| waits.p999)),
        csv::maybe(waits.map(|waits| waits.max)),
    ]
}
