//! A histogram that one vCPU fills without ever stopping: powers of two, each in 16 equal parts.
//!
//! A value below 16 has a bucket of its own; above, a bucket is at most 1/16 as wide as its lower
//! bound, so a percentile read from it is at most 6.25 % too high.

use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SUB_BITS: u32 = 4;
const SUB: usize = 1 << SUB_BITS;

/// Number of buckets: 16 for the values below 16, and 16 for each of the 60 powers of two above.
pub const BUCKETS: usize = SUB + (64 - SUB_BITS as usize) * SUB;

/// The histogram.
#[derive(Debug)]
#[repr(C)]
pub struct Hist {
    buckets: [AtomicU64; BUCKETS],
}

/// The bucket for `value`.
#[inline(always)]
pub const fn bucket_of(value: u64) -> usize {
    let power = (value | SUB as u64).ilog2();
    let shift = power - SUB_BITS;
    // For values below 16 the shift is 0 and this is the value itself.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than 2^5 after the shift"
    )]
    let leading = (value >> shift) as usize;
    shift as usize * SUB + leading
}

/// The values that fall into `bucket`.
///
/// # Panics
/// If there is no such bucket.
pub const fn bucket_values(bucket: usize) -> RangeInclusive<u64> {
    assert!(bucket < BUCKETS);
    if bucket < 2 * SUB {
        return bucket as u64..=bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let low = ((bucket % SUB + SUB) as u64) << shift;
    low..=low + ((1u64 << shift) - 1)
}

impl Hist {
    /// Counts `value`. Only one thread may.
    #[inline(always)]
    pub fn record(&self, value: u64) {
        let bucket = &self.buckets[bucket_of(value)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
    }

    /// Begins anew. Only that thread may.
    pub fn clear(&self) {
        self.buckets.iter().for_each(|n| n.store(0, Relaxed));
    }

    /// Becomes what `other` is. Only one thread may write either.
    pub fn copy(&self, other: &Self) {
        for (to, from) in self.buckets.iter().zip(&other.buckets) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers_in_order() {
        let mut next = Some(0);
        for bucket in 0..BUCKETS {
            let values = bucket_values(bucket);
            assert_eq!(Some(*values.start()), next, "bucket {bucket}");
            assert_eq!(bucket_of(*values.start()), bucket);
            assert_eq!(bucket_of(*values.end()), bucket);
            next = values.end().checked_add(1);
        }
        assert_eq!(next, None, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn buckets_are_at_most_a_sixteenth_wide() {
        for bucket in SUB..BUCKETS {
            let values = bucket_values(bucket);
            assert!(
                (values.end() - values.start() + 1) * 16 <= *values.start(),
                "bucket {bucket}"
            );
        }
    }
}
