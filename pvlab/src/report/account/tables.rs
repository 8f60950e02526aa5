//! The account as lines and tables.

use super::part_name;
use super::stories::seconds;
use crate::human::{count, or_dash, plural, rate, share, time};
use crate::report::column::Columns;
use crate::report::doc::Table;
use crate::trace::account::{Account, Episode, Episodes, Part, Tally, VmAccount};

/// How many of the longest episodes of a kind are shown.
const SHOWN: usize = 5;

/// What the account of a VM is of, and what it lacks.
pub(crate) fn headline(account: &Account, vm: &VmAccount) -> Vec<String> {
    let total = &vm.total;
    let mut lines = vec![
        format!("VM {}: {}, {}", vm.vm, vm.lock, plural(vm.vcpus, "vCPU")),
        format!(
            "{} acquisitions in {}, {} of them waited; waiting in all: {}",
            count(total.acquisitions),
            time(account.span_ns as f64),
            share(total.waited, total.acquisitions),
            time(total.wait_ns as f64),
        ),
    ];
    if total.waited == 0 {
        lines.push("the lock was never waited for: 0 contended acquisitions".to_owned());
    }
    let mut note = |n: u64, text: &str| {
        if n > 0 {
            lines.push(format!("{} {text}", count(n)));
        }
    };
    note(
        total.unfinished,
        "waits had not ended when the trace did; they are accounted up to there",
    );
    note(
        total.incomplete,
        "acquisitions were seen only in part; their waits are not accounted",
    );
    note(
        total.dropped,
        "acquisitions were lost with dropped events; their waits are not accounted",
    );
    note(
        total.tried,
        "acquisitions by try_lock are not in these figures",
    );
    if vm.vcpus_without_switches > 0 {
        lines.push(format!(
            "warning: no switches were seen of {}: taken to be on a CPU unless halted",
            plural(vm.vcpus_without_switches, "vCPU"),
        ));
    }
    if total.overlaps > 0 {
        lines.push(format!(
            "warning: {} acquisitions began before the release of the one before was seen",
            count(total.overlaps)
        ));
    }
    if total.sum_violations > 0 {
        lines.push(format!(
            "WRONG: the parts of {} acquisitions do not add up to their wait, by up to {}",
            count(total.sum_violations),
            time(total.worst_violation_ns as f64)
        ));
    }
    lines
}

/// The causes, with what they come to.
pub(crate) fn parts(vm: &VmAccount) -> Table {
    let mut table = Table::new(
        "Where the waiting went",
        &["cause", "in all (ms)", "share", "per acquisition"],
    );
    let total = &vm.total;
    for part in Part::ALL {
        if part == Part::Unattributed && total.parts_ns[part] == 0 {
            continue;
        }
        table.row(vec![
            part_name(part).to_owned(),
            millis(total.parts_ns[part]),
            or_dash(total.share(part), percent),
            or_dash(total.per_acquisition_ns(part), time),
        ]);
    }
    table.row(vec![
        "all waiting".to_owned(),
        millis(total.wait_ns),
        share(total.wait_ns, total.wait_ns),
        or_dash(total.mean_ns(), time),
    ]);
    table
}

fn kinds(total: &Tally) -> impl Iterator<Item = (&'static str, &Episodes)> {
    let kinds = [
        ("holder preempted (LHP)", &total.lhp),
        ("next waiter preempted (LWP)", &total.lwp),
        ("next waiter kicked, not up", &total.kick),
    ];
    kinds.into_iter().filter(|(_, episodes)| episodes.count > 0)
}

/// How often and for how long one vCPU stopped all others.
pub(crate) fn episodes(total: &Tally) -> Option<Table> {
    kinds(total).next()?;
    let columns = Columns::new()
        .cell("what", |(what, _): &(&str, &Episodes)| (*what).to_owned())
        .cell("episodes", |(_, all)| count(all.count))
        .cell("rate", |(_, all)| rate(all.per_s))
        .cell("in all (ms)", |(_, all)| millis(all.total_ns))
        .cell("mean", |(_, all)| {
            time(all.total_ns as f64 / all.count as f64)
        })
        .cell("longest", |(_, all)| {
            or_dash(all.longest.first(), |e| time(e.duration_ns as f64))
        });
    Some(columns.table(
        "Episodes in which others waited for one vCPU that did not run",
        kinds(total),
    ))
}

/// The longest episodes.
pub(crate) fn longest(total: &Tally) -> Option<Table> {
    kinds(total).next()?;
    let rows = kinds(total).flat_map(|(what, all)| {
        let longest = all.longest.iter().take(SHOWN);
        longest.map(move |episode| (what, episode))
    });
    let columns = Columns::new()
        .cell("what", |(what, _): &(&str, &Episode)| (*what).to_owned())
        .cell("at", |(_, episode)| seconds(episode.at_ns))
        .cell("lasted", |(_, episode)| time(episode.duration_ns as f64))
        .cell("lock", |(_, episode)| episode.lock.to_string())
        .cell("vCPU", |(_, episode)| episode.vcpu.to_string())
        .cell("waiters", |(_, episode)| episode.waiters.to_string())
        .cell("their wait", |(_, episode)| time(episode.waited_ns as f64));
    Some(columns.table("The longest of each kind", rows))
}

/// Halts, yields, and what was done on purpose.
pub(crate) fn halts(total: &Tally) -> Vec<String> {
    let mut lines = Vec::new();
    let halts = total.halts_queued + total.halts_head;
    if halts > 0 {
        lines.push(format!(
            "halts: {} ({} queued, {} as next); futile: {} ({}); kicks: {}",
            count(halts),
            count(total.halts_queued),
            count(total.halts_head),
            count(total.futile_halts),
            share(total.futile_halts, halts),
            count(total.kicks),
        ));
    }
    if total.yields > 0 {
        lines.push(format!(
            "yields: {}; futile: {} ({})",
            count(total.yields),
            count(total.futile_yields),
            share(total.futile_yields, total.yields)
        ));
    }
    let injected = &total.injected;
    for (who, times, ns, found) in [
        (
            "holder",
            injected.holder,
            injected.holder_ns,
            injected.holder_found_ns,
        ),
        (
            "next waiter",
            injected.next,
            injected.next_ns,
            injected.next_found_ns,
        ),
    ] {
        if times > 0 {
            lines.push(format!(
                "preempted on purpose: the {who}, {} times for {} in all; found: {}",
                count(times),
                time(ns as f64),
                time(found as f64),
            ));
        }
    }
    lines
}

/// The distribution of the time from a kick until the vCPU was up.
pub(crate) fn kick_to_run(total: &Tally) -> Option<Table> {
    let times = &total.kick_to_run_ns;
    let all = Some(times.count()).filter(|&all| all > 0)?;
    let show = |ns: Option<u64>| or_dash(ns, |ns| time(ns as f64));
    let mut table = Table::new(
        format!(
            "From a kick until the vCPU was up: {} times; p50 {}, p99 {}, longest {}",
            count(all),
            show(times.percentile(50)),
            show(times.percentile(99)),
            show(times.max())
        ),
        &["up to", "kicks", "share"],
    );
    let bounds = [
        1_000,
        10_000,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
        u64::MAX,
    ];
    let mut from = 0;
    for bound in bounds {
        // A bucket that reaches over a bound counts above it.
        let inside = times.buckets().filter(|(ns, _)| (from..bound).contains(ns));
        let kicks: u64 = inside.map(|(_, kicks)| kicks).sum();
        if kicks > 0 {
            let name = match bound {
                u64::MAX => "longer".to_owned(),
                bound => time(bound as f64),
            };
            table.row(vec![name, count(kicks), share(kicks, all)]);
        }
        from = bound;
    }
    Some(table)
}

/// A time in milliseconds, so that a column can be compared.
pub(crate) fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share, in percent, whose unit is in the header.
pub(crate) fn percent_plain(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A rate whose unit is in the header.
pub(crate) fn rate_plain(per_second: f64) -> String {
    let rate = rate(per_second);
    rate.trim_end_matches("/s").trim_end().to_owned()
}
