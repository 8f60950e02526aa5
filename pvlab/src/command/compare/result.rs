//! A comparison of locks, from the records of its rounds.

use super::plan::Plan;
use super::warning;
use crate::figures::warning::{Warning, of_scenario};
use crate::figures::{Bistable, Exclusion, Run, Summary, Support, none, stats};
use crate::record::{Context, Ended, Record, Start};
use crate::report::account::explained;
use crate::scenario::{Lock, SlowPath};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.compare/1")]
pub(crate) struct Comparison {
    #[serde(flatten)]
    pub context: Context,
    #[serde(rename = "scenario")]
    pub plan: Plan,
    /// The lock that the others are compared with.
    pub baseline: Lock,
    pub ended: Ended,
    pub rounds_done: usize,
    pub exclusion: Exclusion,
    /// How each of the plan's locks waits; one named again is not told of again.
    pub slow_paths: Vec<SlowPath>,
    /// One for each lock of the plan.
    pub results: Vec<LockResult>,
    /// What the reader of the figures must know.
    pub warnings: Vec<Warning>,
    /// Runs that were traced, if it was asked what waiting was spent on.
    #[serde(rename = "accounts", serialize_with = "explained")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Record>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockResult {
    pub lock: Lock,
    /// Whether the others are compared with this one.
    pub is_baseline: bool,
    /// Its throughput, if a round is complete.
    pub throughput: Option<Throughput>,
    /// Its throughput over that of the baseline, if a round is complete.
    pub ratio: Option<Ratio>,
    #[serde(flatten)]
    pub summary: Summary,
    /// How the measurements' starts were chosen, one for each round.
    pub starts: Vec<Start>,
}

/// Acquisitions per second of all vCPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Throughput {
    /// Of the rounds; 0 is none.
    #[serde(flatten)]
    pub typical: Typical,
    /// The two states that the rounds were in, if they fall into two: the median is of one of them.
    pub bistable: Option<Bistable>,
    /// The unit, always "acquisitions/s".
    pub unit: &'static str,
    #[serde(serialize_with = "none::figures")]
    pub rounds: Vec<f64>,
}

/// Throughput over that of the baseline in the same round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    /// Of the rounds.
    #[serde(flatten)]
    pub typical: Typical,
    /// What may be said.
    pub verdict: Verdict,
    /// Each round's; not a number where neither lock made anything.
    pub rounds: Vec<f64>,
}

/// What several rounds come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Typical {
    #[serde(serialize_with = "none::figure")]
    pub median: f64,
    /// Lower end of the 95 % interval of the rounds, with the median in it; a single round has none.
    pub lo: Option<f64>,
    /// Upper end.
    pub hi: Option<f64>,
    pub interval: Option<Support>,
}

impl Typical {
    fn of(rounds: &[f64]) -> Option<Self> {
        let median = stats::median(rounds)?;
        let (ends, interval) = stats::rounds_interval(rounds).unzip();
        Some(Self {
            median,
            // The interval is about the geometric mean; it must not look as if the median were wrong.
            lo: ends.map(|(lo, _)| lo.min(median)),
            hi: ends.map(|(_, hi)| hi.max(median)),
            interval,
        })
    }

    pub(crate) fn ends(self) -> Option<(f64, f64)> {
        self.lo.zip(self.hi)
    }
}

/// What may be said about a lock, compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    #[serde(rename = "faster")]
    Faster,
    #[serde(rename = "slower")]
    Slower,
    /// Neither can be said.
    #[serde(rename = "no difference")]
    NoDifference,
}

impl Verdict {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifference => "no difference",
        }
    }
}

impl Comparison {
    /// The comparison of complete rounds, each with a record for each lock of the plan in the
    /// plan's order. `broken` is a lock that did not exclude, with its record.
    pub(crate) fn new(
        plan: Plan,
        rounds: &[Vec<Record>],
        ended: Ended,
        broken: Option<&(usize, Record)>,
    ) -> Self {
        let of = |lock| result(&plan, lock, rounds, broken);
        let results: Vec<_> = (0..plan.locks.len()).map(of).collect();
        let mut warnings = of_scenario(&plan.run);
        warnings.extend(warning::of_rounds(&plan, rounds));
        for (lock, result) in results.iter().enumerate() {
            let records: Vec<_> = rounds.iter().filter_map(|round| round.get(lock)).collect();
            warnings.extend(warning::of_lock(&plan.run, result, &records));
        }
        let mut slow_paths = Vec::new();
        for &lock in &plan.locks {
            let path = SlowPath::of(&plan.run, lock, plan.run.vcpus());
            if !slow_paths.contains(&path) {
                slow_paths.push(path);
            }
        }
        let broken = broken.map(|(_, record)| record);
        let first = rounds.iter().flatten().chain(broken).next();
        Self {
            context: first.map(|first| first.context.clone()).unwrap_or_default(),
            baseline: plan.locks[plan.baseline],
            exclusion: Exclusion::worst(results.iter().map(|result| result.summary.exclusion)),
            plan,
            rounds_done: rounds.len(),
            ended,
            slow_paths,
            results,
            warnings,
            explained: Vec::new(),
        }
    }
}

fn result(
    plan: &Plan,
    lock: usize,
    rounds: &[Vec<Record>],
    broken: Option<&(usize, Record)>,
) -> LockResult {
    let mut runs = runs_of(lock, rounds);
    let base = runs_of(plan.baseline, rounds);
    let throughput = throughput(&runs);
    let ratio = ratio(&runs, &base, plan.min_effect);
    // The broken run is in no complete round, but its count of violations must not be lost.
    let broken = broken.filter(|(which, _)| *which == lock);
    runs.extend(broken.and_then(|(_, record)| Run::first(record)));
    let records = rounds.iter().filter_map(|round| round.get(lock));
    LockResult {
        lock: plan.locks[lock],
        is_baseline: lock == plan.baseline,
        throughput,
        ratio,
        summary: Summary::of(&runs),
        starts: records.map(|record| record.start.clone()).collect(),
    }
}

fn runs_of(lock: usize, rounds: &[Vec<Record>]) -> Vec<Run<'_>> {
    let records = rounds.iter().filter_map(|round| round.get(lock));
    records.filter_map(Run::first).collect()
}

fn throughput(runs: &[Run<'_>]) -> Option<Throughput> {
    let rounds: Vec<f64> = runs.iter().map(Run::throughput).collect();
    Some(Throughput {
        typical: Typical::of(&rounds)?,
        bistable: Bistable::of(&rounds),
        unit: "acquisitions/s",
        rounds,
    })
}

fn ratio(runs: &[Run<'_>], base: &[Run<'_>], min_effect: f64) -> Option<Ratio> {
    // Of a round in which neither made anything there is no ratio.
    let of_round = |(run, base): (&Run<'_>, &Run<'_>)| {
        let something = run.throughput() > 0.0 || base.throughput() > 0.0;
        something.then(|| run.throughput_for_ratio() / base.throughput_for_ratio())
    };
    let rounds: Vec<_> = runs.iter().zip(base).map(of_round).collect();
    let ratio = ratio_of(rounds.iter().copied().flatten().collect(), min_effect)?;
    Some(Ratio {
        rounds: rounds.into_iter().map(|r| r.unwrap_or(f64::NAN)).collect(),
        ..ratio
    })
}

/// From the ratio in each round.
fn ratio_of(rounds: Vec<f64>, min_effect: f64) -> Option<Ratio> {
    let typical = Typical::of(&rounds)?;
    let supported = |is: &Support| is.level.is_some() && is.n >= LEAST_ROUNDS;
    let confident = typical.interval.filter(supported).and(typical.ends());
    Some(Ratio {
        typical,
        verdict: verdict(typical.median, confident, min_effect),
        rounds,
    })
}

/// Two rounds that agree may each have met the same two states of the machine by chance, in one of eight
/// comparisons of a lock with itself, and nothing in them tells.
const LEAST_ROUNDS: usize = 3;

/// A difference is called one if the interval excludes 1 and the median is worth it. As many
/// times slower counts as much as that many times faster, so that the verdict does not depend on
/// which of two locks is the baseline.
pub(crate) fn verdict(median: f64, interval: Option<(f64, f64)>, min_effect: f64) -> Verdict {
    match interval {
        Some((lo, _)) if lo > 1.0 && median >= 1.0 + min_effect => Verdict::Faster,
        Some((_, hi)) if hi < 1.0 && median <= 1.0 / (1.0 + min_effect) => Verdict::Slower,
        _ => Verdict::NoDifference,
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "study.rs"]
mod study;
