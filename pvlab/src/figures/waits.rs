//! Waiting times of many vCPUs and rounds taken together.

use crate::record::Waits;
use serde::Serialize;
use std::collections::BTreeMap;

/// Percentiles of waiting times, ns. Each is at most 6.25 % too high (the width of a bucket of
/// [`abi::hist`]) and never too low, but for what [`AtLeast`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WaitNs {
    /// Half of the acquisitions waited no longer.
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    /// The longest wait, those included that were still going on at the end.
    pub max: u64,
    /// Waits that were cut off: still going on at the end.
    pub cut_off: u64,
    /// The length so far of the longest of them, ns.
    pub longest_cut_off: Option<u64>,
    /// Which figures are bounds only.
    pub at_least: AtLeast,
}

/// Which percentiles depend on how long the waits would have been that were cut off: these figures are
/// lower bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AtLeast {
    pub p50: bool,
    pub p99: bool,
    pub p999: bool,
    pub max: bool,
}

impl WaitNs {
    /// The percentiles of all `waits` together; `None` if nothing was timed.
    ///
    /// A wait that was cut off is censored: it is known to be at least as long as it was by then. So a
    /// percentile lies between the one with these waits as long as they were, which is what is given,
    /// and the one with them endless.
    pub(crate) fn pooled<'a>(waits: impl IntoIterator<Item = &'a Waits>) -> Option<Self> {
        let mut ended = BTreeMap::<u64, u64>::new();
        let (mut max, mut cut_off) = (0, Vec::new());
        for waits in waits {
            max = max.max(waits.max_ns);
            cut_off.extend(waits.cut_off_ns);
            for (ns, count) in waits.in_ns() {
                *ended.entry(ns).or_default() += count;
            }
        }
        let mut all = ended.clone();
        for &ns in &cut_off {
            *all.entry(ns).or_default() += 1;
        }
        let total: u64 = all.values().sum();
        // The bound of a bucket can lie above the longest wait that fell into it.
        let percentile = |per_mille: u64| {
            let rank = (u128::from(total) * u128::from(per_mille)).div_ceil(1000);
            let least = value_at(&all, rank)?.min(max);
            // A difference of a bucket's width is none.
            let exact = value_at(&ended, rank).is_some_and(|most| most <= least + least / 16);
            Some((least, !exact))
        };
        let (p50, p99, p999) = (percentile(500)?, percentile(990)?, percentile(999)?);
        let longest_cut_off = cut_off.iter().copied().max();
        Some(Self {
            p50: p50.0,
            p99: p99.0,
            p999: p999.0,
            max,
            cut_off: cut_off.len() as u64,
            longest_cut_off,
            at_least: AtLeast {
                p50: p50.1,
                p99: p99.1,
                p999: p999.1,
                max: longest_cut_off == Some(max),
            },
        })
    }
}

/// The value of that rank, counted from 1; `None` if there are fewer.
fn value_at(counts: &BTreeMap<u64, u64>, rank: u128) -> Option<u64> {
    let mut seen = 0;
    for (&value, &count) in counts {
        seen += u128::from(count);
        if seen >= rank.max(1) {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::fixture::waits;

    #[test]
    fn nothing_timed_has_no_percentiles() {
        assert_eq!(WaitNs::pooled([]), None);
        assert_eq!(WaitNs::pooled([&Waits::default()]), None);
    }

    fn bounds(pooled: WaitNs) -> [bool; 4] {
        let is = pooled.at_least;
        [is.p50, is.p99, is.p999, is.max]
    }

    /// p50, p99, p99.9 and the longest, none of them a bound.
    fn exactly([p50, p99, p999, max]: [u64; 4]) -> Option<WaitNs> {
        Some(WaitNs {
            p50,
            p99,
            p999,
            max,
            ..WaitNs::default()
        })
    }

    /// With a wait that was cut off after `so_far`.
    fn cut_off(values: &[(u64, u64)], so_far: u64) -> Waits {
        Waits {
            cut_off_ns: Some(so_far),
            ..waits(values, so_far)
        }
    }

    #[test]
    fn a_wait_that_has_not_ended_counts_where_none_has() {
        let starved = WaitNs::pooled([&cut_off(&[], 5_000)]).unwrap();
        assert_eq!((starved.p50, starved.max), (5_000, 5_000));
        assert_eq!((starved.cut_off, starved.longest_cut_off), (1, Some(5_000)));
        assert!(starved.at_least.p50 && starved.at_least.max);
    }

    #[test]
    fn percentiles_that_fall_among_cut_off_waits_are_lower_bounds() {
        // A reader that got in 16 times in 2 s, and was waiting when they were over.
        let reader = cut_off(&[(10, 16)], 1_900_000_000);
        let pooled = WaitNs::pooled([&reader]).unwrap();
        assert_eq!((pooled.p50, pooled.p99), (10, 1_900_000_000));
        assert_eq!(bounds(pooled), [false, true, true, true]);
        // Seven of them among a thousand: nothing is certain of the last seven.
        let many = waits(&[(10, 993)], 10);
        let seven = vec![cut_off(&[], 500); 7];
        let pooled = WaitNs::pooled(seven.iter().chain([&many])).unwrap();
        assert_eq!((pooled.p99, pooled.p999, pooled.cut_off), (10, 500, 7));
        assert!(!pooled.at_least.p99 && pooled.at_least.p999);
    }

    #[test]
    fn a_short_wait_that_was_cut_off_may_have_become_a_long_one() {
        // The median of three is that of the two that ended, or more.
        let short = cut_off(&[(1_000, 1), (2_000, 1)], 3);
        let max_ns = 2_000;
        let pooled = WaitNs::pooled([&Waits { max_ns, ..short }]).unwrap();
        assert!(pooled.at_least.p50 && !pooled.at_least.max);
        // Among a million that is nothing.
        let many = Waits {
            cut_off_ns: Some(3),
            ..waits(&[(1_000, 1_000_000)], 1_000)
        };
        assert_eq!(bounds(WaitNs::pooled([&many]).unwrap()), [false; 4]);
    }

    #[test]
    fn percentiles_are_of_all_vcpus_together() {
        // 990 waits of 10 ns, 9 of 20 ns and one of 30 ns; small values have a bucket each.
        let one = waits(&[(10, 490), (20, 9)], 20);
        let two = waits(&[(10, 500), (30, 1)], 30);
        assert_eq!(WaitNs::pooled([&one, &two]), exactly([10, 10, 20, 30]));
    }

    #[test]
    fn ranks_are_rounded_up() {
        // The 99th percentile of three is the third.
        let three = waits(&[(1, 1), (2, 1), (3, 1)], 3);
        assert_eq!(WaitNs::pooled([&three]), exactly([2, 3, 3, 3]));
    }

    #[test]
    fn no_percentile_exceeds_the_longest_wait() {
        let one = waits(&[(1_000_000, 1)], 1_000_000);
        let pooled = WaitNs::pooled([&one]).unwrap();
        assert_eq!((pooled.p50, pooled.max), (1_000_000, 1_000_000));
    }

    #[test]
    fn clocks_of_different_speed_are_brought_together() {
        let slow = Waits {
            khz: 500_000,
            ..waits(&[(10, 1)], 20)
        };
        assert_eq!(WaitNs::pooled([&slow]).unwrap().p50, 20);
    }
}
