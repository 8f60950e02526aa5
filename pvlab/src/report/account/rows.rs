//! The account of each lock: as comma-separated values, and as a table where a VM has several locks.

use super::CAUSES;
use super::tables::{millis, percent};
use crate::human::{count, or_dash};
use crate::report::column::Columns;
use crate::report::doc::Table;
use crate::trace::account::{Account, Tally, VmAccount};

/// A lock, or all of a VM.
struct Row<'a> {
    account: &'a Account,
    vm: &'a VmAccount,
    /// The lock's number, or that it is all.
    number: String,
    tally: &'a Tally,
}

pub(crate) fn csv(account: &Account) -> String {
    let rows = account.vms.iter().flat_map(|vm| {
        let all = Row {
            account,
            vm,
            number: "all".to_owned(),
            tally: &vm.total,
        };
        locks(account, vm).chain([all])
    });
    columns().csv(rows)
}

/// Each lock of a VM that has several.
pub(crate) fn table(account: &Account, vm: &VmAccount) -> Option<Table> {
    let title = "Each lock: acquisitions, waiting in all, and its share by cause";
    (vm.locks.len() > 1).then(|| columns().table(title, locks(account, vm)))
}

fn locks<'a>(account: &'a Account, vm: &'a VmAccount) -> impl Iterator<Item = Row<'a>> {
    let numbered = vm.locks.iter().enumerate();
    numbered.map(move |(number, tally)| Row {
        account,
        vm,
        number: number.to_string(),
        tally,
    })
}

fn columns<'a>() -> Columns<'a, Row<'a>> {
    let first = Columns::new()
        .value("vm", |row: &Row<'_>| row.vm.vm)
        .value("lock", |row| row.vm.lock)
        .text("number", "lock", |row| row.number.clone())
        .value("acquisitions", |row| row.tally.acquisitions)
        .cell("acquired", |row| count(row.tally.acquisitions))
        .value("waited", |row| row.tally.waited)
        .value("tried", |row| row.tally.tried)
        .value("wait_ns", |row| row.tally.wait_ns)
        .cell("wait (ms)", |row| millis(row.tally.wait_ns));
    let first = (CAUSES.iter()).fold(first, |columns, &(part, [_, title, _])| {
        let name = format!("{}_ns", part.name());
        let columns = columns.value(name, move |row| row.tally.parts_ns[part]);
        columns.cell(title, move |row| or_dash(row.tally.share(part), percent))
    });
    first
        .value("unfinished", |row| row.tally.unfinished)
        .value("unfinished_wait_ns", |row| row.tally.unfinished_wait_ns)
        .value("incomplete", |row| row.tally.incomplete)
        .value("dropped", |row| row.tally.dropped)
        .value("overlaps", |row| row.tally.overlaps)
        .value("sum_violations", |row| row.tally.sum_violations)
        .value("worst_violation_ns", |row| row.tally.worst_violation_ns)
        .value("lhp_count", |row| row.tally.lhp.count)
        .value("lhp_per_s", |row| row.tally.lhp.per_s)
        .value("lhp_total_ns", |row| row.tally.lhp.total_ns)
        .value("lwp_count", |row| row.tally.lwp.count)
        .value("lwp_per_s", |row| row.tally.lwp.per_s)
        .value("lwp_total_ns", |row| row.tally.lwp.total_ns)
        .value("kick_count", |row| row.tally.kick.count)
        .value("kick_per_s", |row| row.tally.kick.per_s)
        .value("kick_total_ns", |row| row.tally.kick.total_ns)
        .value("holder_off_ns", |row| row.tally.holder_off_ns)
        .value("halts_queued", |row| row.tally.halts_queued)
        .value("halts_head", |row| row.tally.halts_head)
        .value("futile_halts", |row| row.tally.futile_halts)
        .value("kicks", |row| row.tally.kicks)
        .value("kick_to_run_p50_ns", |row| {
            row.tally.kick_to_run_ns.percentile(50)
        })
        .value("kick_to_run_p99_ns", |row| {
            row.tally.kick_to_run_ns.percentile(99)
        })
        .value("kick_to_run_max_ns", |row| row.tally.kick_to_run_ns.max())
        .value("yields", |row| row.tally.yields)
        .value("futile_yields", |row| row.tally.futile_yields)
        .value("injected_holder_ns", |row| row.tally.injected.holder_ns)
        .value("injected_holder_found_ns", |row| {
            row.tally.injected.holder_found_ns
        })
        .value("injected_next_ns", |row| row.tally.injected.next_ns)
        .value("simulated", |row| row.account.simulated)
}
