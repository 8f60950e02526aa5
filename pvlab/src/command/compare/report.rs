//! The report of a comparison.

use super::plan::Plan;
use super::result::{Comparison, LockResult, Typical};
use crate::figures::{Exclusion, Summary, Warning, none};
use crate::human::{count, or_dash, rates, ratio, ratios, throughput, time};
use crate::record::{Context, Ended};
use crate::report::account;
use crate::report::column::Columns;
use crate::report::doc::{Block, Table, render};
use crate::report::headline::{achieved, headline, starts, workload};
use crate::report::lock;
use crate::report::lock::{LockRow, cut_off, evenness, named, slow_path, waiting};
use crate::report::mix;
use crate::report::{Format, Machine, to_json};
use crate::scenario::Length;
use crate::scenario::selection::SlowPath;
use crate::trace::account::Account;
use serde::Serialize;

/// The report of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct CompareReport {
    context: Context,
    comparison: Comparison,
    accounts: Vec<(String, Account)>,
}

/// The report for programs.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    scenario: &'a Plan,
    baseline: String,
    ended: Ended,
    rounds_done: usize,
    exclusion: Exclusion,
    slow_paths: Vec<SlowPath>,
    results: &'a [LockResult],
    warnings: &'a [Warning],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<Explained<'a>>,
}

/// What one lock's waiting was spent on.
#[derive(Serialize)]
struct Explained<'a> {
    lock: &'a str,
    account: serde_json::Value,
}

impl CompareReport {
    /// A report of that comparison.
    ///
    /// `accounts` explain what each lock's waiting was spent on, if that was asked for.
    pub(crate) fn new(
        context: Context,
        comparison: Comparison,
        accounts: Vec<(String, Account)>,
    ) -> Self {
        Self {
            context,
            comparison,
            accounts,
        }
    }

    /// The report in that format.
    pub(crate) fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_json(&self.json()),
            Format::Csv => self.csv(),
            Format::Table | Format::Markdown => {
                let mut blocks = self.blocks();
                blocks.extend(self.explanation(format));
                render(&blocks, format)
            }
        }
    }

    /// What the waiting was spent on: side by side, then each lock in detail.
    fn explanation(&self, format: Format) -> Vec<Block> {
        if self.accounts.is_empty() {
            return Vec::new();
        }
        let mut blocks = vec![
            Block::Table(account::explain(&self.accounts)),
            Block::Lines(account::explain_legend()),
        ];
        for (_, each) in &self.accounts {
            blocks.extend(account::blocks(each, format));
        }
        blocks
    }

    /// What to cry out if a lock did not exclude.
    pub(crate) fn exclusion_broken(&self) -> Option<String> {
        lock::exclusion_broken(self.summaries())
    }

    fn summaries(&self) -> impl Iterator<Item = (&str, &Summary)> + Clone {
        let results = self.comparison.results.iter();
        results.map(|result| (result.lock.as_str(), &result.summary))
    }

    fn locks(&self) -> impl Iterator<Item = LockRow<'_>> {
        let results = self
            .comparison
            .results
            .iter()
            .zip(&self.comparison.plan.locks);
        results.map(|(result, &lock)| LockRow {
            name: result.lock.clone(),
            lock,
            summary: &result.summary,
        })
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let results = self.comparison.results.iter().zip(self.locks());
        results.map(|(result, lock)| Row { result, lock })
    }

    fn json(&self) -> Json<'_> {
        let Comparison {
            plan,
            rounds_done,
            ended,
            results,
            warnings,
        } = &self.comparison;
        let exclusion = match ended {
            Ended::ExclusionBroken => Exclusion::Broken,
            Ended::Complete | Ended::Interrupted => {
                Exclusion::worst(results.iter().map(|result| result.summary.exclusion))
            }
        };
        Json {
            schema: "pvlab.compare/1",
            machine: self.context.machine(&plan.run),
            scenario: plan,
            baseline: self.comparison.baseline(),
            ended: *ended,
            rounds_done: *rounds_done,
            exclusion,
            slow_paths: slow_paths(plan),
            results,
            warnings,
            accounts: (self.accounts.iter())
                .map(|(lock, each)| Explained {
                    lock,
                    account: account::to_value(each),
                })
                .collect(),
        }
    }

    fn blocks(&self) -> Vec<Block> {
        let Comparison {
            plan,
            rounds_done,
            ended,
            results,
            warnings,
        } = &self.comparison;
        let rounds = match ended {
            Ended::Complete => format!("rounds: {rounds_done}, interleaved and rotated"),
            Ended::Interrupted => {
                format!("interrupted after {rounds_done} of {} rounds", plan.rounds)
            }
            Ended::ExclusionBroken => {
                format!(
                    "stopped after {rounds_done} of {} rounds: exclusion broken",
                    plan.rounds
                )
            }
        };
        let mut lines = vec![
            headline(&self.context, &plan.run),
            workload(&plan.run),
            rounds,
        ];
        lines.extend(slow_paths(plan).iter().map(ToString::to_string));
        lines.extend(achieved(&plan.run, self.summaries()));
        lines.extend(starts(results.iter().flat_map(|result| &result.starts)));
        lines.extend(uneven_end(plan, results, *ended));
        let mut blocks = vec![
            Block::Lines(lines),
            Block::Table(self.throughput()),
            Block::Table(self.fairness()),
            Block::Table(self.waiting()),
        ];
        let named = self
            .summaries()
            .map(|(lock, summary)| (lock.to_owned(), summary));
        blocks.extend(cut_off(named.clone()).map(|line| Block::Lines(vec![line])));
        blocks.extend(mix::blocks(&plan.run, named));
        blocks.push(lock::warnings(warnings));
        blocks
    }

    fn throughput(&self) -> Table {
        let title = format!(
            "Throughput of all vCPUs together, and its ratio to {} in the same round (median; 95 % \
             interval by Student's t on logarithms)",
            self.comparison.baseline()
        );
        compared(self.comparison.rounds_done).table(title, self.rows())
    }

    fn fairness(&self) -> Table {
        named("lock").and(slow_path()).and(evenness()).table(
            "Fairness among vCPUs (Jain index, most over least acquisitions), and waiting times",
            self.locks(),
        )
    }

    fn waiting(&self) -> Table {
        let table = named("lock").and(counts()).table(
            "How it waited: acquisitions of all rounds, share of them contended, rates of events, \
             CPUs used",
            self.locks(),
        );
        table.without_empty_columns("-")
    }

    fn csv(&self) -> String {
        let machine = self.comparison.plan.run.machine_name();
        compared(self.comparison.rounds_done)
            .include(evenness().and(counts()).and(rest()), |row| row.lock.clone())
            .value("machine", move |_| machine.clone())
            .csv(self.rows())
    }
}

/// A lock of a comparison.
struct Row<'a> {
    result: &'a LockResult,
    lock: LockRow<'a>,
}

fn compared<'a>(rounds: usize) -> Columns<'a, Row<'a>> {
    let made = |row: &Row<'a>| Some(row.result.throughput.as_ref()?.typical);
    let compared = |row: &Row<'a>| Some(row.result.ratio.as_ref()?.typical);
    Columns::new()
        .text("lock", "lock", |row: &Row<'_>| row.result.lock.clone())
        .value("is_baseline", |row| row.result.is_baseline)
        .value("rounds", move |_| rounds)
        .value("throughput_per_s", move |row| none::some(made(row)?.median))
        .cell("acquisitions", move |row| {
            or_dash(made(row), |is| throughput(is.median))
        })
        .value("throughput_lo_per_s", move |row| made(row)?.lo)
        .value("throughput_hi_per_s", move |row| made(row)?.hi)
        .cell("interval", move |row| {
            or_dash(made(row).and_then(Typical::ends), rates)
        })
        .value("ratio", move |row| Some(compared(row)?.median))
        .cell("ratio", move |row| {
            or_dash(compared(row), |is| ratio(is.median))
        })
        .value("ratio_lo", move |row| compared(row)?.lo)
        .value("ratio_hi", move |row| compared(row)?.hi)
        .cell("interval", move |row| {
            let other = compared(row).filter(|_| !row.result.is_baseline);
            or_dash(other.and_then(Typical::ends), ratios)
        })
        .value("verdict", |row| {
            Some(row.result.ratio.as_ref()?.verdict.name())
        })
        .cell("verdict", |row| verdict(row.result).to_owned())
        .left()
}

fn counts<'a>() -> Columns<'a, LockRow<'a>> {
    Columns::new()
        .value("measured_s", |row: &LockRow<'_>| row.summary.measured_s)
        .value("acquisitions", |row| row.summary.acquisitions)
        .cell("acquired", |row| count(row.summary.acquisitions))
        .and(waiting())
}

/// What no table shows.
fn rest<'a>() -> Columns<'a, LockRow<'a>> {
    let columns = Columns::new()
        .value("critical_ns", |row: &LockRow<'_>| row.summary.critical_ns)
        .value("outside_ns", |row| row.summary.outside_ns)
        .value("probe_ns", |row| row.summary.probe_ns)
        .value("exclusion", |row| row.summary.exclusion.name());
    columns
        .include(mix::columns(), |row: &LockRow<'a>| row.summary)
        .value("waits_cut_off", |row| Some(row.summary.wait_ns?.cut_off))
        .value("wait_cut_off_ns", |row| {
            row.summary.wait_ns?.longest_cut_off
        })
}

/// When the vCPUs were done with a fixed number of acquisitions: figures are of the time before.
fn uneven_end(plan: &Plan, results: &[LockResult], ended: Ended) -> Option<String> {
    if !matches!(plan.run.length, Length::Iterations(_)) {
        return None;
    }
    let each = results.iter().filter(|result| !result.starts.is_empty());
    let each = each.map(|LockResult { lock, summary, .. }| {
        format!(
            "{} of {} ({lock})",
            time(summary.measured_s * 1e9),
            time(summary.whole_s * 1e9)
        )
    });
    let each: Vec<_> = each.collect();
    // The run in which a lock broke is in its sums and in no round.
    (!each.is_empty() && ended != Ended::ExclusionBroken).then(|| {
        format!(
            "the first vCPU was done after {} that the last took, all rounds together: rates, fairness and \
             waits are of the time in which all vCPUs were at work",
            each.join(", ")
        )
    })
}

fn verdict(result: &LockResult) -> &'static str {
    match &result.ratio {
        _ if result.is_baseline => "baseline",
        Some(ratio) => ratio.verdict.name(),
        None => "-",
    }
}

/// How each of the plan's locks waits; one named again is not told of again.
fn slow_paths(plan: &Plan) -> Vec<SlowPath> {
    let vcpus = plan.run.vcpus();
    let mut paths: Vec<SlowPath> = Vec::new();
    for &lock in &plan.locks {
        let path = SlowPath::of(&plan.run, lock, vcpus);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}
