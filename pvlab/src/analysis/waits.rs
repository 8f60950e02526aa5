//! Waiting times of many vCPUs and rounds taken together.

use crate::record::Waits;
use serde::Serialize;
use std::collections::BTreeMap;

/// Percentiles of waiting times, ns. Each is at most 6.25 % too high (the width of a bucket of
/// [`guest::hist`]) and never too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WaitNs {
    /// Half of the acquisitions waited no longer.
    pub p50: u64,
    /// 99 % waited no longer.
    pub p99: u64,
    /// 99.9 % waited no longer.
    pub p999: u64,
    /// The longest wait, those included that were still going on at the end.
    pub max: u64,
}

impl WaitNs {
    /// The percentiles of all `waits` together; `None` if nothing was timed.
    pub fn pooled<'a>(waits: impl IntoIterator<Item = &'a Waits>) -> Option<Self> {
        let mut counts = BTreeMap::<u64, u64>::new();
        let mut max = 0;
        for waits in waits {
            max = max.max(waits.max_ns);
            for (ns, count) in waits.in_ns() {
                *counts.entry(ns).or_default() += count;
            }
        }
        if counts.is_empty() && max > 0 {
            // No wait has ended: the longest is all that is known of them.
            counts.insert(max, 1);
        }
        let total: u64 = counts.values().sum();
        // The bound of a bucket can lie above the longest wait that fell into it.
        let percentile = |per_mille: u64| Some(value_at(&counts, total, per_mille)?.min(max));
        Some(Self {
            p50: percentile(500)?,
            p99: percentile(990)?,
            p999: percentile(999)?,
            max,
        })
    }
}

/// The least value that at least `per_mille` of the counted ones do not exceed.
fn value_at(counts: &BTreeMap<u64, u64>, total: u64, per_mille: u64) -> Option<u64> {
    let wanted = (u128::from(total) * u128::from(per_mille))
        .div_ceil(1000)
        .max(1);
    let mut seen = 0;
    for (&value, &count) in counts {
        seen += u128::from(count);
        if seen >= wanted {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use guest::hist::bucket_of;

    /// Waits on a clock of 1 GHz, whose ticks are nanoseconds.
    fn waits(values: &[(u64, u64)], max_ns: u64) -> Waits {
        let buckets = values
            .iter()
            .map(|&(v, n)| (u16::try_from(bucket_of(v)).unwrap(), n))
            .collect();
        Waits {
            buckets,
            khz: 1_000_000,
            max_ns,
        }
    }

    #[test]
    fn nothing_timed_has_no_percentiles() {
        assert_eq!(WaitNs::pooled([]), None);
        assert_eq!(WaitNs::pooled([&Waits::default()]), None);
    }

    #[test]
    fn a_wait_that_has_not_ended_counts_where_none_has() {
        let starved = WaitNs::pooled([&waits(&[], 5_000)]).unwrap();
        assert_eq!((starved.p50, starved.max), (5_000, 5_000));
    }

    #[test]
    fn percentiles_are_of_all_vcpus_together() {
        // 990 waits of 10 ns, 9 of 20 ns and one of 30 ns; small values have a bucket each.
        let one = waits(&[(10, 490), (20, 9)], 20);
        let two = waits(&[(10, 500), (30, 1)], 30);
        assert_eq!(
            WaitNs::pooled([&one, &two]),
            Some(WaitNs {
                p50: 10,
                p99: 10,
                p999: 20,
                max: 30
            })
        );
    }

    #[test]
    fn ranks_are_rounded_up() {
        // The 99th percentile of three is the third.
        let three = waits(&[(1, 1), (2, 1), (3, 1)], 3);
        assert_eq!(
            WaitNs::pooled([&three]),
            Some(WaitNs {
                p50: 2,
                p99: 3,
                p999: 3,
                max: 3
            })
        );
    }

    #[test]
    fn no_percentile_exceeds_the_longest_wait() {
        let one = waits(&[(1_000_000, 1)], 1_000_000);
        let pooled = WaitNs::pooled([&one]).unwrap();
        assert_eq!((pooled.p50, pooled.max), (1_000_000, 1_000_000));
        // A wait that has not ended is in no bucket.
        let going_on = waits(&[(8, 1)], 5_000_000_000);
        assert_eq!(WaitNs::pooled([&going_on]).unwrap().p999, 8);
        assert_eq!(WaitNs::pooled([&going_on]).unwrap().max, 5_000_000_000);
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
