//! Counts that a guest shows, and cannot have counted.
//!
//! Whoever adds up what is checked here need not fear that it overflows: there are fewer than 2^14 vCPUs and
//! 2^17 locks, and fewer than 2^18 tasks find room in memory.

use super::{RegionError, Result};

/// As many as a vCPU can count: at one every 10 ns it takes 130 days.
const MOST: u64 = 1 << 50;
/// As often as a task can do something, or a lock be taken: at one every 100 ns it takes 81 days.
const MOST_OF_MANY: u64 = 1 << 46;
/// Longest time that a vCPU can have been held off its CPU, ns: two years.
const LONGEST_NS: u64 = 1 << 56;

/// `counts` of vCPU `vcpu`, if each can be; `what` they are.
pub(super) fn each(counts: Vec<u64>, vcpu: usize, what: &'static str) -> Result<Vec<u64>> {
    match counts.iter().find(|&&count| count > MOST) {
        Some(&value) => Err(RegionError::Count { vcpu, what, value }),
        None => Ok(counts),
    }
}

/// `ns` that vCPU `vcpu` was held off its CPU, if it can have been.
pub(super) fn time(ns: u64, vcpu: usize) -> Result<u64> {
    let what = "steal time";
    if ns > LONGEST_NS {
        let value = ns;
        return Err(RegionError::Count { vcpu, what, value });
    }
    Ok(ns)
}

/// `counts` of vCPU `vcpu`, if all together can be; `what` they are.
pub(super) fn all(counts: Vec<u64>, vcpu: usize, what: &'static str) -> Result<Vec<u64>> {
    let sum = counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
    if sum > MOST {
        let value = sum;
        return Err(RegionError::Count { vcpu, what, value });
    }
    Ok(counts)
}

/// `count` of a task of vCPU `vcpu`, if it can be.
pub(super) fn task(count: u64, vcpu: usize) -> Result<u64> {
    let what = "operations of a task";
    if count > MOST_OF_MANY {
        let value = count;
        return Err(RegionError::Count { vcpu, what, value });
    }
    Ok(count)
}

/// `entries` of lock number `lock`, if there can be so many.
pub(super) fn entries(entries: u64, lock: usize) -> Result<u64> {
    if entries > MOST_OF_MANY {
        let value = entries;
        return Err(RegionError::Entries { lock, value });
    }
    Ok(entries)
}
