//! What the reader of the figures must know, so that nobody is flattered or misled.

mod busy;
mod section;

use super::bistable::Bistable;
use super::run::Run;
use super::sharing::Side;
use super::starving::Starving;
use super::summary::{Summary, known};
use crate::host::format_cpu_list;
use crate::human::{count, plural, rate, time};
use crate::record::{Absence, Record, StartReason, absent};
use crate::scenario::{Lock, Scenario};
pub(crate) use busy::busy_host;
use section::not_as_asked;
use serde::Serialize;

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// What it is about, for programs; documented in docs/json.md.
    pub code: &'static str,
    /// The lock that it is about, if it is about one.
    pub lock: Option<String>,
    /// The warning, for people.
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

    pub(crate) fn about(lock: Lock, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            lock: Some(lock.name()),
            text: text.into(),
        }
    }
}

/// Warnings that follow from what was asked for.
pub(crate) fn of_scenario(scenario: &Scenario) -> Vec<Warning> {
    let caution = scenario.machine.facts().caution.as_ref();
    let mut warnings: Vec<_> = caution
        .map(|caution| Warning::new(caution.code, caution.text))
        .into_iter()
        .collect();
    warnings.extend(uneven(scenario));
    if scenario.drop_kicks {
        warnings.push(Warning::new(
            "kicks_dropped",
            "fault injection: kicks were dropped",
        ));
    }
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
    let load = |cpu: &usize| placed.iter().filter(|placed| *placed == cpu).count();
    let (&most, &least) = (
        scenario.cpus.iter().max_by_key(|cpu| load(cpu))?,
        scenario.cpus.iter().min_by_key(|cpu| load(cpu))?,
    );
    let idle: Vec<usize> = scenario
        .cpus
        .iter()
        .copied()
        .filter(|cpu| load(cpu) == 0)
        .collect();
    if load(&most) > 1 && !idle.is_empty() {
        return Some(Warning::new(
            "placement_leaves_cpus_idle",
            format!(
                "placement: CPU {most} has {} vCPUs while CPUs {} have none; the figures show \
                 the placement as much as the lock",
                load(&most),
                format_cpu_list(&idle)
            ),
        ));
    }
    (load(&most) > 1 && load(&most) > load(&least)).then(|| {
        Warning::new(
            "placement_uneven",
            format!(
                "placement: CPU {most} has {} vCPUs and CPU {least} has {}; expect unfairness \
                 that is not the lock's",
                load(&most),
                load(&least)
            ),
        )
    })
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

/// Warnings about times without CPU in a single run.
fn of_absences(record: &Record) -> Option<Warning> {
    let text = format!(
        "{}, which is no measured time; the longest waits may contain it",
        absent(&record.without_cpu)?
    );
    Some(Warning::new("without_cpu", text))
}

/// Warnings about runs that were repeated as there were times without CPU in them, and about such times in
/// those that were not any more: of each run, how often it was repeated, and its times without CPU.
pub(crate) fn of_repeats<'a>(
    runs: impl Iterator<Item = (u32, &'a [Absence])> + Clone,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let repeats: u32 = runs.clone().map(|(repeated, _)| repeated).sum();
    if repeats > 0 {
        warnings.push(Warning::new(
            "repeated",
            format!(
                "{} made again, as nothing of this process had a CPU for a while in it",
                match repeats {
                    1 => "one run was".to_owned(),
                    n => format!("{n} runs were"),
                }
            ),
        ));
    }
    let absences: Vec<_> = runs.flat_map(|(_, absences)| absences).copied().collect();
    if let Some(text) = absent(&absences) {
        warnings.push(Warning::new(
            "without_cpu",
            format!(
                "{text} in runs that were not made once more; it is no measured time, but the longest \
                 waits may contain it"
            ),
        ));
    }
    warnings
}

/// What there is to say of two states of acquisitions per second.
pub(crate) fn two_states(states: Bistable) -> String {
    let Bistable {
        low_rounds,
        low,
        high_rounds,
        high,
    } = states;
    format!(
        "two states, far apart: {} in {}, {} in {}; the median is of one of them, and an interval \
         of both says little",
        rate(low),
        plural(low_rounds, "round"),
        rate(high),
        plural(high_rounds, "round")
    )
}

/// Warnings about a single run of several VMs.
pub(crate) fn of_run(record: &Record) -> Vec<Warning> {
    let mut warnings = of_scenario(&record.scenario);
    warnings.extend(of_reports(&record.scenario, record.preempted_reported()));
    warnings.extend(of_absences(record));
    warnings.extend(of_unknown([record].into_iter()));
    if let StartReason::LimitReached(vcpus) = &record.start.reason {
        warnings.push(Warning::new(
            "not_descheduled",
            format!(
                "the measurement started before vCPUs {} had been descheduled once; overcommitted \
                 throughput may look too high",
                format_cpu_list(vcpus)
            ),
        ));
    }
    let vms = &record.scenario.vms;
    let halts = vms.iter().any(|spec| spec.lock.traits().halts);
    let used = (
        known(record.vcpus().map(|vcpu| vcpu.cpu_ns)),
        record.measured_s,
    );
    if let Some(text) = busy_host(&record.scenario, halts, used, &[record]) {
        warnings.push(Warning::new("host_busy", text));
    }
    for (number, (vm, spec)) in record.vms.iter().zip(&record.scenario.vms).enumerate() {
        let summary = Summary::of(&[Run::of(record, vm)]);
        warnings.extend(of_summary(&record.scenario, spec.lock, &summary, false));
        if !summary.starving.is_empty() {
            let text = format!("VM {number}: {}", starving(&summary.starving, false));
            warnings.push(Warning::about(spec.lock, "starved", text));
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
    if lock.traits().control {
        warnings.push(Warning::about(
            lock,
            "control",
            format!("{lock}: broken on purpose, to show that the check of exclusion works"),
        ));
    }
    if nothing_ran {
        return warnings;
    }
    for (code, text) in not_as_asked(scenario, summary) {
        warnings.push(Warning::about(lock, code, format!("{lock}: {text}")));
    }
    if let Some(sharing) = &summary.sharing {
        let sides = [
            ("writers_starved", "writers", "writes", &sharing.writes),
            ("readers_starved", "readers", "reads", &sharing.reads),
        ];
        for (code, who, what, side) in sides {
            if side.starves() {
                let text = format!("{lock}: {who} starved: {}", starvation(side, what));
                warnings.push(Warning::about(lock, code, text));
            }
        }
    }
    if summary.contended == 0 {
        warnings.push(Warning::about(
            lock,
            "never_contended",
            format!(
                "{lock}: 0 contended acquisitions; nobody ever waited, so this says nothing about \
                 waiting"
            ),
        ));
    } else if lock.traits().halts && summary.halts == 0 {
        warnings.push(Warning::about(
            lock,
            "never_halted",
            if lock.traits().sleeps {
                format!("{lock}: 0 halts; all waiting was spinning, nobody slept")
            } else {
                format!("{lock}: 0 halts; its paravirtual slow path never came to halting")
            },
        ));
    }
    if summary.futile_yields * 2 > summary.yields {
        warnings.push(Warning::about(
            lock,
            "yields_futile",
            format!(
                "{lock}: {} of {} directed yields were futile: the target ran already, was halted, \
                 or did not get to run",
                summary.futile_yields, summary.yields
            ),
        ));
    }
    warnings
}

/// Most starving vCPUs that a warning names.
const NAMED: usize = 8;

/// Tells which vCPUs starved; `rounds`: there are several runs.
pub(crate) fn starving(all: &[Starving], rounds: bool) -> String {
    let each = all.iter().take(NAMED).map(|starving| {
        let Starving {
            run,
            vcpu,
            acquisitions,
            others,
            cut_off_ns,
        } = *starving;
        let round = if rounds {
            format!("in round {run} ")
        } else {
            String::new()
        };
        let waiting = cut_off_ns.map_or_else(String::new, |ns| {
            format!(", and had been waiting for {} at the end", time(ns as f64))
        });
        format!(
            "{round}vCPU {vcpu} (acquisitions: {}; the others: {} each{waiting})",
            count(acquisitions),
            rounded(others)
        )
    });
    let each: Vec<_> = each.collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    format!(
        "starved, with less than a twentieth of what the others got: {}{more}",
        each.join(", ")
    )
}

fn rounded(n: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of counts"
    )]
    let n = n.round() as u64;
    count(n)
}

fn starvation(side: &Side, what: &str) -> String {
    let idle = match side.idle_vcpus {
        0 => String::new(),
        n => format!("; {n} of {} vCPUs never came to it in a run", side.vcpus),
    };
    format!(
        "{:.3} % of acquisitions were {what}, and the vCPUs ask for {:.1} %{idle}",
        100.0 * side.share.unwrap_or(0.0),
        100.0 * side.share_asked
    )
}
