//! Options of `pvlab trace`.

use crate::options::{Common, GuestArgs, NumberUsage, format, nonzero_duration, usage, whole};
use crate::report::Format;
use crate::scenario::{Mix, Scenario};
use crate::trace::collect::DEFAULT_RECORDS;
use abi::ring::MAX_LOCKS;
use clap::{Arg, Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab trace --lock qspinlock --vcpus 8 --cpus 0-1 --duration 1s -o run.pftrace
  pvlab trace --lock pv-qspinlock --format json-lines | head
  pvlab trace --lock pv-qspinlock -o trace.dat    for trace-cmd report, and KernelShark
  pvlab trace --summary run.pftrace               the account again, from the file
  pvlab trace --lock ticket -o - | pvlab trace --summary -
  pvlab trace --lock tas --preempt holder:5ms@1%  preemption on demand

Open run.pftrace at ui.perfetto.dev. The formats are described in docs/trace.md.";

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) guests: GuestArgs,
    /// Length of the trace, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = nonzero_duration)]
    pub(crate) duration: Duration,
    /// Write the trace to this file, or to standard output if it is -; the account then goes to standard
    /// error.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the trace [default: json-lines for a file named *.jsonl, trace-dat for *.dat, else perfetto]. JSON lines
    /// without --output go to standard output, and the account to standard error.
    #[arg(long, value_enum)]
    pub(crate) format: Option<TraceFormatArg>,
    /// Format of the account.
    #[arg(long, default_value = "table", value_parser = format())]
    pub(crate) account: Format,
    /// Account for the trace in this file, or on standard input if it is -, without running anything.
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Events that each vCPU's ring holds (rounded up to a power of two, at least 1024).
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS, value_parser = ring)]
    pub(crate) ring: usize,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// [`Format`](crate::trace::sink::Format), as an option.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TraceFormatArg {
    /// For ui.perfetto.dev.
    Perfetto,
    /// One line of JSON for each event.
    JsonLines,
    /// For trace-cmd and KernelShark; --summary does not read it.
    TraceDat,
}

/// `--summary` runs nothing, and so goes with no option but that of its account's format.
pub(crate) fn not_with_summary(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "summary" | "account" => arg,
        _ => arg.conflicts_with("summary"),
    }
}

/// Fewer events in a ring are soon overwritten.
const LEAST_RING: u64 = 1024;

/// What is wrong with a trace that was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TraceUsage {
    #[error("a ring of {number} events is too small to trace into; give at least {LEAST_RING}")]
    RingTooSmall { number: u64 },
    #[error(transparent)]
    Number(#[from] NumberUsage),
    #[error("{option}: {reason}, so this cannot be traced; 'pvlab run' can do it")]
    NotTraceable {
        option: &'static str,
        reason: &'static str,
    },
    #[error("{0} locks cannot be told apart in a trace; give at most {MAX_LOCKS}")]
    TooManyLocks(usize),
}

usage!(TraceUsage);

/// A number of trace records, as a power of two.
fn ring(text: &str) -> Result<usize, TraceUsage> {
    const MOST: u64 = 1 << 26;
    match whole(text)? {
        number if number < LEAST_RING => Err(TraceUsage::RingTooSmall { number }),
        number if number > MOST => Err(NumberUsage::TooMany { number, most: MOST }.into()),
        number => Ok(usize::try_from(number.next_power_of_two()).unwrap_or(usize::MAX)),
    }
}

/// Whether a trace of the scenario can be accounted for.
pub(crate) fn check_traceable(scenario: &Scenario) -> Result<(), TraceUsage> {
    const HOLDER: &str = "the account of a trace knows one holder of a lock at a time";
    const ACQUISITION: &str = "the account of a trace knows one acquisition of a vCPU at a time";
    let refuse = |option, reason| Err(TraceUsage::NotTraceable { option, reason });
    match &scenario.workload {
        work if work.locks > MAX_LOCKS => Err(TraceUsage::TooManyLocks(work.locks)),
        work if matches!(work.mix, Mix::ReadShare(_)) => refuse("--reads", HOLDER),
        work if matches!(work.mix, Mix::Readers(_)) => refuse("--readers", HOLDER),
        work if work.contexts > 1 => refuse("--contexts", ACQUISITION),
        _ => Ok(()),
    }
}
