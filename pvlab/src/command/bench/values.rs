//! Values of the options of `pvlab bench`, as users write them.

use super::plan::{Load, Ratio};
use crate::options::values;
use crate::options::values::ValueError;
use crate::scenario::limits::{MOST_ITERATIONS, MOST_PAUSES};

/// Reads to writes, such as `10:1`.
pub(crate) fn ratio(text: &str) -> Result<Ratio, ValueError> {
    let wrong = || ValueError::NoRatio {
        text: text.to_owned(),
    };
    let (reads, writes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |part: &str| part.trim().parse::<u32>().map_err(|_| wrong());
    match (number(reads)?, number(writes)?) {
        (0, 0) => Err(ValueError::NothingToDo),
        (reads, writes) => Ok(Ratio { reads, writes }),
    }
}

/// Pauses, such as `10`, or a time, such as `100ns`.
pub(crate) fn load(text: &str) -> Result<Load, ValueError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return values::work_time(text)
            .map(Load::Ns)
            .map_err(|error| match error {
                ValueError::NoDuration { text } => ValueError::NoLoad { text },
                other => other,
            });
    }
    let most = MOST_PAUSES;
    let pauses = text.parse::<u64>().ok();
    pauses
        .filter(|pauses| *pauses <= most)
        .map(Load::Pauses)
        .ok_or_else(|| ValueError::LoadTooLong {
            text: text.to_owned(),
            most,
        })
}

/// A number of threads; how many there can be depends on the machine, so that is checked later.
pub(crate) fn threads(text: &str) -> Result<usize, ValueError> {
    values::count(text, 1, 1 << 20)
}

/// A number of operations.
pub(crate) fn operations(text: &str) -> Result<u64, ValueError> {
    let most = MOST_ITERATIONS;
    match values::positive(text)? {
        number if number > most => Err(ValueError::TooMany { number, most }),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::WorkTime;

    #[test]
    fn ratios_are_two_numbers_and_not_both_zero() {
        let of = |reads, writes| Ok(Ratio { reads, writes });
        assert_eq!((ratio("0:1"), ratio("10:1")), (of(0, 1), of(10, 1)));
        assert_eq!(ratio("0:0"), Err(ValueError::NothingToDo));
        for bad in [
            "",
            "1",
            "1:",
            ":1",
            "1:1:1",
            "-1:1",
            "a:b",
            "0.5:1",
            "4294967296:1",
        ] {
            assert!(
                matches!(ratio(bad), Err(ValueError::NoRatio { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn loads_are_pauses_unless_they_have_a_unit() {
        assert_eq!(
            (load("0"), load("10")),
            (Ok(Load::Pauses(0)), Ok(Load::Pauses(10)))
        );
        assert_eq!(
            (load("100ns"), load("1.5us")),
            (
                Ok(Load::Ns(WorkTime::from_ns(100))),
                Ok(Load::Ns(WorkTime::from_ns(1500)))
            )
        );
        for bad in ["1000001", "18446744073709551616", "99999999999999999999999"] {
            let long = matches!(load(bad), Err(ValueError::LoadTooLong { .. }));
            assert!(long, "{bad}: {:?}", load(bad));
        }
        for bad in ["", "-1", "1.5", "x", "5 parsecs"] {
            assert!(load(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        assert_eq!((threads("1"), threads("1000")), (Ok(1), Ok(1000)));
        assert_eq!(threads("0"), Err(ValueError::Zero));
        assert!(threads("1048577").is_err() && threads("-1").is_err() && threads("").is_err());
        assert_eq!(operations("1000000"), Ok(1_000_000));
        assert_eq!(operations("0"), Err(ValueError::Zero));
        assert!(operations("1000000000001").is_err());
    }
}
