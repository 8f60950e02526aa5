//! Commands and options.

use super::error::Usage;
use super::values;
use super::values::{
    CpuList, LockArg, LockParser, MachineArg, MachineParser, OutsideArg, PlacementArg, VmArg,
};
use crate::report::Format;
use crate::scenario::{Cpl, Data, Preempt, WorkTime};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Which guests to run.
#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// A guest, such as lock=pv-qspinlock,vcpus=4; repeat it for several at the same time.
    #[arg(long, value_name = "SPEC", value_parser = values::vm,
          conflicts_with_all = ["lock", "vcpus"])]
    pub(crate) vm: Vec<VmArg>,
    /// Lock of a single guest; short for --vm lock=LOCK,vcpus=N. `auto` is what its kernel would
    /// choose; `LOCK:pointer` and `LOCK:patched` say how it is called.
    #[arg(long, value_name = "LOCK", value_parser = LockParser)]
    pub(crate) lock: Option<LockArg>,
    /// vCPUs of a single guest [default: 4 for each CPU, or 1 on a simulated machine].
    #[arg(long, value_name = "N", value_parser = values::vcpus, requires = "lock")]
    pub(crate) vcpus: Option<usize>,
}

/// Where to run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MachineArgs {
    /// Where vCPUs run: KVM guests, host threads, or a simulated machine ('pvlab machines' tells of them)
    /// [default: kvm where /dev/kvm works, else threads].
    #[arg(long, value_name = "MACHINE", value_parser = MachineParser)]
    pub(crate) machine: Option<MachineArg>,
    /// Change a parameter of the simulated machine, such as kick_ns=2us; repeat it to change several.
    #[arg(long, value_name = "PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// CPUs to use, such as 0-1, 0,2 or 0-15:2 (every second one) [default: the first two that may be used; of a simulated machine,
    /// all].
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub(crate) cpus: Option<CpuList>,
}

/// How many runs may go on at the same time.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JobsArgs {
    /// Runs that go on at the same time, on a simulated machine [default: one for each CPU that may be
    /// used]. The figures are the same whatever it is.
    #[arg(long, value_name = "N", value_parser = values::jobs)]
    pub(crate) jobs: Option<usize>,
}

/// Options of every command that runs guests.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// Length of the critical section, with unit, such as 130ns or 4.2ns.
    #[arg(long, value_name = "TIME", default_value = "130ns", value_parser = values::work_time)]
    pub(crate) critical: WorkTime,
    /// Length of the work between two critical sections, with unit; TIME:exp, such as 130ns:exp, is its mean,
    /// and it is random (exponentially distributed, by --seed), so that vCPUs do not fall into step.
    #[arg(long, value_name = "TIME[:exp]", default_value = "130ns", value_parser = values::outside)]
    pub(crate) outside: OutsideArg,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Number of locks in each guest, from which each acquisition picks one at random [default: 1].
    #[arg(long, value_name = "N", value_parser = values::lock_count)]
    pub(crate) lock_count: Option<usize>,
    #[command(flatten)]
    pub(crate) mix: MixArgs,
    /// Least time before the measurement starts, with unit.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = values::duration)]
    pub(crate) warm_up: Duration,
    /// Turns that a waiter of a paravirtual lock spins before it halts (at least 1) [default: 32768].
    #[arg(long, value_name = "TURNS", value_parser = values::spin_threshold)]
    pub(crate) spin_threshold: Option<u32>,
    /// How vCPUs are placed: pinned (round-robin), floating, or one CPU for each vCPU, such as
    /// 0,0,1,1.
    #[arg(long, value_name = "HOW", default_value = "pinned", value_parser = values::placement)]
    pub(crate) placement: PlacementArg,
    /// Busy host threads that compete with the vCPUs for the CPUs.
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::noise)]
    pub(crate) noise: usize,
    /// Privilege level of the guest: 0, 3, or 0 where the host runs it natively [default: auto].
    #[arg(long, value_parser = cpl())]
    pub(crate) cpl: Option<Cpl>,
    /// Do not time acquisitions: no waiting times, and no cost of timing them.
    #[arg(long)]
    pub(crate) no_latency: bool,
    /// Seed of every random choice.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::whole)]
    pub(crate) seed: u64,
    /// A guest without any acquisition for this long (with unit) is reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = values::nonzero_duration)]
    pub(crate) watchdog: Duration,
    /// Preemption on demand: hold the lock's holder, or the next waiter, off its CPU for that long in
    /// that share of acquisitions, such as holder:5ms@1% or next-waiter:5ms@1%.
    #[arg(long, value_name = "WHOM:TIME@SHARE", value_parser = values::preempt)]
    pub(crate) preempt: Option<Preempt>,
    /// Never tell locks that a vCPU is preempted (vcpu_is_preempted), even where that is known: shows what
    /// it is worth.
    #[arg(long)]
    pub(crate) no_vcpu_is_preempted: bool,
    /// Fault injection: drop kicks, so that halted waiters sleep for ever.
    #[arg(long, hide = true)]
    pub(crate) drop_kicks: bool,
    #[command(flatten)]
    pub(crate) offer: OfferArgs,
}

/// What data a critical section touches.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DataArgs {
    /// Where the data lies that critical sections touch, and by which exclusion is checked: own-line, 128
    /// bytes away from the lock; same-line, in the lock's line behind it, for locks of at most 48 bytes; or
    /// none [default: own-line].
    #[arg(long, value_name = "WHERE", value_enum)]
    pub(crate) data: Option<DataArg>,
    /// Touch no data, and so do not check exclusion: the same as --data none.
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// [`Data`], as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataArg {
    OwnLine,
    SameLine,
    None,
}

impl DataArgs {
    /// What is wanted, or why that is not clear.
    pub(crate) fn resolve(self) -> Result<Data, Usage> {
        let data = match self.data {
            Some(DataArg::OwnLine) => Data::OwnLine,
            Some(DataArg::SameLine) => Data::SameLine,
            Some(DataArg::None) => Data::None,
            None if self.no_check => Data::None,
            None => Data::default(),
        };
        if self.no_check && data.is_checked() {
            return Err(Usage::CheckOfNothing);
        }
        Ok(data)
    }
}

/// What guests are offered when their kernels choose a lock.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "What --lock auto chooses by")]
pub(crate) struct OfferArgs {
    /// Do not offer halts that a kick ends (KVM's PV unhalt): `auto` is a test-and-set lock then, and
    /// locks whose waiters halt are refused.
    #[arg(long)]
    pub(crate) no_pv_unhalt: bool,
    /// Tell guests that their vCPUs are never preempted (KVM's real-time hint): `auto` is the native
    /// qspinlock then.
    #[arg(long)]
    pub(crate) realtime_hint: bool,
    /// Rule paravirtual spinlocks out, as the kernel parameter nopvspin does: `auto` is the native
    /// qspinlock then.
    #[arg(long)]
    pub(crate) no_pv: bool,
}

/// Who takes which lock, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct MixArgs {
    /// Share of reads in each vCPU's acquisitions, such as 80%, or its reads to its writes, such as
    /// 4:1; for reader-writer locks.
    #[arg(long, value_name = "SHARE|R:W", value_parser = values::reads, conflicts_with = "readers")]
    pub(crate) reads: Option<f64>,
    /// This many vCPUs of each guest, the last, only read, and the others only write; for
    /// reader-writer locks.
    #[arg(long, value_name = "N", value_parser = values::vcpus)]
    pub(crate) readers: Option<usize>,
    /// How unevenly the locks are chosen: exponent of a Zipf distribution over them, such as 1; 0: all
    /// alike.
    #[arg(long, value_name = "EXPONENT", value_parser = values::skew)]
    pub(crate) skew: Option<f64>,
    /// Contexts of each vCPU, 1 to 5, one interrupting the other while it holds a lock or waits for it;
    /// each takes a lock of its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::contexts)]
    pub(crate) contexts: u32,
    /// NUMA nodes that the vCPUs of each guest are told they are on, in equal runs.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::numa_nodes)]
    pub(crate) numa_nodes: u32,
}

impl MixArgs {
    /// As if no option had been given.
    pub(crate) const NONE: Self = Self {
        reads: None,
        readers: None,
        skew: None,
        contexts: 1,
        numa_nodes: 1,
    };
}

/// How and where to report.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// [`Format`], as an option.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    Table,
    Json,
    Csv,
    Markdown,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Table => Self::Table,
            FormatArg::Json => Self::Json,
            FormatArg::Csv => Self::Csv,
            FormatArg::Markdown => Self::Markdown,
        }
    }
}

/// The formats of reports that are no series of figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShortFormatArg {
    Table,
    Json,
}

impl From<ShortFormatArg> for Format {
    fn from(format: ShortFormatArg) -> Self {
        match format {
            ShortFormatArg::Table => Self::Table,
            ShortFormatArg::Json => Self::Json,
        }
    }
}

pub(crate) fn cpl() -> impl TypedValueParser<Value = Cpl> {
    PossibleValuesParser::new(["auto", "0", "3"]).map(|level| match level.as_str() {
        "0" => Cpl::Cpl0,
        "3" => Cpl::Cpl3,
        _ => Cpl::Auto,
    })
}
