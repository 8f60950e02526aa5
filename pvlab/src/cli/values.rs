//! Values of options, as users write them.

use crate::host::parse_cpu_list;
use crate::scenario::limits::{MOST_LOCKS, MOST_NODES, MOST_NOISE, MOST_SKEW};
use crate::scenario::{
    Preempt, SIM_PREFIX, Spread, UnknownLock, Whom, WorkTime, split_dispatch, whole_ns,
};
use clap::builder::{PossibleValue, TypedValueParser};
use guest::abi::Dispatch;
use guest::workload::nested::MAX_CONTEXTS;
use guest::workload::torture::MOST_NESTED;
use pvlock::LockKind;
use sim::Rule;
use std::fmt;
use std::time::Duration;

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("unknown lock '{name}'{} ('pvlab locks' lists all)", suggestion(.name))]
    UnknownLock { name: String },
    #[error("'{name}' is no way to call a lock; write LOCK:direct, LOCK:pointer or LOCK:patched")]
    UnknownDispatch { name: String },
    #[error(
        "'{text}' has no unit; write for example {text}ns, {text}us, {text}ms, {text}s or {text}min"
    )]
    NoUnit { text: String },
    #[error("'{text}' is no duration; write for example 130ns, 1.5ms, 2s or 1min")]
    NoDuration { text: String },
    #[error("must be longer than zero; write for example 2s")]
    ZeroDuration,
    #[error(
        "'{name}' is no distribution; write TIME, or TIME:exp for exponentially distributed work"
    )]
    NoSpread { name: String },
    #[error("'{text}' is more than an hour; a shorter run says as much")]
    TooLong { text: String },
    #[error("'{text}' is more than 30 days")]
    FarTooLong { text: String },
    #[error("there is nothing between two commas, or after the last one; write for example A,B")]
    NoElement,
    #[error("'{text}' is shorter than the least interval of 1ms")]
    IntervalTooShort { text: String },
    #[error("'{text}' is no machine; write kvm, threads or sim:NAME ('pvlab machines' lists them)")]
    NoMachine { text: String },
    #[error(
        "'{text}' is no list of CPUs; write for example 0-1, 0,2,4-7, or 0-15:2 for every second one"
    )]
    NoCpuList { text: String },
    #[error(
        "'{text}' is no placement; write pinned, floating, or one CPU for each vCPU such as 0,0,1,1"
    )]
    NoPlacement { text: String },
    #[error("'{text}' is no guest; write lock=NAME,vcpus=N such as lock=pv-qspinlock,vcpus=4")]
    NoVm { text: String },
    #[error(
        "'{text}' is no preemption; write holder:TIME@SHARE or next-waiter:TIME@SHARE, such as holder:5ms@1%"
    )]
    NoPreempt { text: String },
    #[error("'{text}' is no schedule; write VCPU:NUMBER:TIME, such as 0:5:2ms")]
    NoSchedule { text: String },
    #[error("{text} is too long to hold a vCPU off its CPU; give at most 4s")]
    TooLongPreempt { text: String },
    #[error("a ring of {number} events is too small to trace into; give at least {least}")]
    RingTooSmall { number: u64, least: u64 },
    #[error("'{text}' is no whole number")]
    NoNumber { text: String },
    #[error("0 makes no sense here; give at least 1")]
    Zero,
    #[error("{number} is too many; give at most {most}")]
    TooMany { number: u64, most: u64 },
    #[error("'{text}' is no share; write a percentage from 0% to 1000%, such as 1%")]
    NoShare { text: String },
    #[error(
        "'{text}' is no share of reads; write a percentage such as 80%, or reads to writes such as 4:1"
    )]
    NoReads { text: String },
    #[error("'{text}' is no ratio of reads to writes; write for example 0:1, 1:1 or 10:1")]
    NoRatio { text: String },
    #[error("'{text}' is no load; write a number of pauses such as 10, or a time such as 100ns")]
    NoLoad { text: String },
    #[error("{text} pauses is too long a load; give at most {most}, or a time such as 1ms")]
    LoadTooLong { text: String, most: u64 },
    #[error("0:0 is neither reads nor writes; write for example 4:1")]
    NothingToDo,
    #[error("'{text}' is no exponent from 0 to {most}; write for example 1")]
    NoSkew { text: String, most: String },
    #[error(
        "a vCPU has 1 to {most} contexts: a task, a soft interrupt, an interrupt and an NMI use the \
         four queue nodes of a CPU, and a fifth shows what a lock does without; '{text}' is none of these"
    )]
    NoContexts { text: String, most: u32 },
}

/// Preemption on demand, such as `holder:5ms@1%`.
pub(super) fn preempt(text: &str) -> Result<Preempt, ValueError> {
    let wrong = || ValueError::NoPreempt {
        text: text.to_owned(),
    };
    let (whom, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (time, share) = rest.split_once('@').ok_or_else(wrong)?;
    let whom = match whom {
        "holder" => Whom::Holder,
        "next-waiter" => Whom::NextWaiter,
        _ => return Err(wrong()),
    };
    let ns = nonzero_duration(time)?.as_nanos();
    let ns = u32::try_from(ns).map_err(|_| ValueError::TooLongPreempt {
        text: time.to_owned(),
    })?;
    let share = self::share(share)?;
    if share > 1.0 {
        return Err(wrong());
    }
    Ok(Preempt { whom, ns, share })
}

/// A vCPU, a number counted from 1, and a time in ns, such as `0:5:2ms`.
fn moment(text: &str) -> Result<(u32, u64, u64), ValueError> {
    let wrong = || ValueError::NoSchedule {
        text: text.to_owned(),
    };
    let (vcpu, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (number, time) = rest.split_once(':').ok_or_else(wrong)?;
    let vcpu = vcpu.parse().map_err(|_| wrong())?;
    let number = number.parse().map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    Ok((vcpu, number, whole_ns(nonzero_duration(time)?)))
}

/// A critical section in which its holder is to be descheduled.
pub(super) fn deschedule(text: &str) -> Result<Rule, ValueError> {
    moment(text).map(|(vcpu, section, ns)| Rule::DescheduleHolder { vcpu, section, ns })
}

/// A wake-up that is to take longer.
pub(super) fn delay_wake(text: &str) -> Result<Rule, ValueError> {
    moment(text).map(|(vcpu, wake, ns)| Rule::DelayWake { vcpu, wake, ns })
}

/// A number of trace records, as a power of two.
pub(super) fn ring(text: &str) -> Result<usize, ValueError> {
    const LEAST: u64 = 1024;
    const MOST: u64 = 1 << 26;
    match whole(text)? {
        n if n < LEAST => Err(ValueError::RingTooSmall {
            number: n,
            least: LEAST,
        }),
        n if n > MOST => Err(ValueError::TooMany {
            number: n,
            most: MOST,
        }),
        n => Ok(usize::try_from(n.next_power_of_two()).unwrap_or(usize::MAX)),
    }
}

/// A list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(pub(super) Vec<usize>);

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlacementArg {
    Pinned,
    Floating,
    Map(Vec<usize>),
}

fn suggestion(name: &str) -> String {
    let closest = LockKind::ALL
        .iter()
        .filter(|lock| !lock.traits().control)
        .map(|lock| {
            (
                strsim::jaro_winkler(&name.to_lowercase(), lock.name()),
                lock.name(),
            )
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match closest {
        Some((likeness, name)) if likeness > 0.7 => format!("; did you mean '{name}'?"),
        _ => String::new(),
    }
}

/// A lock as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockArg {
    /// `None`: `auto`, the guest's kernel chooses.
    pub(super) kind: Option<LockKind>,
    /// How it is called.
    pub(super) dispatch: Dispatch,
}

/// The name of no lock, but of a choice.
const AUTO: &str = "auto";

impl fmt::Display for LockArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.map_or(AUTO, LockKind::name))?;
        match self.dispatch {
            Dispatch::Direct => Ok(()),
            other => write!(f, ":{}", other.name()),
        }
    }
}

pub(super) fn lock(text: &str) -> Result<LockArg, ValueError> {
    let (name, dispatch) = split_dispatch(text.trim()).map_err(|unknown| match unknown {
        UnknownLock::Kind(name) => ValueError::UnknownLock { name },
        UnknownLock::Dispatch(name) => ValueError::UnknownDispatch { name },
    })?;
    let kind = match LockKind::from_name(name) {
        None if name == AUTO => None,
        None => {
            let name = name.to_owned();
            return Err(ValueError::UnknownLock { name });
        }
        kind => kind,
    };
    Ok(LockArg { kind, dispatch })
}

/// [`lock`] for the argument parser, with the names for shell completion.
#[derive(Clone)]
pub(super) struct LockParser;

impl TypedValueParser for LockParser {
    type Value = LockArg;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<LockArg, clap::Error> {
        lock.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let auto = PossibleValue::new(AUTO).help("what a guest's kernel would choose");
        let locks = LockKind::ALL.iter().map(|lock| {
            PossibleValue::new(lock.name())
                .help(lock.summary())
                .hide(lock.traits().control)
        });
        Some(Box::new(locks.chain([auto])))
    }
}

/// A parser of each element of a list. Blanks around elements do not count, and no element may be missing.
#[derive(Clone)]
pub(super) struct Each<P>(pub(super) P);

impl<P> TypedValueParser for Each<P>
where
    P: TypedValueParser,
{
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<P::Value, clap::Error> {
        match value.to_str().map(str::trim) {
            Some("") => {
                let missing = |_: &str| Err::<P::Value, _>(ValueError::NoElement);
                missing.parse_ref(command, argument, value)
            }
            Some(element) => self.0.parse_ref(command, argument, element.as_ref()),
            None => self.0.parse_ref(command, argument, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// Where vCPUs are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MachineArg {
    Kvm,
    Threads,
    /// The simulated machine of that name.
    Simulated(String),
}

fn machine(text: &str) -> Result<MachineArg, ValueError> {
    match (text, text.strip_prefix(SIM_PREFIX)) {
        ("kvm", _) => Ok(MachineArg::Kvm),
        ("threads", _) => Ok(MachineArg::Threads),
        (_, Some(name)) => Ok(MachineArg::Simulated(name.to_owned())),
        (_, None) => Err(ValueError::NoMachine {
            text: text.to_owned(),
        }),
    }
}

/// Parses a machine, and knows those that there are, for help and completions.
#[derive(Clone, Copy)]
pub(super) struct MachineParser;

impl TypedValueParser for MachineParser {
    type Value = MachineArg;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<MachineArg, clap::Error> {
        machine.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let real = ["kvm", "threads"].map(PossibleValue::new);
        let simulated = crate::machine::presets().map(|name| format!("{SIM_PREFIX}{name}"));
        Some(Box::new(
            real.into_iter().chain(simulated.map(PossibleValue::new)),
        ))
    }
}

/// Longest duration of what is measured.
const HOUR: Duration = Duration::from_secs(3600);
/// Longest duration of what is left to itself, over a night or a holiday.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// A duration with a unit; plain `0` needs none.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    duration_up_to(text, HOUR)
}

/// The same of something that may go on for days.
pub(super) fn long_duration(text: &str) -> Result<Duration, ValueError> {
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
pub(super) fn work_time(text: &str) -> Result<WorkTime, ValueError> {
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
pub(super) struct OutsideArg {
    pub(super) mean: WorkTime,
    pub(super) spread: Spread,
}

/// A length of work, or the mean of one that is random, such as `130ns:exp`.
pub(super) fn outside(text: &str) -> Result<OutsideArg, ValueError> {
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

pub(super) fn nonzero_duration(text: &str) -> Result<Duration, ValueError> {
    nonzero(duration(text)?)
}

pub(super) fn nonzero_long_duration(text: &str) -> Result<Duration, ValueError> {
    nonzero(long_duration(text)?)
}

fn nonzero(duration: Duration) -> Result<Duration, ValueError> {
    match duration {
        Duration::ZERO => Err(ValueError::ZeroDuration),
        duration => Ok(duration),
    }
}

pub(super) fn interval(text: &str) -> Result<Duration, ValueError> {
    at_least_a_millisecond(nonzero_duration(text)?, text)
}

/// A statistics interval of a test that may go on for days.
pub(super) fn long_interval(text: &str) -> Result<Duration, ValueError> {
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

pub(super) fn cpu_list(text: &str) -> Result<CpuList, ValueError> {
    parse_cpu_list(text)
        .map(CpuList)
        .ok_or_else(|| ValueError::NoCpuList {
            text: text.to_owned(),
        })
}

pub(super) fn placement(text: &str) -> Result<PlacementArg, ValueError> {
    match text.trim() {
        "pinned" => Ok(PlacementArg::Pinned),
        "floating" => Ok(PlacementArg::Floating),
        list => {
            parse_cpu_list(list)
                .map(PlacementArg::Map)
                .ok_or_else(|| ValueError::NoPlacement {
                    text: text.to_owned(),
                })
        }
    }
}

pub(super) fn whole(text: &str) -> Result<u64, ValueError> {
    text.trim().parse().map_err(|_| ValueError::NoNumber {
        text: text.to_owned(),
    })
}

pub(super) fn positive(text: &str) -> Result<u64, ValueError> {
    match whole(text)? {
        0 => Err(ValueError::Zero),
        number => Ok(number),
    }
}

/// Threads of one role under torture.
pub(super) fn threads(text: &str) -> Result<usize, ValueError> {
    count(text, 0, 1 << 20)
}

pub(super) fn nested_locks(text: &str) -> Result<usize, ValueError> {
    count(text, 0, MOST_NESTED as u64)
}

/// A number of things from `least` to `most`.
pub(super) fn count(text: &str, least: u64, most: u64) -> Result<usize, ValueError> {
    let number = if least > 0 {
        positive(text)?
    } else {
        whole(text)?
    };
    usize::try_from(number)
        .ok()
        .filter(|_| number <= most)
        .ok_or(ValueError::TooMany { number, most })
}

/// vCPUs; how many a VM can have depends on the machine, so that is checked later.
pub(super) fn vcpus(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1 << 20)
}

pub(super) fn noise(text: &str) -> Result<usize, ValueError> {
    count(text, 0, MOST_NOISE as u64)
}

pub(super) fn lock_count(text: &str) -> Result<usize, ValueError> {
    count(text, 1, MOST_LOCKS as u64)
}

pub(super) fn jobs(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1024)
}

pub(super) fn rounds(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1000)
}

pub(super) fn spin_threshold(text: &str) -> Result<u32, ValueError> {
    let number = positive(text)?;
    let most = u32::MAX;
    u32::try_from(number).map_err(|_| ValueError::TooMany {
        number,
        most: most.into(),
    })
}

/// A share, given as a percentage.
pub(super) fn share(text: &str) -> Result<f64, ValueError> {
    text.trim()
        .strip_suffix('%')
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| ValueError::NoShare {
            text: text.to_owned(),
        })
}

/// A guest as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VmArg {
    pub(super) lock: LockArg,
    pub(super) vcpus: usize,
}

/// A share of reads, as a percentage or as a ratio of reads to writes.
pub(super) fn reads(text: &str) -> Result<f64, ValueError> {
    let wrong = || ValueError::NoReads {
        text: text.to_owned(),
    };
    let Some((reads, writes)) = text.split_once(':') else {
        return share(text).ok().filter(|s| *s <= 1.0).ok_or_else(wrong);
    };
    let number = |part: &str| part.trim().parse::<u32>().map_err(|_| wrong());
    match (number(reads)?, number(writes)?) {
        (0, 0) => Err(ValueError::NothingToDo),
        (reads, writes) => Ok(f64::from(reads) / (f64::from(reads) + f64::from(writes))),
    }
}

/// The exponent of a Zipf distribution.
pub(super) fn skew(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().parse::<f64>().ok();
    number
        .filter(|skew| (0.0..=MOST_SKEW).contains(skew))
        .ok_or_else(|| ValueError::NoSkew {
            text: text.to_owned(),
            most: MOST_SKEW.to_string(),
        })
}

pub(super) fn contexts(text: &str) -> Result<u32, ValueError> {
    let most = MAX_CONTEXTS;
    let number = text.trim().parse::<u32>().ok();
    number
        .filter(|contexts| (1..=most).contains(contexts))
        .ok_or_else(|| ValueError::NoContexts {
            text: text.to_owned(),
            most,
        })
}

pub(super) fn numa_nodes(text: &str) -> Result<u32, ValueError> {
    let number = positive(text)?;
    let most = MOST_NODES;
    u32::try_from(number)
        .ok()
        .filter(|nodes| *nodes <= most)
        .ok_or(ValueError::TooMany {
            number,
            most: most.into(),
        })
}

/// `lock=NAME,vcpus=N`, in either order.
pub(super) fn vm(text: &str) -> Result<VmArg, ValueError> {
    let malformed = || ValueError::NoVm {
        text: text.to_owned(),
    };
    let (mut lock_kind, mut count) = (None, None);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(malformed)?;
        match (key.trim(), value.trim()) {
            ("lock", name) if lock_kind.is_none() => lock_kind = Some(lock(name)?),
            ("vcpus", number) if count.is_none() => count = Some(vcpus(number)?),
            _ => return Err(malformed()),
        }
    }
    Ok(VmArg {
        lock: lock_kind.ok_or_else(malformed)?,
        vcpus: count.ok_or_else(malformed)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_need_a_unit_unless_they_are_zero() {
        assert_eq!(duration("130ns"), Ok(Duration::from_nanos(130)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("5"), Err(ValueError::NoUnit { text: "5".into() }));
        assert_eq!(
            duration("0.5"),
            Err(ValueError::NoUnit { text: "0.5".into() })
        );
        for bad in ["", "s", "-1s", "5 parsecs", "NaN", "inf", "1e3", "\u{b2}s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(matches!(duration("2h"), Err(ValueError::TooLong { .. })));
        assert_eq!(long_duration("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert_eq!(
            nonzero_long_duration("3d"),
            Ok(Duration::from_secs(3 * 24 * 3600))
        );
        assert_eq!(long_interval("2h"), Ok(Duration::from_secs(7200)));
        assert!(matches!(
            long_duration("31d"),
            Err(ValueError::FarTooLong { .. })
        ));
        assert_eq!(nonzero_duration("0s"), Err(ValueError::ZeroDuration));
        assert!(matches!(
            interval("1us"),
            Err(ValueError::IntervalTooShort { .. })
        ));
    }

    #[test]
    fn work_may_have_fractions_of_a_nanosecond_and_be_random() {
        for (text, ps) in [
            ("4.2ns", 4_200),
            ("130ns", 130_000),
            ("0.001ns", 1),
            ("7ps", 7),
            ("1.5 us", 1_500_000),
            ("1us 500ns", 1_500_000),
            ("0", 0),
            ("1h", 3_600_000_000_000_000),
        ] {
            assert_eq!(work_time(text), Ok(WorkTime::from_ps(ps)), "{text}");
        }
        for bad in [
            "4.2", "", "ns", "-1ns", "1.2.3ns", "1e3ns", "NaNns", "2h", "3601s",
        ] {
            assert!(work_time(bad).is_err(), "{bad}");
        }
        let random = OutsideArg {
            mean: WorkTime::from_ns(130),
            spread: Spread::Exp,
        };
        assert_eq!(outside("130ns:exp"), Ok(random));
        assert_eq!(outside("130ns").unwrap().spread, Spread::Fixed);
        assert!(matches!(
            outside("130ns:gauss"),
            Err(ValueError::NoSpread { .. })
        ));
        assert!(outside(":exp").is_err() && outside("exp").is_err());
    }

    #[test]
    fn an_unknown_lock_gets_the_closest_name() {
        let message = |name| lock(name).unwrap_err().to_string();
        assert!(message("qspinlok").contains("did you mean 'qspinlock'?"));
        assert!(message("pv-qspin").contains("did you mean 'pv-qspinlock'?"));
        assert!(message("TAS").contains("did you mean 'tas'?"));
        assert!(!message("zzz").contains("did you mean"));
        assert!(
            !message("buste").contains("busted"),
            "controls are not advertised"
        );
    }

    #[test]
    fn guests_are_read_in_either_order_and_nothing_else() {
        let spec = VmArg {
            lock: lock("ticket").unwrap(),
            vcpus: 4,
        };
        assert_eq!(vm("lock=ticket,vcpus=4"), Ok(spec));
        assert_eq!(vm("vcpus=4,lock=ticket"), Ok(spec));
        assert_eq!(vm(" lock = ticket, vcpus=4 "), Ok(spec));
        for bad in [
            "",
            "ticket",
            "lock=ticket",
            "vcpus=4",
            "lock=tas,lock=tas,vcpus=1",
            "lock=tas,vcpus=1,",
            "a=b",
        ] {
            assert!(matches!(vm(bad), Err(ValueError::NoVm { .. })), "{bad}");
        }
        assert_eq!(vm("lock=ticket,vcpus=0"), Err(ValueError::Zero));
        assert!(matches!(
            vm("lock=nope,vcpus=1"),
            Err(ValueError::UnknownLock { .. })
        ));
    }

    #[test]
    fn placements_keep_order_and_repetitions() {
        assert_eq!(
            placement("0,0,1,1"),
            Ok(PlacementArg::Map(vec![0, 0, 1, 1]))
        );
        assert_eq!(placement("pinned"), Ok(PlacementArg::Pinned));
        assert!(placement("pined").is_err());
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0%"), Ok(0.0));
        for bad in ["1", "0.01", "-1%", "%", "nan%", "inf%", "1001%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_are_a_percentage_or_a_ratio() {
        assert_eq!(reads("80%"), Ok(0.8));
        assert_eq!(reads("4:1"), Ok(0.8));
        assert_eq!((reads("0:1"), reads("1:0")), (Ok(0.0), Ok(1.0)));
        assert_eq!(reads("0:0"), Err(ValueError::NothingToDo));
        for bad in [
            "", "80", "0.8", "101%", "4", "4:", ":1", "-1:1", "4:1:1", "a:b",
        ] {
            assert!(
                matches!(reads(bad), Err(ValueError::NoReads { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        assert_eq!((skew("0"), skew("1.2")), (Ok(0.0), Ok(1.2)));
        assert!(skew("-1").is_err() && skew("NaN").is_err() && skew("11").is_err());
        assert_eq!((contexts("1"), contexts("5")), (Ok(1), Ok(5)));
        assert!(contexts("0").is_err() && contexts("6").is_err() && contexts("x").is_err());
        assert_eq!(numa_nodes("2"), Ok(2));
        assert!(numa_nodes("0").is_err() && numa_nodes("4294967297").is_err());
        assert_eq!(spin_threshold("0"), Err(ValueError::Zero));
        assert_eq!(spin_threshold("1"), Ok(1));
        assert!(spin_threshold("4294967296").is_err());
        assert_eq!(noise("0"), Ok(0));
        assert_eq!(vcpus("0"), Err(ValueError::Zero));
        assert!(vcpus("-1").is_err() && vcpus("1.5").is_err() && vcpus("").is_err());
    }
}
