//! Times, and lengths of work.

use super::error::usage;
use crate::scenario::{Length, MachineKind, Spread, WorkTime, whole, whole_ns};
use humantime::format_duration as human;
use std::time::Duration;

/// What the clock of the control thread goes by.
const TICK: Duration = Duration::from_millis(1);
/// Longest duration of what is measured.
const HOUR: Duration = Duration::from_secs(3600);
/// Longest duration of what is left to itself, over a night or a holiday.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is wrong with a time, or with times beside each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeUsage {
    #[error("'{0}' has no unit; write for example {0}ns, {0}us, {0}ms, {0}s or {0}min")]
    NoUnit(String),
    #[error("'{0}' is no duration; write for example 130ns, 1.5ms, 2s or 1min")]
    NoDuration(String),
    #[error("must be longer than zero; write for example 2s")]
    Zero,
    #[error("'{0}' is no distribution; write TIME, or TIME:exp for exponentially distributed work")]
    NoSpread(String),
    #[error("'{0}' is more than an hour; a shorter run says as much")]
    TooLong(String),
    #[error("'{0}' is more than 30 days")]
    FarTooLong(String),
    #[error("'{0}' is shorter than the least interval of 1ms")]
    IntervalTooShort(String),
    /// No interval would ever end.
    #[error(
        "--stat-interval {} is longer than the measurement of {}; shorten it or leave it out",
        human(*.interval), human(*.duration)
    )]
    IntervalTooLong {
        interval: Duration,
        duration: Duration,
    },
    /// The watchdog would bark at a single acquisition.
    #[error(
        "--watchdog {} is shorter than one turn of critical section and outside work ({}); \
         make it longer", human(*.watchdog), human(*.turn)
    )]
    ImpatientWatchdog { watchdog: Duration, turn: Duration },
    #[error(
        "{option} {}: {}", human(*.time), if *.simulated {
            "the time of a simulated machine goes by whole milliseconds; give a multiple of 1ms"
        } else {
            "the shortest time that can be kept is 1ms"
        }
    )]
    FinerThanTicks {
        option: &'static str,
        time: Duration,
        simulated: bool,
    },
}

usage!(TimeUsage);

/// A duration with a unit; plain `0` needs none.
pub(crate) fn duration(text: &str) -> Result<Duration, TimeUsage> {
    duration_up_to(text, HOUR, TimeUsage::TooLong)
}

/// The same of something that may go on for days.
pub(crate) fn long_duration(text: &str) -> Result<Duration, TimeUsage> {
    duration_up_to(text, MONTH, TimeUsage::FarTooLong)
}

fn duration_up_to(
    text: &str,
    most: Duration,
    too_long: fn(String) -> TimeUsage,
) -> Result<Duration, TimeUsage> {
    let time = text.trim();
    if time == "0" {
        return Ok(Duration::ZERO);
    }
    if time.parse::<f64>().is_ok_and(|number| number >= 0.0) {
        return Err(TimeUsage::NoUnit(time.to_owned()));
    }
    match humantime::parse_duration(time) {
        Ok(duration) if duration <= most => Ok(duration),
        Ok(_) => Err(too_long(text.to_owned())),
        Err(_) => Err(TimeUsage::NoDuration(text.to_owned())),
    }
}

/// A length of work: a duration, of which fractions of a nanosecond count.
pub(crate) fn work_time(text: &str) -> Result<WorkTime, TimeUsage> {
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
        return Err(TimeUsage::TooLong(text.to_owned()));
    }
    Ok(WorkTime::from_ps(whole(ps)))
}

/// The work between two critical sections as it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutsideArg {
    pub(crate) mean: WorkTime,
    pub(crate) spread: Spread,
}

/// A length of work, or the mean of one that is random, such as `130ns:exp`.
pub(crate) fn outside(text: &str) -> Result<OutsideArg, TimeUsage> {
    let (time, spread) = match text.split_once(':') {
        None => (text, Spread::Fixed),
        Some((time, "exp")) => (time, Spread::Exp),
        Some((_, name)) => return Err(TimeUsage::NoSpread(name.to_owned())),
    };
    let mean = work_time(time)?;
    Ok(OutsideArg { mean, spread })
}

pub(crate) fn nonzero_duration(text: &str) -> Result<Duration, TimeUsage> {
    nonzero(duration(text)?)
}

pub(crate) fn nonzero_long_duration(text: &str) -> Result<Duration, TimeUsage> {
    nonzero(long_duration(text)?)
}

fn nonzero(duration: Duration) -> Result<Duration, TimeUsage> {
    match duration {
        Duration::ZERO => Err(TimeUsage::Zero),
        duration => Ok(duration),
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, TimeUsage> {
    at_least_a_millisecond(nonzero_duration(text)?, text)
}

/// A statistics interval of a test that may go on for days.
pub(crate) fn long_interval(text: &str) -> Result<Duration, TimeUsage> {
    at_least_a_millisecond(nonzero_long_duration(text)?, text)
}

fn at_least_a_millisecond(interval: Duration, text: &str) -> Result<Duration, TimeUsage> {
    if interval < TICK {
        return Err(TimeUsage::IntervalTooShort(text.to_owned()));
    }
    Ok(interval)
}

pub(crate) fn length(duration: Duration, iterations: Option<u64>) -> Length {
    iterations.map_or(Length::Duration(duration), Length::Iterations)
}

/// Whether that time, which `option` gives, can be kept: the clock of the control thread, and so a simulated
/// machine's, goes by milliseconds.
pub(crate) fn check_time(
    option: &'static str,
    time: Duration,
    machine: MachineKind,
) -> Result<(), TimeUsage> {
    let simulated = machine.is_simulated();
    let whole = time.subsec_nanos().is_multiple_of(TICK.subsec_nanos());
    if (!time.is_zero() && time < TICK) || (simulated && !whole) {
        return Err(TimeUsage::FinerThanTicks {
            option,
            time,
            simulated,
        });
    }
    Ok(())
}
