//! Warnings about a comparison.

use super::plan::Plan;
use super::result::LockResult;
use crate::figures::warning::{
    Warning, busy_host, of_repeats, of_reports, of_summary, of_unknown, starving, two_states,
};
use crate::host::format_cpu_list;
use crate::record::{Record, StartReason};
use crate::scenario::Scenario;
use abi::Counter;

/// Warnings about a comparison's rounds as a whole.
pub(crate) fn of_rounds(plan: &Plan, rounds: &[Vec<Record>]) -> Vec<Warning> {
    let reported = rounds.iter().flatten().any(Record::preempted_reported);
    let mut warnings: Vec<_> = of_reports(&plan.run, reported).into_iter().collect();
    warnings.extend(of_unknown(rounds.iter().flatten()));
    let runs = rounds.iter().flatten();
    let repeats = runs.map(|record| (record.repeated, &*record.without_cpu));
    warnings.extend(of_repeats(repeats));
    let one = "one round proves nothing: no interval can be had and no verdict given";
    let two = "two rounds give no verdict: they may agree by chance; --rounds 3 and more give one";
    let few = "there are fewer complete rounds than locks, so not every lock had every place";
    warnings.extend(match rounds.len() {
        1 => Some(Warning::new("one_round", one)),
        2 => Some(Warning::new("two_rounds", two)),
        n if n > 0 && n < plan.locks.len() => Some(Warning::new("few_rounds", few)),
        _ => None,
    });
    warnings
}

/// Warnings about one lock, from its runs of all rounds.
pub(crate) fn of_lock(run: &Scenario, result: &LockResult, records: &[&Record]) -> Vec<Warning> {
    let (lock, summary) = (result.lock, &result.summary);
    let mut warnings = of_summary(run, lock, summary, records.is_empty());
    let mut warn = |code, text: String| warnings.push(Warning::about(lock, code, text));
    let used = (summary.cpu_ns, summary.measured_s);
    if let Some(text) = busy_host(run, lock.traits().halts, used, records) {
        warn("host_busy", text);
    }
    let rounds = |wanted: fn(&Record) -> bool| {
        let numbered = (1..).zip(records);
        let wanted = numbered.filter_map(|(round, record)| wanted(record).then_some(round));
        let wanted: Vec<_> = wanted.collect();
        (!wanted.is_empty()).then(|| format_cpu_list(&wanted))
    };
    let nothing =
        |record: &Record| (record.vms.iter()).all(|vm| vm.total(Counter::Acquisitions) == 0);
    if let Some(rounds) = rounds(nothing) {
        let text = format!(
            "no acquisition in round {rounds}; where the other lock made some, the ratio counts \
             it as half a one, which is a bound and no measurement"
        );
        warn("no_acquisitions", text);
    }
    if !summary.starving.is_empty() {
        warn("starved", starving(&summary.starving, true));
    }
    let early = |record: &Record| matches!(record.start.reason, StartReason::LimitReached(_));
    if let Some(rounds) = rounds(early) {
        let text = format!(
            "in round {rounds} the measurement started before every vCPU had been \
             descheduled once; overcommitted throughput may look too high"
        );
        warn("not_descheduled", text);
    }
    if let Some(states) = result.throughput.as_ref().and_then(|t| t.bistable) {
        warn("bistable", two_states(states));
    }
    warnings
}
