//! Times, and lengths of work.

use super::ValueError;
use crate::scenario::{Spread, WorkTime, whole_ns};
use std::time::Duration;

/// Longest duration of what is measured.
const HOUR: Duration = Duration::from_secs(3600);
/// Longest duration of what is left to itself, over a night or a holiday.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// A duration with a unit; plain `0` needs none.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    duration_up_to(text, HOUR)
}

/// The same of something that may go on for days.
pub(crate) fn long_duration(text: &str) -> Result<Duration, ValueError> {
    duration_up_to(text, MONTH)
}

fn duration_up_to(text: &str, most: Duration) -> Result<Duration, ValueError> {
    let number = text.trim().parse::<f64>();
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    if number.is_ok_and(|number| number >= 0.0) {
        return Err(ValueError::NoUnit {
            text: text.trim().to_owned(),
        });
    }
    let duration = humantime::parse_duration(text.trim()).map_err(|_| ValueError::NoDuration {
        text: text.to_owned(),
    })?;
    let text = || text.to_owned();
    match duration {
        long if long > most && most > HOUR => Err(ValueError::FarTooLong { text: text() }),
        long if long > most => Err(ValueError::TooLong { text: text() }),
        duration => Ok(duration),
    }
}

/// A length of work: a duration, of which fractions of a nanosecond count.
pub(crate) fn work_time(text: &str) -> Result<WorkTime, ValueError> {
    let time = text.trim();
    let unit = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (number, unit) = (&time[..time.len() - unit.len()], unit.trim());
    let ps_of_unit = match unit {
        "ps" => Some(1.0),
        "ns" => Some(1e3),
        "us" | "\u{b5}s" => Some(1e6),
        "ms" => Some(1e9),
        "s" => Some(1e12),
        _ => None,
    };
    let (Some(ps), Ok(number)) = (ps_of_unit, number.parse::<f64>()) else {
        return Ok(WorkTime::from_ns(whole_ns(duration(text)?)));
    };
    let ps = number * ps;
    if ps > WorkTime::MOST.ps() as f64 {
        return Err(ValueError::TooLong {
            text: text.to_owned(),
        });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to an hour"
    )]
    let ps = ps.round() as u64;
    Ok(WorkTime::from_ps(ps))
}

/// The work between two critical sections as it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutsideArg {
    pub(crate) mean: WorkTime,
    pub(crate) spread: Spread,
}

/// A length of work, or the mean of one that is random, such as `130ns:exp`.
pub(crate) fn outside(text: &str) -> Result<OutsideArg, ValueError> {
    let (time, spread) = match text.split_once(':') {
        None => (text, Spread::Fixed),
        Some((time, "exp")) => (time, Spread::Exp),
        Some((_, name)) => {
            return Err(ValueError::NoSpread {
                name: name.to_owned(),
            });
        }
    };
    let mean = work_time(time)?;
    Ok(OutsideArg { mean, spread })
}

pub(crate) fn nonzero_duration(text: &str) -> Result<Duration, ValueError> {
    nonzero(duration(text)?)
}

pub(crate) fn nonzero_long_duration(text: &str) -> Result<Duration, ValueError> {
    nonzero(long_duration(text)?)
}

fn nonzero(duration: Duration) -> Result<Duration, ValueError> {
    match duration {
        Duration::ZERO => Err(ValueError::ZeroDuration),
        duration => Ok(duration),
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, ValueError> {
    at_least_a_millisecond(nonzero_duration(text)?, text)
}

/// A statistics interval of a test that may go on for days.
pub(crate) fn long_interval(text: &str) -> Result<Duration, ValueError> {
    at_least_a_millisecond(nonzero_long_duration(text)?, text)
}

fn at_least_a_millisecond(interval: Duration, text: &str) -> Result<Duration, ValueError> {
    match interval {
        interval if interval < Duration::from_millis(1) => Err(ValueError::IntervalTooShort {
            text: text.to_owned(),
        }),
        interval => Ok(interval),
    }
}
