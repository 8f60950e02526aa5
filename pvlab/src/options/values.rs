//! Values of options, as users write them.

mod times;

use crate::host::parse_cpu_list;
use crate::scenario::limits::{MOST_LOCKS, MOST_NODES, MOST_NOISE, MOST_SKEW};
use crate::scenario::{
    MachineKind, Preempt, SIM_PREFIX, UnknownLock, Whom, split_dispatch, whole_ns,
};
use abi::Dispatch;
use clap::builder::{PossibleValue, TypedValueParser};
use guest::workload::nested::MAX_CONTEXTS;
use guest::workload::torture::MOST_NESTED;
use pvlock::LockKind;
use sim::Rule;
use std::fmt;

pub(crate) use times::{
    OutsideArg, duration, interval, long_duration, long_interval, nonzero_duration,
    nonzero_long_duration, outside, work_time,
};

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
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
pub(crate) fn preempt(text: &str) -> Result<Preempt, ValueError> {
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
pub(crate) fn deschedule(text: &str) -> Result<Rule, ValueError> {
    moment(text).map(|(vcpu, section, ns)| Rule::DescheduleHolder { vcpu, section, ns })
}

/// A wake-up that is to take longer.
pub(crate) fn delay_wake(text: &str) -> Result<Rule, ValueError> {
    moment(text).map(|(vcpu, wake, ns)| Rule::DelayWake { vcpu, wake, ns })
}

/// A number of trace records, as a power of two.
pub(crate) fn ring(text: &str) -> Result<usize, ValueError> {
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
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementArg {
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
pub(crate) struct LockArg {
    /// `None`: `auto`, the guest's kernel chooses.
    pub(crate) kind: Option<LockKind>,
    /// How it is called.
    pub(crate) dispatch: Dispatch,
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

pub(crate) fn lock(text: &str) -> Result<LockArg, ValueError> {
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
pub(crate) struct LockParser;

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
pub(crate) struct Each<P>(pub(crate) P);

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
pub(crate) enum MachineArg {
    /// A machine that this host is.
    OfHost(MachineKind),
    /// A simulated one, by its preset.
    Simulated(String),
}

fn machine(text: &str) -> Result<MachineArg, ValueError> {
    if let Some(name) = text.strip_prefix(SIM_PREFIX) {
        return Ok(MachineArg::Simulated(name.to_owned()));
    }
    let found = MachineKind::of_the_host().find(|machine| machine.name() == text);
    found
        .map(MachineArg::OfHost)
        .ok_or_else(|| ValueError::NoMachine {
            text: text.to_owned(),
        })
}

/// Parses a machine, and knows those that there are, for help and completions.
#[derive(Clone, Copy)]
pub(crate) struct MachineParser;

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
        let real = MachineKind::of_the_host().map(|machine| PossibleValue::new(machine.name()));
        let simulated = crate::machine::presets().map(|name| format!("{SIM_PREFIX}{name}"));
        Some(Box::new(real.chain(simulated.map(PossibleValue::new))))
    }
}

pub(crate) fn cpu_list(text: &str) -> Result<CpuList, ValueError> {
    parse_cpu_list(text)
        .map(CpuList)
        .ok_or_else(|| ValueError::NoCpuList {
            text: text.to_owned(),
        })
}

pub(crate) fn placement(text: &str) -> Result<PlacementArg, ValueError> {
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

pub(crate) fn whole(text: &str) -> Result<u64, ValueError> {
    text.trim().parse().map_err(|_| ValueError::NoNumber {
        text: text.to_owned(),
    })
}

pub(crate) fn positive(text: &str) -> Result<u64, ValueError> {
    match whole(text)? {
        0 => Err(ValueError::Zero),
        number => Ok(number),
    }
}

/// Threads of one role under torture.
pub(crate) fn threads(text: &str) -> Result<usize, ValueError> {
    count(text, 0, 1 << 20)
}

pub(crate) fn nested_locks(text: &str) -> Result<usize, ValueError> {
    count(text, 0, MOST_NESTED as u64)
}

/// A number of things from `least` to `most`.
pub(crate) fn count(text: &str, least: u64, most: u64) -> Result<usize, ValueError> {
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
pub(crate) fn vcpus(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1 << 20)
}

pub(crate) fn noise(text: &str) -> Result<usize, ValueError> {
    count(text, 0, MOST_NOISE as u64)
}

pub(crate) fn lock_count(text: &str) -> Result<usize, ValueError> {
    count(text, 1, MOST_LOCKS as u64)
}

pub(crate) fn jobs(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1024)
}

pub(crate) fn rounds(text: &str) -> Result<usize, ValueError> {
    count(text, 1, 1000)
}

pub(crate) fn spin_threshold(text: &str) -> Result<u32, ValueError> {
    let number = positive(text)?;
    let most = u32::MAX;
    u32::try_from(number).map_err(|_| ValueError::TooMany {
        number,
        most: most.into(),
    })
}

/// A share, given as a percentage.
pub(crate) fn share(text: &str) -> Result<f64, ValueError> {
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
pub(crate) struct VmArg {
    pub(crate) lock: LockArg,
    pub(crate) vcpus: usize,
}

/// A share of reads, as a percentage or as a ratio of reads to writes.
pub(crate) fn reads(text: &str) -> Result<f64, ValueError> {
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
pub(crate) fn skew(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().parse::<f64>().ok();
    number
        .filter(|skew| (0.0..=MOST_SKEW).contains(skew))
        .ok_or_else(|| ValueError::NoSkew {
            text: text.to_owned(),
            most: MOST_SKEW.to_string(),
        })
}

pub(crate) fn contexts(text: &str) -> Result<u32, ValueError> {
    let most = MAX_CONTEXTS;
    let number = text.trim().parse::<u32>().ok();
    number
        .filter(|contexts| (1..=most).contains(contexts))
        .ok_or_else(|| ValueError::NoContexts {
            text: text.to_owned(),
            most,
        })
}

pub(crate) fn numa_nodes(text: &str) -> Result<u32, ValueError> {
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
pub(crate) fn vm(text: &str) -> Result<VmArg, ValueError> {
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
mod tests;
