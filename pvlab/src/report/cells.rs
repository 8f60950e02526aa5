//! What reports of one kind and another say of a lock's summary, and how.

use super::human::{or_dash, or_unknown, rate, share, time};
use crate::figures::{Summary, WaitNs};
use crate::scenario::Lock;

/// Cells for p50, p99, p99.9 and the longest wait.
pub(crate) fn wait_cells(waits: Option<WaitNs>) -> [String; 4] {
    let cell = |of: fn(WaitNs) -> (u64, bool)| {
        or_dash(waits, |waits| {
            let (ns, at_least) = of(waits);
            let sign = if at_least { ">= " } else { "" };
            format!("{sign}{}", time(ns as f64))
        })
    };
    [
        cell(|w| (w.p50, w.at_least.p50)),
        cell(|w| (w.p99, w.at_least.p99)),
        cell(|w| (w.p999, w.at_least.p999)),
        cell(|w| (w.max, w.at_least.max)),
    ]
}

/// What there is to say of waits that were cut off at the end, of the named summaries.
pub(crate) fn cut_off<'a>(
    summaries: impl Iterator<Item = (String, &'a Summary)>,
) -> Option<String> {
    let each = summaries.filter_map(|(name, summary)| {
        let waits = summary.wait_ns?;
        let longest = time(waits.longest_cut_off? as f64);
        Some(format!(
            "{} ({name}, longest so far {longest})",
            waits.cut_off
        ))
    });
    let each: Vec<_> = each.collect();
    (!each.is_empty()).then(|| {
        format!(
            "waits cut off at the end: {}; >= marks figures that would be higher had they been seen to end",
            each.join(", ")
        )
    })
}

/// What to cry out about a lock that did not exclude.
pub(crate) fn broken_line(lock: &str, summary: &Summary) -> String {
    format!(
        "MUTUAL EXCLUSION BROKEN by lock '{lock}': {} times a vCPU saw another one inside, and the \
         counter under the lock misses {} acquisitions; the figures mean nothing",
        summary.violations.unwrap_or(0),
        summary.lost_entries.unwrap_or(0)
    )
}

/// CPUs that the vCPUs used.
pub(crate) fn cpus(summary: &Summary) -> String {
    or_unknown(summary.cpus(), |cpus| format!("{cpus:.2}"))
}

/// Directed yields per second, of a lock that yields, or of a machine that makes spinning vCPUs yield.
pub(crate) fn yields(lock: Lock, summary: &Summary) -> String {
    if lock.traits().yields || summary.yields > 0 {
        rate(summary.rate(summary.yields))
    } else {
        "-".to_owned()
    }
}

/// Share of the directed yields that were futile, if there were any.
pub(crate) fn futile_yields(summary: &Summary) -> String {
    if summary.yields > 0 {
        share(summary.futile_yields, summary.yields)
    } else {
        "-".to_owned()
    }
}

/// What waiters of that lock do, so that nobody takes a spinning lock for a halting one.
pub(crate) fn slow_path(lock: Lock) -> &'static str {
    match (lock.traits().queues, lock.traits().halts) {
        _ if lock.traits().control => "none",
        (true, true) => "queue, halt",
        (false, true) => "halt",
        (true, false) => "queue, spin",
        (false, false) => "spin",
    }
}
