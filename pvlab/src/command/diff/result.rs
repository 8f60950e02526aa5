//! What has changed between two saved reports.

use super::DiffUsage;
use super::saved::{Saved, SavedLock};
use crate::command::compare::result::{Verdict, verdict};
use crate::figures::none;
use crate::figures::stats::{geometric_mean, unpaired_ratio_interval};
use serde::Serialize;
use serde_json::Value;

/// Fewer acquisitions than these say little, however close the rounds are together.
const FEW: u64 = 100;
/// A change that all locks have in common, from which on it is said.
const TOGETHER: f64 = 0.05;

/// The difference of two reports.
#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "pvlab.diff/1")]
pub(crate) struct Difference {
    /// The earlier report's file.
    pub old: String,
    /// The later one's.
    pub new: String,
    /// The lock to which figures are relative.
    pub relative_to: Option<String>,
    /// Least difference worth a verdict.
    pub min_effect: f64,
    /// Where host and scenario are not the same.
    pub conditions: Vec<Condition>,
    /// The locks that both have.
    pub locks: Vec<LockDifference>,
    /// What to bear in mind.
    pub warnings: Vec<String>,
}

/// Something that was not the same.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Condition {
    /// Where it stands in the report.
    pub what: String,
    /// What it was.
    pub old: Value,
    /// What it is.
    pub new: Value,
}

/// One lock, then and now.
#[derive(Debug, Serialize)]
pub(crate) struct LockDifference {
    /// Its name.
    pub lock: String,
    /// What it made before.
    pub old: Side,
    /// What it makes now.
    pub new: Side,
    /// New over old, of the geometric means of the rounds.
    #[serde(serialize_with = "none::figure")]
    pub ratio: f64,
    /// Lower end of its 95 % interval; single rounds have none.
    pub lo: Option<f64>,
    /// Upper end.
    pub hi: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
}

/// One of the two.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    /// Typical round (geometric mean): acquisitions a second, or the ratio to the lock named.
    #[serde(serialize_with = "none::figure")]
    pub typical: f64,
    /// The number of rounds.
    pub rounds: usize,
    /// Jain's index.
    pub jain: Option<f64>,
    /// 99.9th percentile of the waits, ns.
    pub p999_ns: Option<u64>,
    /// The longest wait, ns.
    pub max_ns: Option<u64>,
}

impl Difference {
    /// What has changed from `old` to `new`.
    pub(crate) fn of(
        old: &Saved,
        new: &Saved,
        relative_to: Option<&str>,
        min_effect: f64,
    ) -> Result<Self, DiffUsage> {
        let reference = |saved: &'_ Saved| match relative_to {
            None => Ok(None),
            Some(lock) => match saved.lock(lock) {
                Some(found) => Ok(Some(found.rounds().collect::<Vec<_>>())),
                None => Err(DiffUsage::NoSuchLock {
                    file: saved.file.clone(),
                    lock: lock.to_owned(),
                    has: saved.locks(),
                }),
            },
        };
        let references = (reference(old)?, reference(new)?);
        let both = old.results.iter().filter_map(|then| {
            let now = new.lock(&then.lock)?;
            let sides = (then, references.0.as_deref(), now, references.1.as_deref());
            (Some(then.lock.as_str()) != relative_to).then(|| lock_difference(sides, min_effect))
        });
        let locks: Vec<_> = both.collect();
        if locks.is_empty() {
            return Err(DiffUsage::NothingInCommon {
                old: old.locks(),
                new: new.locks(),
            });
        }
        let mut conditions = Vec::new();
        for (what, then, now) in [
            (
                "machine",
                &Value::from(&*old.machine),
                &Value::from(&*new.machine),
            ),
            (
                "host",
                &Value::from(old.host.clone()),
                &Value::from(new.host.clone()),
            ),
            ("scenario", &old.scenario, &new.scenario),
        ] {
            differences(what, then, now, &mut conditions);
        }
        let warnings = warnings(old, new, &locks, relative_to.is_some());
        Ok(Self {
            old: old.file.clone(),
            new: new.file.clone(),
            relative_to: relative_to.map(str::to_owned),
            min_effect,
            conditions,
            locks,
            warnings,
        })
    }

    /// Whether a lock has become slower by more than `most`, beyond doubt.
    pub(crate) fn is_slower_by(&self, most: f64) -> bool {
        let mut locks = self.locks.iter();
        locks.any(|lock| lock.hi.is_some_and(|hi| hi < 1.0) && lock.ratio < 1.0 - most)
    }
}

type Sides<'a> = (
    &'a SavedLock,
    Option<&'a [f64]>,
    &'a SavedLock,
    Option<&'a [f64]>,
);

fn lock_difference((then, then_by, now, now_by): Sides<'_>, min_effect: f64) -> LockDifference {
    let (before, after) = (rounds(then, then_by), rounds(now, now_by));
    let interval = unpaired_ratio_interval(&before, &after);
    let (old, new) = (side(then, &before), side(now, &after));
    let ratio = new.typical / old.typical;
    LockDifference {
        lock: then.lock.clone(),
        ratio,
        lo: interval.map(|(lo, _)| lo),
        hi: interval.map(|(_, hi)| hi),
        verdict: verdict(ratio, interval, min_effect),
        old,
        new,
    }
}

/// Rates of each round, or their ratios to those of another lock.
fn rounds(lock: &SavedLock, by: Option<&[f64]>) -> Vec<f64> {
    match by {
        None => lock.rounds().collect(),
        Some(by) => lock.rounds().zip(by).map(|(a, b)| a / b).collect(),
    }
}

fn side(lock: &SavedLock, rounds: &[f64]) -> Side {
    Side {
        typical: geometric_mean(rounds).unwrap_or(f64::NAN),
        rounds: rounds.len(),
        jain: lock.fairness.jain,
        p999_ns: lock.wait_ns.and_then(|waits| waits.p999),
        max_ns: lock.wait_ns.and_then(|waits| waits.max),
    }
}

/// What of a scenario makes no difference to a lock that both have.
const OF_NO_ACCOUNT: [&str; 5] = [
    "scenario.locks",
    "scenario.baseline_index",
    "scenario.min_effect",
    "scenario.run.vms[0].lock",
    "scenario.rounds",
];

fn differences(at: &str, old: &Value, new: &Value, found: &mut Vec<Condition>) {
    if old == new || OF_NO_ACCOUNT.contains(&at) {
        return;
    }
    match (old, new) {
        (Value::Object(then), Value::Object(now)) => {
            let added = now.keys().filter(|key| !then.contains_key(*key));
            for key in then.keys().chain(added) {
                differences(&format!("{at}.{key}"), &old[key], &new[key], found);
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (place, (then, now)) in then.iter().zip(now).enumerate() {
                differences(&format!("{at}[{place}]"), then, now, found);
            }
        }
        _ => found.push(Condition {
            what: at.to_owned(),
            old: old.clone(),
            new: new.clone(),
        }),
    }
}

fn warnings(old: &Saved, new: &Saved, locks: &[LockDifference], relative: bool) -> Vec<String> {
    let mut said = Vec::new();
    for saved in [old, new] {
        if saved.ended != "complete" {
            said.push(format!(
                "{} is of a run that did not end: {}",
                saved.file, saved.ended
            ));
        }
        let texts = saved.warnings.iter().filter_map(|w| w["text"].as_str());
        said.extend(texts.map(|text| format!("{}: {text}", saved.file)));
        let few = saved.results.iter().filter(|r| r.acquisitions < FEW);
        said.extend(few.map(|r| {
            format!(
                "{}: {} has {} acquisitions in all, too few to say much",
                saved.file, r.lock, r.acquisitions
            )
        }));
        let others: Vec<_> = (saved.results.iter())
            .filter(|r| [old, new].iter().any(|s| s.lock(&r.lock).is_none()))
            .map(|r| r.lock.as_str())
            .collect();
        if !others.is_empty() {
            said.push(format!("only {} has {}", saved.file, others.join(", ")));
        }
    }
    if locks.iter().any(|lock| lock.lo.is_none()) {
        said.push(
            "a single round, or one without an acquisition, has no interval: no verdict".into(),
        );
    }
    let all = |is: fn(f64) -> bool| locks.iter().all(|lock| is(lock.ratio));
    let together = all(|r| r > 1.0 + TOGETHER) || all(|r| r < 1.0 / (1.0 + TOGETHER));
    if together && locks.len() > 1 && !relative {
        said.push(
            "all locks have changed in the same direction: was the host as fast both times? --relative-to LOCK takes that out"
                .into(),
        );
    }
    said
}
