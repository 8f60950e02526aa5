//! The account as comma-separated values: a row for each lock, and one for all of a VM.

use crate::report::csv;
use crate::trace::account::{Account, Part, Tally, VmAccount};

/// The columns after those of the parts.
const COUNTS: [&str; 29] = [
    "unfinished",
    "unfinished_wait_ns",
    "incomplete",
    "dropped",
    "overlaps",
    "sum_violations",
    "worst_violation_ns",
    "lhp_count",
    "lhp_per_s",
    "lhp_total_ns",
    "lwp_count",
    "lwp_per_s",
    "lwp_total_ns",
    "kick_count",
    "kick_per_s",
    "kick_total_ns",
    "holder_off_ns",
    "halts_queued",
    "halts_head",
    "futile_halts",
    "kicks",
    "kick_to_run_p50_ns",
    "kick_to_run_p99_ns",
    "kick_to_run_max_ns",
    "yields",
    "futile_yields",
    "injected_holder_ns",
    "injected_holder_found_ns",
    "injected_next_ns",
];

pub(crate) fn csv(account: &Account) -> String {
    let first = [
        "vm",
        "lock",
        "number",
        "acquisitions",
        "waited",
        "tried",
        "wait_ns",
    ];
    let header = first.map(str::to_owned).into_iter();
    let parts = Part::ALL.map(|part| format!("{}_ns", part.name()));
    let header = header.chain(parts).chain(COUNTS.map(str::to_owned));
    let mut text = csv::row(header.chain(["simulated".to_owned()]));
    for vm in &account.vms {
        for (number, tally) in vm.locks.iter().enumerate() {
            text += &row(account, vm, &number.to_string(), tally);
        }
        text += &row(account, vm, "all", &vm.total);
    }
    text
}

fn row(account: &Account, vm: &VmAccount, number: &str, tally: &Tally) -> String {
    let first = [
        vm.vm.to_string(),
        vm.lock.to_owned(),
        number.to_owned(),
        tally.acquisitions.to_string(),
        tally.waited.to_string(),
        tally.tried.to_string(),
        tally.wait_ns.to_string(),
    ];
    let parts = Part::ALL.map(|part| tally.parts_ns[part].to_string());
    let kick_to_run = &tally.kick_to_run_ns;
    let counts: [String; COUNTS.len()] = [
        tally.unfinished.to_string(),
        tally.unfinished_wait_ns.to_string(),
        tally.incomplete.to_string(),
        tally.dropped.to_string(),
        tally.overlaps.to_string(),
        tally.sum_violations.to_string(),
        tally.worst_violation_ns.to_string(),
        tally.lhp.count.to_string(),
        tally.lhp.per_s.to_string(),
        tally.lhp.total_ns.to_string(),
        tally.lwp.count.to_string(),
        tally.lwp.per_s.to_string(),
        tally.lwp.total_ns.to_string(),
        tally.kick.count.to_string(),
        tally.kick.per_s.to_string(),
        tally.kick.total_ns.to_string(),
        tally.holder_off_ns.to_string(),
        tally.halts_queued.to_string(),
        tally.halts_head.to_string(),
        tally.futile_halts.to_string(),
        tally.kicks.to_string(),
        csv::maybe(kick_to_run.percentile(50)),
        csv::maybe(kick_to_run.percentile(99)),
        csv::maybe(kick_to_run.max()),
        tally.yields.to_string(),
        tally.futile_yields.to_string(),
        tally.injected.holder_ns.to_string(),
        tally.injected.holder_found_ns.to_string(),
        tally.injected.next_ns.to_string(),
    ];
    let cells = first.into_iter().chain(parts).chain(counts);
    csv::row(cells.chain([account.simulated.to_string()]))
}
