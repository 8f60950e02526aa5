//! Options of `pvlab trace`.

use crate::options::args::{Common, FormatArg, GuestArgs};
use crate::options::values;
use crate::trace::collect::DEFAULT_RECORDS;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab trace --lock qspinlock --vcpus 8 --cpus 0-1 --duration 1s -o run.pftrace
  pvlab trace --lock pv-qspinlock --format json-lines | head
  pvlab trace --summary run.pftrace               the account again, from the file
  pvlab trace --lock ticket -o - | pvlab trace --summary -
  pvlab trace --lock tas --preempt holder:5ms@1%  preemption on demand

Open run.pftrace at ui.perfetto.dev. The formats are described in docs/trace.md.";

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) guests: GuestArgs,
    /// Length of the trace, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::nonzero_duration)]
    pub(crate) duration: Duration,
    /// Write the trace to this file, or to standard output if it is -; the account then goes to standard
    /// error.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the trace [default: json-lines for a file named *.jsonl, else perfetto]. JSON lines
    /// without --output go to standard output, and the account to standard error.
    #[arg(long, value_enum)]
    pub(crate) format: Option<TraceFormatArg>,
    /// Format of the account.
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) account: FormatArg,
    /// Account for the trace in this file, or on standard input if it is -, without running anything.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "vm", "lock", "vcpus", "output", "format", "duration", "ring", "machine", "set", "cpus", "critical",
        "outside", "lock_count", "reads", "readers", "skew", "contexts", "numa_nodes", "warm_up",
        "spin_threshold", "placement", "noise", "cpl", "no_latency", "seed", "watchdog", "preempt",
        "no_vcpu_is_preempted", "drop_kicks", "no_pv_unhalt", "realtime_hint", "no_pv", "data", "no_check"])]
    pub(crate) summary: Option<PathBuf>,
    /// Events that each vCPU's ring holds (rounded up to a power of two, at least 1024).
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS, value_parser = values::ring)]
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
}
