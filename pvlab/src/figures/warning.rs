//! What the reader of the figures must know, so that nobody is flattered or misled.

mod busy;
mod section;

use super::bistable::Bistable;
use super::sharing::Side;
use super::starving::Starving;
use super::summary::{Summary, known};
use crate::host::format_cpu_list;
use crate::human::{count, listed, nanos, plural, rate};
use crate::record::{Absence, Record, StartReason, absent};
use crate::scenario::{Lock, Scenario, whole};
pub(crate) use busy::busy_host;
use section::not_as_asked;
use serde::Serialize;
use std::fmt::Display;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// What it is about, for programs; documented in docs/json.md.
    pub code: &'static str,
    /// The lock that it is about, if it is about one.
    pub lock: Option<Lock>,
    pub text: String,
}

impl Warning {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            lock: None,
            text: text.into(),
        }
    }

    /// One that begins with the lock's name.
    pub(crate) fn about(lock: Lock, code: &'static str, text: impl Display) -> Self {
        Self {
            lock: Some(lock),
            ..Self::new(code, format!("{lock}: {text}"))
        }
    }
}

/// Warnings that follow from what was asked for.
pub(crate) fn of_scenario(scenario: &Scenario) -> Vec<Warning> {
    let caution = scenario.machine.facts().caution.as_ref();
    let caution = caution.map(|caution| Warning::new(caution.code, caution.text));
    let mut warnings: Vec<_> = caution.into_iter().chain(uneven(scenario)).collect();
    let dropped = "fault injection: kicks were dropped";
    warnings.extend((scenario.drop_kicks).then(|| Warning::new("kicks_dropped", dropped)));
    warnings
}

/// What to tell of a switch that changed nothing: `reported` says whether the machine told which vCPUs are
/// preempted.
pub(crate) fn never_told(scenario: &Scenario, reported: bool) -> Option<&'static str> {
    (!scenario.vcpu_is_preempted && !reported).then_some(
        "--no-vcpu-is-preempted changed nothing: no vCPU was ever seen marked as preempted, so locks \
         could not have been told (`pvlab doctor` says whether this host marks them)",
    )
}

pub(crate) fn of_reports(scenario: &Scenario, reported: bool) -> Option<Warning> {
    never_told(scenario, reported).map(|text| Warning::new("vcpu_is_preempted_unknown", text))
}

/// vCPUs that are spread unevenly make some wait while CPUs idle, which looks like the lock's
/// fault and is not.
fn uneven(scenario: &Scenario) -> Option<Warning> {
    let placed: Option<Vec<_>> = (0..scenario.vcpus()).map(|i| scenario.cpu_of(i)).collect();
    let placed = placed?;
    let load = |cpu: usize| placed.iter().filter(|&&placed| placed == cpu).count();
    let loads = || scenario.cpus.iter().map(|&cpu| (load(cpu), cpu));
    let (most, busiest) = loads().max_by_key(|&(load, _)| load)?;
    let (least, idlest) = loads().min_by_key(|&(load, _)| load)?;
    if most <= 1.max(least) {
        return None;
    }
    let (code, text) = if least == 0 {
        let idle = loads().filter(|&(load, _)| load == 0);
        let idle: Vec<_> = idle.map(|(_, cpu)| cpu).collect();
        let text = format!(
            "placement: CPU {busiest} has {most} vCPUs while CPUs {} have none; the figures show \
             the placement as much as the lock",
            format_cpu_list(&idle)
        );
        ("placement_leaves_cpus_idle", text)
    } else {
        let text = format!(
            "placement: CPU {busiest} has {most} vCPUs and CPU {idlest} has {least}; expect unfairness \
             that is not the lock's"
        );
        ("placement_uneven", text)
    };
    Some(Warning::new(code, text))
}

/// What could not be found out, said once however many figures rest on it.
pub(crate) fn of_unknown<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Warning> {
    let mut lines: Vec<String> = Vec::new();
    for unknown in records.flat_map(|record| &record.unknown) {
        let line = format!("{} are unknown ({})", unknown.what, unknown.why);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    (!lines.is_empty()).then(|| Warning::new("unknown", lines.join("; ")))
}

/// Warnings about runs that were repeated as there were times without CPU in them, and about such times in
/// those that were not any more: of each run, how often it was repeated, and its times without CPU.
pub(crate) fn of_repeats<'a>(
    runs: impl Iterator<Item = (u32, &'a [Absence])> + Clone,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let repeats: u32 = runs.clone().map(|(repeated, _)| repeated).sum();
    if repeats > 0 {
        let runs = match repeats {
            1 => "one run was".to_owned(),
            n => format!("{n} runs were"),
        };
        let why = "as nothing of this process had a CPU for a while in it";
        warnings.push(Warning::new(
            "repeated",
            format!("{runs} made again, {why}"),
        ));
    }
    let absences: Vec<_> = runs.flat_map(|(_, absences)| absences).copied().collect();
    warnings.extend(absent(&absences).map(|text| {
        let text = format!(
            "{text} in runs that were not made once more; it is no measured time, but the longest \
             waits may contain it"
        );
        Warning::new("without_cpu", text)
    }));
    warnings
}

/// What there is to say of two states of acquisitions per second.
pub(crate) fn two_states(states: Bistable) -> String {
    let state = |level, rounds| format!("{} in {}", rate(level), plural(rounds, "round"));
    format!(
        "two states, far apart: {}, {}; the median is of one of them, and an interval of both says \
         little",
        state(states.low, states.low_rounds),
        state(states.high, states.high_rounds)
    )
}

/// Warnings about a single run of several VMs.
pub(crate) fn of_run(record: &Record, summaries: &[Summary]) -> Vec<Warning> {
    let mut warnings = of_scenario(&record.scenario);
    warnings.extend(of_reports(&record.scenario, record.preempted_reported()));
    warnings.extend(absent(&record.without_cpu).map(|text| {
        let what = "which is no measured time; the longest waits may contain it";
        Warning::new("without_cpu", format!("{text}, {what}"))
    }));
    warnings.extend(of_unknown([record].into_iter()));
    if let StartReason::LimitReached(vcpus) = &record.start.reason {
        let text = format!(
            "the measurement started before vCPUs {} had been descheduled once; overcommitted \
             throughput may look too high",
            format_cpu_list(vcpus)
        );
        warnings.push(Warning::new("not_descheduled", text));
    }
    let vms = &record.scenario.vms;
    let halts = vms.iter().any(|spec| spec.lock.traits().halts);
    let cpu_ns = known(record.vcpus().map(|vcpu| vcpu.cpu_ns));
    let used = (cpu_ns, record.measured_s);
    let busy = busy_host(&record.scenario, halts, used, &[record]);
    warnings.extend(busy.map(|text| Warning::new("host_busy", text)));
    for (number, (summary, spec)) in summaries.iter().zip(vms).enumerate() {
        warnings.extend(of_summary(&record.scenario, spec.lock, summary, false));
        if !summary.starving.is_empty() {
            let text = format!("VM {number}: {}", starving(&summary.starving, false));
            warnings.push(Warning {
                lock: Some(spec.lock),
                ..Warning::new("starved", text)
            });
        }
    }
    warnings
}

/// Warnings that a lock's figures give rise to.
pub(crate) fn of_summary(
    scenario: &Scenario,
    lock: Lock,
    summary: &Summary,
    nothing_ran: bool,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code, text: &dyn Display| warnings.push(Warning::about(lock, code, text));
    if lock.traits().control {
        let text = "broken on purpose, to show that the check of exclusion works";
        warn("control", &text);
    }
    if nothing_ran {
        return warnings;
    }
    for (code, text) in not_as_asked(scenario, summary) {
        warn(code, &text);
    }
    if let Some(sharing) = &summary.sharing {
        let sides = [
            ("writers_starved", "writers", "writes", &sharing.writes),
            ("readers_starved", "readers", "reads", &sharing.reads),
        ];
        for (code, who, what, side) in sides {
            if side.starves() {
                warn(code, &format!("{who} starved: {}", starvation(side, what)));
            }
        }
    }
    if summary.contended == Some(0) {
        let text =
            "0 contended acquisitions; nobody ever waited, so this says nothing about waiting";
        warn("never_contended", &text);
    } else if lock.traits().halts && summary.halts == 0 {
        let text = match lock.traits().sleeps {
            true => "0 halts; all waiting was spinning, nobody slept",
            false => "0 halts; its paravirtual slow path never came to halting",
        };
        warn("never_halted", &text);
    }
    if summary.futile_yields * 2 > summary.yields {
        let text = format!(
            "{} of {} directed yields were futile: the target ran already, was halted, or did not \
             get to run",
            summary.futile_yields, summary.yields
        );
        warn("yields_futile", &text);
    }
    warnings
}

/// Most starving vCPUs that a warning names.
const NAMED: usize = 8;

/// Tells which vCPUs starved; `rounds`: there are several runs.
pub(crate) fn starving(all: &[Starving], rounds: bool) -> String {
    let each = all.iter().take(NAMED).map(|starving| {
        let round = rounds.then(|| format!("in round {} ", starving.run));
        let waiting = starving.cut_off_ns.map(nanos);
        let waiting = waiting.map(|ns| format!(", and had been waiting for {ns} at the end"));
        format!(
            "{}vCPU {} (acquisitions: {}; the others: {} each{})",
            round.unwrap_or_default(),
            starving.vcpu,
            count(starving.acquisitions),
            count(whole(starving.others)),
            waiting.unwrap_or_default()
        )
    });
    let each = listed(each);
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    format!("starved, with less than a twentieth of what the others got: {each}{more}")
}

fn starvation(side: &Side, what: &str) -> String {
    let idle = match side.idle_vcpus {
        0 => String::new(),
        n => format!("; {n} of {} vCPUs never came to it in a run", side.vcpus),
    };
    let [got, asked] = [side.share.unwrap_or(0.0), side.share_asked].map(|share| 100.0 * share);
    format!("{got:.3} % of acquisitions were {what}, and the vCPUs ask for {asked:.1} %{idle}")
}
