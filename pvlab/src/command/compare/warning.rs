//! Warnings about a comparison.

use super::plan::Plan;
use crate::figures::warning::{
    Warning, busy_host, of_repeats, of_reports, of_summary, of_unknown, starving, two_states,
};
use crate::figures::{Bistable, Summary};
use crate::host::format_cpu_list;
use crate::record::{Record, StartReason};
use abi::Counter;

/// Warnings about a comparison's rounds as a whole.
pub(crate) fn of_rounds(plan: &Plan, rounds: &[Vec<Record>]) -> Vec<Warning> {
    let reported = rounds.iter().flatten().any(Record::preempted_reported);
    let mut warnings: Vec<_> = of_reports(&plan.run, reported).into_iter().collect();
    warnings.extend(of_unknown(rounds.iter().flatten()));
    let runs = rounds.iter().flatten();
    warnings.extend(of_repeats(
        runs.map(|record| (record.repeated, &*record.without_cpu)),
    ));
    if rounds.len() == 1 {
        warnings.push(Warning::new(
            "one_round",
            "one round proves nothing: no interval can be had and no verdict given",
        ));
    } else if rounds.len() == 2 {
        warnings.push(Warning::new(
            "two_rounds",
            "two rounds give no verdict: they may agree by chance; --rounds 3 and more give one",
        ));
    } else if !rounds.is_empty() && rounds.len() < plan.locks.len() {
        warnings.push(Warning::new(
            "few_rounds",
            "there are fewer complete rounds than locks, so not every lock had every place",
        ));
    }
    warnings
}

/// Warnings about one lock, from its runs of all rounds.
pub(crate) fn of_lock(
    plan: &Plan,
    lock: usize,
    summary: &Summary,
    records: &[&Record],
) -> Vec<Warning> {
    let kind = plan.locks[lock];
    let mut warnings = of_summary(&plan.run, kind, summary, records.is_empty());
    let used = (summary.cpu_ns, summary.measured_s);
    if let Some(text) = busy_host(&plan.run, kind.traits().halts, used, records) {
        warnings.push(Warning::about(kind, "host_busy", format!("{kind}: {text}")));
    }
    let rounds = |wanted: &dyn Fn(&Record) -> bool| -> Vec<usize> {
        (1..)
            .zip(records)
            .filter(|(_, record)| wanted(record))
            .map(|(round, _)| round)
            .collect()
    };
    let empty = rounds(&|record| {
        record
            .vms
            .iter()
            .all(|vm| vm.total(Counter::Acquisitions) == 0)
    });
    if !empty.is_empty() {
        warnings.push(Warning::about(
            kind,
            "no_acquisitions",
            format!(
                "{kind}: no acquisition in round {}; where the other lock made some, the ratio counts \
                 it as half a one, which is a bound and no measurement",
                format_cpu_list(&empty)
            ),
        ));
    }
    if !summary.starving.is_empty() {
        let text = format!("{kind}: {}", starving(&summary.starving, true));
        warnings.push(Warning::about(kind, "starved", text));
    }
    let early = rounds(&|record| matches!(record.start.reason, StartReason::LimitReached(_)));
    if !early.is_empty() {
        warnings.push(Warning::about(
            kind,
            "not_descheduled",
            format!(
                "{kind}: in round {} the measurement started before every vCPU had been \
                 descheduled once; overcommitted throughput may look too high",
                format_cpu_list(&early)
            ),
        ));
    }
    warnings
}

/// A warning about rounds that fall into two groups.
pub(crate) fn bistable(lock: &str, states: Bistable) -> Warning {
    Warning {
        code: "bistable",
        lock: Some(lock.to_owned()),
        text: format!("{lock}: {}", two_states(states)),
    }
}
