//! The report of a comparison.

use super::plan::Plan;
use super::result::{Comparison, LockResult};
use crate::figures::{Exclusion, Warning};
use crate::options::cells::Ended;
use crate::report::account;
use crate::report::cells::{
    broken_line, cpus, cut_off, futile_yields, slow_path, wait_cells, yields,
};
use crate::report::csv;
use crate::report::doc::{Block, Table, render};
use crate::report::headline::{achieved, headline, starts, workload};
use crate::report::human::{count, or_dash, rate, rates, ratio, share, time};
use crate::report::mix;
use crate::report::{Context, Format, Machine, to_json};
use crate::scenario::{Length, Lock};
use crate::selection::SlowPath;
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
        let broken = |result: &&LockResult| result.summary.exclusion == Exclusion::Broken;
        self.comparison
            .results
            .iter()
            .find(broken)
            .map(|result| broken_line(&result.lock, &result.summary))
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
        lines.extend(achieved(
            &plan.run,
            results
                .iter()
                .map(|result| (result.lock.as_str(), &result.summary)),
        ));
        lines.extend(starts(results.iter().flat_map(|result| &result.starts)));
        lines.extend(uneven_end(plan, results, *ended));
        let mut blocks = vec![
            Block::Lines(lines),
            Block::Table(self.throughput()),
            Block::Table(self.waits()),
            Block::Table(self.events()),
        ];
        let named = results.iter().map(|r| (r.lock.clone(), &r.summary));
        blocks.extend(cut_off(named.clone()).map(|line| Block::Lines(vec![line])));
        blocks.extend(mix::blocks(&plan.run, named));
        blocks.push(Block::Lines(
            warnings
                .iter()
                .map(|warning| format!("warning: {}", warning.text))
                .collect(),
        ));
        blocks
    }

    fn throughput(&self) -> Table {
        let title = format!(
            "Throughput of all vCPUs together, and its ratio to {} in the same round (median; 95 % \
             interval by Student's t on logarithms)",
            self.comparison.baseline()
        );
        let mut table = Table::new(
            title,
            &[
                "lock",
                "acquisitions",
                "interval",
                "ratio",
                "interval",
                "verdict",
            ],
        );
        table.left.push(5);
        for result in &self.comparison.results {
            let throughput = result.throughput.as_ref();
            let compared = result.ratio.as_ref();
            table.row(vec![
                result.lock.to_owned(),
                or_dash(throughput, |t| match t.median {
                    0.0 => "none".to_owned(),
                    median => rate(median),
                }),
                or_dash(throughput.and_then(|t| t.lo.zip(t.hi)), rates),
                or_dash(compared, |r| ratio(r.median)),
                if result.is_baseline {
                    "-".to_owned()
                } else {
                    or_dash(compared.and_then(|r| r.lo.zip(r.hi)), ratios)
                },
                verdict(result).to_owned(),
            ]);
        }
        table
    }

    fn waits(&self) -> Table {
        let mut table = Table::new(
            "Fairness among vCPUs (Jain index, most over least acquisitions), and waiting times",
            &[
                "lock",
                "slow path",
                "Jain",
                "max/min",
                "wait p50",
                "p99",
                "p99.9",
                "max",
            ],
        );
        table.left.push(1);
        for (LockResult { lock, summary, .. }, kind) in self.with_kinds() {
            let mut row = vec![
                (*lock).to_owned(),
                slow_path(kind).to_owned(),
                or_dash(summary.fairness.jain, |jain| format!("{jain:.3}")),
                or_dash(summary.fairness.max_over_min, ratio),
            ];
            row.extend(wait_cells(summary.wait_ns));
            table.row(row);
        }
        table
    }

    fn events(&self) -> Table {
        let mut table = Table::new(
            "How it waited: acquisitions of all rounds, share of them contended, rates of events, \
             CPUs used",
            &[
                "lock",
                "acquired",
                "contended",
                "halts",
                "kicks",
                "spurious",
                "yields",
                "futile",
                "exits",
                "CPUs",
            ],
        );
        for (LockResult { lock, summary, .. }, kind) in self.with_kinds() {
            table.row(vec![
                (*lock).to_owned(),
                count(summary.acquisitions),
                share(summary.contended, summary.acquisitions),
                rate(summary.rate(summary.halts)),
                rate(summary.rate(summary.kicks)),
                rate(summary.rate(summary.spurious_wakes)),
                yields(kind, summary),
                futile_yields(summary),
                rate(summary.exits_per_s()),
                cpus(summary),
            ]);
        }
        table.without_empty_columns("-")
    }

    fn with_kinds(&self) -> impl Iterator<Item = (&LockResult, Lock)> {
        let kinds = self.comparison.plan.locks.iter().copied();
        self.comparison.results.iter().zip(kinds)
    }

    fn csv(&self) -> String {
        let header = [
            "lock",
            "is_baseline",
            "rounds",
            "throughput_per_s",
            "throughput_lo_per_s",
            "throughput_hi_per_s",
            "ratio",
            "ratio_lo",
            "ratio_hi",
            "verdict",
            "jain",
            "max_over_min",
            "wait_p50_ns",
            "wait_p99_ns",
            "wait_p999_ns",
            "wait_max_ns",
            "measured_s",
            "acquisitions",
            "contended",
            "halts",
            "kicks",
            "spurious_wakes",
            "yields",
            "futile_yields",
            "exits",
            "cpu_ns",
            "critical_ns",
            "outside_ns",
            "probe_ns",
            "exclusion",
        ];
        let last = ["waits_cut_off", "wait_cut_off_ns", "machine"];
        let header = header.into_iter().chain(mix::CSV).chain(last);
        let mut text = csv::row(header.map(str::to_owned));
        for result in &self.comparison.results {
            let LockResult {
                throughput,
                ratio,
                summary,
                ..
            } = result;
            let (throughput, ratio, waits) = (throughput.as_ref(), ratio.as_ref(), summary.wait_ns);
            let cells = [
                result.lock.to_owned(),
                result.is_baseline.to_string(),
                self.comparison.rounds_done.to_string(),
                throughput.map_or_else(String::new, |t| csv::some(t.median)),
                csv::maybe(throughput.and_then(|t| t.lo)),
                csv::maybe(throughput.and_then(|t| t.hi)),
                csv::maybe(ratio.map(|r| r.median)),
                csv::maybe(ratio.and_then(|r| r.lo)),
                csv::maybe(ratio.and_then(|r| r.hi)),
                csv::maybe(ratio.map(|r| r.verdict.name())),
                csv::maybe(summary.fairness.jain),
                csv::finite(summary.fairness.max_over_min),
                csv::maybe(waits.map(|w| w.p50)),
                csv::maybe(waits.map(|w| w.p99)),
                csv::maybe(waits.map(|w| w.p999)),
                csv::maybe(waits.map(|w| w.max)),
                summary.measured_s.to_string(),
                summary.acquisitions.to_string(),
                summary.contended.to_string(),
                summary.halts.to_string(),
                summary.kicks.to_string(),
                summary.spurious_wakes.to_string(),
                summary.yields.to_string(),
                summary.futile_yields.to_string(),
                summary.all_exits().to_string(),
                csv::maybe(summary.cpu_ns),
                csv::maybe(summary.critical_ns),
                csv::maybe(summary.outside_ns),
                csv::maybe(summary.probe_ns),
                summary.exclusion.name().to_owned(),
            ];
            let cells = cells.into_iter().chain(mix::csv_cells(summary));
            text += &csv::row(cells.chain([
                csv::maybe(waits.map(|w| w.cut_off)),
                csv::maybe(waits.and_then(|w| w.longest_cut_off)),
                self.comparison.plan.run.machine_name(),
            ]));
        }
        text
    }
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

fn ratios((lo, hi): (f64, f64)) -> String {
    format!("{} .. {}", ratio(lo), ratio(hi))
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
