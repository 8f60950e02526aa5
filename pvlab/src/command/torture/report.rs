//! The report of a torture test: locktorture's lines, the verdict, and what they do not tell.

use super::lines;
use super::record::{Outcome, Role, Thread};
use super::verdict::{Failure, failures};
use crate::figures::never_told;
use crate::human::{plural, share, time};
use crate::record::{Context, absent};
use crate::report::{Block, Format, headline, render, to_json};
use crate::scenario::{Scenario, SlowPath};
use serde::Serialize;
use std::time::Duration;

const SHOWN: usize = 20;

#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.torture/1")]
pub(crate) struct TortureReport {
    #[serde(flatten)]
    context: Context,
    /// Unless the test was not carried through.
    verdict: Option<&'static str>,
    slow_paths: Vec<SlowPath>,
    pub failures: Vec<String>,
    pub record: Outcome,
    #[serde(skip)]
    stat_interval: Duration,
    #[serde(skip)]
    legacy: bool,
}

/// What is shown before the test.
pub(crate) fn head(context: &Context, scenario: &Scenario, stat_interval: Duration) -> Vec<String> {
    let mut head = vec![headline(context, scenario)];
    head.extend(SlowPath::lines(&SlowPath::of_vms(scenario)));
    head.push(lines::start(scenario, stat_interval));
    head
}

impl TortureReport {
    /// A report of that record. `legacy`: Max/Min is of failures.
    pub(crate) fn new(
        context: Context,
        stat_interval: Duration,
        legacy: bool,
        record: Outcome,
    ) -> Self {
        let failures: Vec<_> = failures(&record).iter().map(Failure::to_string).collect();
        let verdict = match failures.is_empty() {
            true => "success",
            false => "failure",
        };
        Self {
            verdict: (!record.interrupted).then_some(verdict),
            slow_paths: SlowPath::of_vms(&record.scenario),
            failures,
            record,
            context,
            stat_interval,
            legacy,
        }
    }

    /// The report in that format; `from_start`: with the lines that were shown during the test.
    pub(crate) fn render(&self, format: Format, from_start: bool) -> String {
        match format {
            Format::Json => to_json(self),
            Format::Csv | Format::Table | Format::Markdown => {
                let lines = |lines| render(&[Block::Lines(lines)], format);
                let shown = if from_start { self.shown() } else { Vec::new() };
                let verdict = self.verdict.map(|_| lines::end(!self.failures.is_empty()));
                let verdict = verdict.map(|line| format!("{line}\n")).unwrap_or_default();
                format!("{}{verdict}\n{}", lines(shown), lines(self.own()))
            }
        }
    }

    /// The lines shown during the test.
    fn shown(&self) -> Vec<String> {
        let mut shown = head(&self.context, &self.record.scenario, self.stat_interval);
        let intervals = self.record.intervals.iter();
        shown.extend(intervals.flat_map(|interval| lines::interval(interval, self.legacy)));
        shown
    }

    /// What locktorture does not tell.
    fn own(&self) -> Vec<String> {
        let record = &self.record;
        let mut lines = record.failures_of_threads();
        let failures = self.failures.iter();
        lines.extend(failures.map(|failure| format!("failure: {failure}")));
        let of = |role: Role| record.threads.iter().filter(move |t| t.role == role);
        let total = |role| of(role).map(|thread| thread.acquisitions).sum::<u64>();
        let (writes, reads) = (total(Role::Writer), total(Role::Reader));
        let shared = record.scenario.vms[0].lock.kind.is_rw();
        let by_kind = match shared {
            true => format!("{writes} for writing, {reads} for reading"),
            false => writes.to_string(),
        };
        let contended = match record.contended {
            None => "contended or not: the lock does not tell".to_owned(),
            Some(0) => "0 contended acquisitions: nobody ever waited".to_owned(),
            Some(n) => format!("{} contended", share(n, writes + reads)),
        };
        let seconds = record.measured_s;
        lines.push(format!(
            "acquisitions: {by_kind}, in {seconds:.1} s; {contended}"
        ));
        for role in [Role::Writer, Role::Reader] {
            if let Some(thread) = of(role).max_by_key(|thread| thread.longest_wait_ns) {
                let longest = time(thread.longest_wait_ns as f64);
                lines.push(format!("longest wait of a {role}: {longest}, {thread}"));
            }
        }
        if let Some(text) = absent(&record.without_cpu) {
            lines.push(format!(
                "{text}: not counted, neither as time nor against anybody; the longest waits may contain it"
            ));
        }
        lines.extend(record.starved_lines());
        let never_told = never_told(&record.scenario, record.preempted_reported);
        lines.extend(never_told.map(str::to_owned));
        if !record.pauses.is_empty() || record.shuffles > 0 {
            let paused = record.pauses.iter().map(|pause| pause.to_s - pause.from_s);
            lines.push(format!(
                "{}, {} in all; threads moved {}",
                plural(record.pauses.len(), "pause"),
                time(paused.fold(0.0, |sum, length| sum + length) * 1e9),
                plural(record.shuffles, "time"),
            ));
        }
        match &record.stuck {
            Some(stuck) => lines.extend(stuck.lines().map(str::to_owned)),
            None if !record.given_up.is_empty() => lines.push(format!(
                "{} still waiting for the lock 2 s after the end, and {}",
                match record.given_up.len() {
                    1 => "1 thread was".to_owned(),
                    n => format!("{n} threads were"),
                },
                match record.scenario.machine.facts().ends_waiters {
                    true => "stopped while waiting",
                    false => "not waited for",
                }
            )),
            None => {}
        }
        lines
    }
}

impl Outcome {
    /// A line for each thread that saw a failure.
    fn failures_of_threads(&self) -> Vec<String> {
        let failed = |thread: &&Thread| thread.violations + thread.late > 0;
        named(self.threads.iter().filter(failed), |thread| {
            let mut parts = Vec::new();
            if thread.violations > 0 {
                parts.push(format!("{} times not alone inside", thread.violations));
            }
            if thread.late > 0 {
                parts.push(format!("{} acquisitions over the limit", thread.late));
            }
            format!("failed: {thread}: {}", parts.join(", "))
        })
    }

    fn starved_lines(&self) -> Vec<String> {
        let starved = self.threads.iter();
        let starved = starved.filter_map(|thread| Some((thread, thread.starved?)));
        named(starved, |(thread, starved)| {
            let own = usize::try_from(thread.acquisitions).unwrap_or(usize::MAX);
            format!(
                "starved: {thread}: {}, {} for {:.1} s; the others made {} meanwhile",
                plural(own, "acquisition"),
                if starved.still { "waiting" } else { "waited" },
                starved.waited_s,
                starved.others
            )
        })
    }
}

/// A line for each of the first, and one that says how many more there are.
fn named<T>(mut all: impl Iterator<Item = T>, line: impl Fn(T) -> String) -> Vec<String> {
    let mut lines: Vec<String> = all.by_ref().take(SHOWN).map(line).collect();
    let more = all.count();
    lines.extend((more > 0).then(|| format!("  (and {more} more threads)")));
    lines
}
