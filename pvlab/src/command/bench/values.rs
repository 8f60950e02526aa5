//! Values of the options of `pvlab bench`, as users write them.

use super::plan::{Load, Ratio};
use crate::options::{NumberUsage, TimeUsage, count, reads_to_writes, work_time};
use crate::scenario::limits::{MOST_ITERATIONS, MOST_PAUSES};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BenchValue {
    #[error("'{0}' is no ratio of reads to writes; write for example 0:1, 1:1 or 10:1")]
    NoRatio(String),
    #[error("0:0 is neither reads nor writes; write for example 4:1")]
    NothingToDo,
    #[error("'{0}' is no load; write a number of pauses such as 10, or a time such as 100ns")]
    NoLoad(String),
    #[error("{0} pauses is too long a load; give at most {MOST_PAUSES}, or a time such as 1ms")]
    LoadTooLong(String),
    #[error(transparent)]
    Time(TimeUsage),
}

/// Reads to writes, such as `10:1`.
pub(crate) fn ratio(text: &str) -> Result<Ratio, BenchValue> {
    match reads_to_writes(text) {
        None => Err(BenchValue::NoRatio(text.to_owned())),
        Some((0, 0)) => Err(BenchValue::NothingToDo),
        Some((reads, writes)) => Ok(Ratio::new(reads, writes)),
    }
}

/// Pauses, such as `10`, or a time, such as `100ns`.
pub(crate) fn load(text: &str) -> Result<Load, BenchValue> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return work_time(text).map(Load::Ns).map_err(|error| match error {
            TimeUsage::NoDuration(text) => BenchValue::NoLoad(text),
            other => BenchValue::Time(other),
        });
    }
    let pauses = text.parse::<u64>().ok();
    let few = pauses
        .filter(|pauses| *pauses <= MOST_PAUSES)
        .map(Load::Pauses);
    few.ok_or_else(|| BenchValue::LoadTooLong(text.to_owned()))
}

/// A number of threads; how many there can be depends on the machine, so that is checked later.
pub(crate) fn threads(text: &str) -> Result<usize, NumberUsage> {
    count(text, 1, 1 << 20)
}

pub(crate) fn operations(text: &str) -> Result<u64, NumberUsage> {
    count(text, 1, MOST_ITERATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::WorkTime;

    #[test]
    fn ratios_are_two_numbers_and_not_both_zero() {
        let of = |reads, writes| Ok(Ratio::new(reads, writes));
        assert_eq!((ratio("0:1"), ratio("10:1")), (of(0, 1), of(10, 1)));
        assert_eq!(ratio("0:0"), Err(BenchValue::NothingToDo));
        for bad in " 1 1: :1 1:1:1 -1:1 a:b 0.5:1 4294967296:1".split(' ') {
            let refused = matches!(ratio(bad), Err(BenchValue::NoRatio { .. }));
            assert!(refused, "{bad}");
        }
    }

    #[test]
    fn loads_are_pauses_unless_they_have_a_unit() {
        assert_eq!(["0", "10"].map(load), [0, 10].map(|n| Ok(Load::Pauses(n))));
        let times = [100, 1500].map(|ns| Ok(Load::Ns(WorkTime::from_ns(ns))));
        assert_eq!(["100ns", "1.5us"].map(load), times);
        for bad in ["1000001", "18446744073709551616", "99999999999999999999999"] {
            let long = matches!(load(bad), Err(BenchValue::LoadTooLong { .. }));
            assert!(long, "{bad}: {:?}", load(bad));
        }
        for bad in ["", "-1", "1.5", "x", "5 parsecs"] {
            assert!(load(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        assert_eq!((threads("1"), threads("1000")), (Ok(1), Ok(1000)));
        assert_eq!(threads("0"), Err(NumberUsage::Zero));
        assert!(threads("1048577").is_err() && threads("-1").is_err() && threads("").is_err());
        assert_eq!(operations("1000000"), Ok(1_000_000));
        assert_eq!(operations("0"), Err(NumberUsage::Zero));
        assert!(operations("1000000000001").is_err());
    }
}
