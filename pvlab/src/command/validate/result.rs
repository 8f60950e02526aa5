//! How far a simulated machine is from a real one: the same cells on both.

use crate::figures::{Bistable, Run, Summary, Support, none, stats};
use crate::record::Record;
use crate::scenario::Lock;
use serde::Serialize;

/// Simulated throughput is to be within this factor of the real one,
const WITHIN: f64 = 1.35;
/// or, of a fair lock with more vCPUs than CPUs, where all depends on the scheduler's whims, this.
const WITHIN_COLLAPSED: f64 = 2.0;
/// Halts and kicks per second are to be within this factor.
const WITHIN_RATES: f64 = 2.0;
/// Rarer than this, per second, they tell nothing.
const RARE: f64 = 10.0;

/// A lock at a number of vCPUs, on both machines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ValidationCell {
    pub lock: Lock,
    pub vcpus: usize,
    pub real: Side,
    pub simulated: Side,
    /// Simulated throughput by the real one; none if either is.
    #[serde(serialize_with = "none::figure")]
    pub ratio: f64,
    /// The factor that it is to be within.
    pub within: f64,
    /// Whether it is.
    pub throughput_is_near: bool,
    /// Whether halts and kicks are within their factor, if there are enough of them to tell.
    pub halts_are_near: Option<bool>,
    pub kicks_are_near: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    /// Acquisitions per second: median over the rounds; 0 is none.
    #[serde(serialize_with = "none::figure")]
    pub acquisitions_per_s: f64,
    #[serde(serialize_with = "none::ends")]
    pub interval: Option<(f64, f64)>,
    pub interval_is: Option<Support>,
    /// The two states that the rounds were in, if they fall into two.
    pub bistable: Option<Bistable>,
    /// Halts per second, over all rounds.
    pub halts_per_s: f64,
    pub kicks_per_s: f64,
}

impl Side {
    fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let runs: Vec<_> = records.into_iter().filter_map(Run::first).collect();
        let rates: Vec<_> = runs.iter().map(Run::throughput).collect();
        let summary = Summary::of(&runs);
        let (interval, interval_is) = stats::rounds_interval(&rates).unzip();
        Self {
            acquisitions_per_s: stats::median(&rates).unwrap_or(0.0),
            interval,
            interval_is,
            bistable: Bistable::of(&rates),
            halts_per_s: summary.rate(summary.halts),
            kicks_per_s: summary.rate(summary.kicks),
        }
    }
}

impl ValidationCell {
    /// From the records of both machines; `cpus`: on that many CPUs.
    pub(crate) fn new<'a>(
        lock: Lock,
        vcpus: usize,
        cpus: usize,
        real: impl IntoIterator<Item = &'a Record>,
        simulated: impl IntoIterator<Item = &'a Record>,
    ) -> Self {
        let (real, simulated) = (Side::of(real), Side::of(simulated));
        let ratio = simulated.acquisitions_per_s / real.acquisitions_per_s;
        let collapses = lock.traits().fair && vcpus > cpus;
        let within = if collapses { WITHIN_COLLAPSED } else { WITHIN };
        let near = |a: f64, b: f64| {
            (a.min(b) >= RARE || a.max(b) >= WITHIN_RATES * RARE)
                .then(|| is_within(a / b, WITHIN_RATES))
        };
        Self {
            lock,
            vcpus,
            throughput_is_near: is_within(ratio, within),
            halts_are_near: near(real.halts_per_s, simulated.halts_per_s),
            kicks_are_near: near(real.kicks_per_s, simulated.kicks_per_s),
            ratio,
            within,
            real,
            simulated,
        }
    }

    /// Whether all that can be told is near enough.
    pub(crate) fn is_near(&self) -> bool {
        self.throughput_is_near
            && self.halts_are_near.unwrap_or(true)
            && self.kicks_are_near.unwrap_or(true)
    }
}

fn is_within(ratio: f64, factor: f64) -> bool {
    (1.0 / factor..=factor).contains(&ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throughput_of_no_acquisition_is_none() {
        use crate::figures::fixture::record;
        use pvlock::LockKind::Tas;
        let idle = [record(Tas, 0), record(Tas, 0), record(Tas, 0)];
        let some = [record(Tas, 100), record(Tas, 0), record(Tas, 100)];
        let cell = ValidationCell::new(Tas.into(), 2, 2, &idle, &some);
        let json = serde_json::to_value(&cell).unwrap();
        assert!(json["ratio"].is_null() && !cell.throughput_is_near);
        assert!(json["real"]["acquisitions_per_s"].is_null());
        let simulated = &json["simulated"];
        assert_eq!(simulated["interval"], serde_json::json!([null, 100.0]));
        assert_eq!(simulated["interval_is"]["method"], "range");
        assert_eq!(simulated["interval_is"]["n"], 3);
    }

    #[test]
    fn a_ratio_is_within_a_factor_to_either_side() {
        assert!(is_within(1.35, 1.35) && is_within(1.0 / 1.3, 1.35));
        assert!(!is_within(1.36, 1.35) && !is_within(0.7, 1.35));
        assert!(!is_within(f64::INFINITY, 2.0) && !is_within(f64::NAN, 2.0));
    }
}
