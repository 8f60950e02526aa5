//! The account as lines and tables.

use super::CAUSES;
use super::stories::seconds;
use crate::human::{count, nanos, or_dash, plural, rate, share, time};
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
            nanos(account.span_ns),
            share(total.waited, total.acquisitions),
            nanos(total.wait_ns),
        ),
    ];
    if total.waited == 0 {
        lines.push("the lock was never waited for: 0 contended acquisitions".to_owned());
    }
    let unfinished = "waits had not ended when the trace did; they are accounted up to there";
    let incomplete = "acquisitions were seen only in part; their waits are not accounted";
    let dropped = "acquisitions were lost with dropped events; their waits are not accounted";
    let tried = "acquisitions by try_lock are not in these figures";
    let notes = [
        (total.unfinished, unfinished),
        (total.incomplete, incomplete),
        (total.dropped, dropped),
        (total.tried, tried),
    ];
    let notes = notes.into_iter().filter(|(n, _)| *n > 0);
    lines.extend(notes.map(|(n, text)| format!("{} {text}", count(n))));
    if vm.vcpus_without_switches > 0 {
        let vcpus = plural(vm.vcpus_without_switches, "vCPU");
        let taken = "taken to be on a CPU unless halted";
        lines.push(format!(
            "warning: no switches were seen of {vcpus}: {taken}"
        ));
    }
    if total.overlaps > 0 {
        let what = "acquisitions began before the release of the one before was seen";
        lines.push(format!("warning: {} {what}", count(total.overlaps)));
    }
    if total.sum_violations > 0 {
        let (n, worst) = (count(total.sum_violations), nanos(total.worst_violation_ns));
        let what = "acquisitions do not add up to their wait, by up to";
        lines.push(format!("WRONG: the parts of {n} {what} {worst}"));
    }
    lines
}

/// The causes, with what they come to.
pub(crate) fn parts(vm: &VmAccount) -> Table {
    let total = &vm.total;
    let known = |part| part != Part::Unattributed || total.parts_ns[part] > 0;
    let causes = CAUSES.iter().filter(|(part, _)| known(*part));
    let rows = causes.map(|&(part, [name, ..])| {
        let mean_ns = total.per_acquisition_ns(part);
        (name, total.parts_ns[part], total.share(part), mean_ns)
    });
    let whole = (total.wait_ns > 0).then_some(1.0);
    let all = ("all waiting", total.wait_ns, whole, total.mean_ns());
    type Row = (&'static str, u64, Option<f64>, Option<f64>);
    Columns::new()
        .cell("cause", |(name, ..): &Row| (*name).to_owned())
        .cell("in all (ms)", |(_, ns, ..)| millis(*ns))
        .cell("share", |(_, _, share, _)| or_dash(*share, percent))
        .cell("per acquisition", |(.., ns)| or_dash(*ns, time))
        .table("Where the waiting went", rows.chain([all]))
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
        .cell("mean", |(_, of)| time(of.total_ns as f64 / of.count as f64))
        .cell("longest", |(_, all)| {
            or_dash(all.longest.first(), |e| nanos(e.duration_ns))
        });
    let title = "Episodes in which others waited for one vCPU that did not run";
    Some(columns.table(title, kinds(total)))
}

pub(crate) fn longest(total: &Tally) -> Option<Table> {
    kinds(total).next()?;
    let rows = kinds(total).flat_map(|(what, all)| {
        let longest = all.longest.iter().take(SHOWN);
        longest.map(move |episode| (what, episode))
    });
    let columns = Columns::new()
        .cell("what", |(what, _): &(&str, &Episode)| (*what).to_owned())
        .cell("at", |(_, episode)| seconds(episode.at_ns))
        .cell("lasted", |(_, episode)| nanos(episode.duration_ns))
        .cell("lock", |(_, episode)| episode.lock.to_string())
        .cell("vCPU", |(_, episode)| episode.vcpu.to_string())
        .cell("waiters", |(_, episode)| episode.waiters.to_string())
        .cell("their wait", |(_, episode)| nanos(episode.waited_ns));
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
        let of_all = share(total.futile_yields, total.yields);
        let (all, futile) = (count(total.yields), count(total.futile_yields));
        lines.push(format!("yields: {all}; futile: {futile} ({of_all})"));
    }
    let is = &total.injected;
    let holder = ("holder", is.holder, is.holder_ns, is.holder_found_ns);
    let next = ("next waiter", is.next, is.next_ns, is.next_found_ns);
    for (who, times, ns, found) in [holder, next] {
        if times > 0 {
            let (times, ns, found) = (count(times), nanos(ns), nanos(found));
            lines.push(format!(
                "preempted on purpose: the {who}, {times} times for {ns} in all; found: {found}"
            ));
        }
    }
    lines
}

/// The distribution of the time from a kick until the vCPU was up.
pub(crate) fn kick_to_run(total: &Tally) -> Option<Table> {
    let times = &total.kick_to_run_ns;
    let all = Some(times.count()).filter(|&all| all > 0)?;
    let title = format!(
        "From a kick until the vCPU was up: {} times; p50 {}, p99 {}, longest {}",
        count(all),
        or_dash(times.percentile(50), nanos),
        or_dash(times.percentile(99), nanos),
        or_dash(times.max(), nanos)
    );
    let mut table = Table::new(title, &["up to", "kicks", "share"]);
    let mut from = 0;
    // From 1 us to 100 ms, and all above.
    for bound in (3..9).map(|digits| 10_u64.pow(digits)).chain([u64::MAX]) {
        // A bucket that reaches over a bound counts above it.
        let inside = times.buckets().filter(|(ns, _)| (from..bound).contains(ns));
        let kicks: u64 = inside.map(|(_, kicks)| kicks).sum();
        if kicks > 0 {
            let name = match bound {
                u64::MAX => "longer".to_owned(),
                bound => nanos(bound),
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
