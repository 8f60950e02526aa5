//! The report of an account: where the waiting went, and the worst of it as stories.

mod rows;
mod stories;
mod tables;

use super::column::Columns;
use super::doc::{Block, Table, render};
use super::{Format, to_json};
use crate::human::{or_dash, time};
use crate::machine::NOT_MEASURED;
use crate::record::Record;
use crate::scenario::Lock;
use crate::trace::account::{Account, Part, Tally, VmAccount};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The report of an account in that format.
pub fn account(account: &Account, format: Format) -> String {
    match format {
        Format::Json => to_json(&Json::new(account)),
        Format::Csv => rows::csv(account),
        Format::Table | Format::Markdown => render(&blocks(account, format), format),
    }
}

/// What the waiting of a lock was spent on, in a report of more.
#[derive(Serialize)]
struct Explained {
    lock: Lock,
    account: Value,
}

/// The accounts of those runs, each of one lock, for `serialize_with`.
pub(crate) fn explained<S: Serializer>(runs: &[Record], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().filter_map(|run| {
        let account = serde_json::to_value(Json::new(run.account.as_ref()?)).ok()?;
        Some(Explained {
            lock: run.scenario.vms.first()?.lock,
            account,
        })
    }))
}

fn blocks(account: &Account, format: Format) -> Vec<Block> {
    let mut blocks = Vec::new();
    for vm in &account.vms {
        blocks.push(Block::Lines(tables::headline(account, vm)));
        blocks.push(Block::Table(tables::parts(vm)));
        blocks.extend(rows::table(account, vm).map(Block::Table));
        blocks.extend(tables::episodes(&vm.total).map(Block::Table));
        blocks.extend(tables::longest(&vm.total).map(Block::Table));
        blocks.push(Block::Lines(tables::halts(&vm.total)));
        blocks.extend(tables::kick_to_run(&vm.total).map(Block::Table));
        blocks.push(Block::Lines(stories::stories(&vm.total, format)));
    }
    let foreign = "events name a VM, vCPU or lock that there is not, and were ignored";
    let foreign = format!("warning: {} {foreign}", account.foreign_events);
    let wrong = [
        (account.simulated, format!("warning: {NOT_MEASURED}")),
        (account.foreign_events > 0, foreign),
    ];
    let wrong = wrong.into_iter().filter(|(is, _)| *is);
    blocks.push(Block::Lines(wrong.map(|(_, line)| line).collect()));
    blocks
}

/// What the waiting of those runs was spent on, each of one lock: side by side, then each in detail.
pub(crate) fn explain(runs: &[Record], format: Format) -> Vec<Block> {
    if runs.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(side_by_side(runs)), Block::Lines(legend())];
    let accounts = runs.iter().filter_map(|run| run.account.as_ref());
    blocks.extend(accounts.flat_map(|account| self::blocks(account, format)));
    blocks
}

/// The waiting for several locks side by side, as shares of the causes.
fn side_by_side(runs: &[Record]) -> Table {
    let rows = runs.iter().filter_map(|run| {
        let mut total = Tally::default();
        for vm in &run.account.as_ref()?.vms {
            total.merge(&vm.total);
        }
        Some((run.scenario.vms.first()?.lock, total))
    });
    let columns = Columns::new()
        .cell("lock", |(lock, _): &(Lock, Tally)| lock.name())
        .cell("wait", |(_, total)| or_dash(total.mean_ns(), time));
    let columns = (CAUSES.iter()).fold(columns, |columns, &(part, [.., title])| {
        columns.cell(format!("{title} %"), move |(_, total)| {
            or_dash(total.share(part), tables::percent_plain)
        })
    });
    let title = "Where the waiting went: waiting for each acquisition, and its share by cause";
    let columns = columns.cell("LHP/s", |(_, total)| tables::rate_plain(total.lhp.per_s));
    columns.table(title, rows)
}

/// What the columns of [`side_by_side`] mean.
fn legend() -> Vec<String> {
    let lines = [
        "run: the holder ran its critical section; LHP: the holder was preempted; LWP: the lock was",
        "free and the next waiter was preempted; own: the waiter itself was, when it could have had",
        "the lock; kick: the next waiter was kicked and not up yet; hand: hand-over; ?: not known",
    ];
    lines.map(str::to_owned).to_vec()
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "pvlab.account/1")]
struct Json<'a> {
    #[serde(flatten)]
    account: &'a Account,
    sum_violations: u64,
    vms: Vec<OfVm<'a>>,
}

#[derive(Serialize)]
struct OfVm<'a> {
    #[serde(flatten)]
    vm: &'a VmAccount,
    total: Waiting<'a>,
    locks: Vec<Waiting<'a>>,
}

#[derive(Serialize)]
struct Waiting<'a> {
    /// Number of the lock; `null` for all together.
    number: Option<usize>,
    share: ByPart,
    per_acquisition_ns: ByPart,
    #[serde(flatten)]
    tally: &'a Tally,
}

struct ByPart([Option<f64>; Part::ALL.len()]);

impl Serialize for ByPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Part::ALL.iter().map(|part| part.name()).zip(self.0))
    }
}

impl<'a> Json<'a> {
    fn new(account: &'a Account) -> Self {
        Self {
            account,
            sum_violations: account.sum_violations(),
            vms: account.vms.iter().map(OfVm::new).collect(),
        }
    }
}

impl<'a> OfVm<'a> {
    fn new(vm: &'a VmAccount) -> Self {
        let waiting = |number, tally: &'a Tally| Waiting {
            number,
            share: ByPart(Part::ALL.map(|part| tally.share(part))),
            per_acquisition_ns: ByPart(Part::ALL.map(|part| tally.per_acquisition_ns(part))),
            tally,
        };
        let locks = vm.locks.iter().enumerate();
        Self {
            vm,
            total: waiting(None, &vm.total),
            locks: locks.map(|(i, tally)| waiting(Some(i), tally)).collect(),
        }
    }
}

/// What the causes are called: in the table of one account, at the top of a column, and where columns are
/// narrow.
const CAUSES: [(Part, [&str; 3]); Part::ALL.len()] = [
    (Part::HolderRunning, ["holder running", "holder", "run"]),
    (
        Part::HolderPreempted,
        ["holder preempted (LHP)", "LHP", "LHP"],
    ),
    (
        Part::NextPreempted,
        ["next waiter preempted (LWP)", "LWP", "LWP"],
    ),
    (Part::OwnPreemption, ["own preemption", "own", "own"]),
    (Part::KickToRun, ["kick to run", "kick", "kick"]),
    (Part::HandOver, ["hand-over", "hand-over", "hand"]),
    (Part::Unattributed, ["unknown", "unknown", "?"]),
];

#[cfg(test)]
mod tests;
