//! Commands and options.

use super::bench::{self, BenchArgs};
use super::error::Usage;
use super::values::{
    self, CpuList, Each, LockArg, LockParser, MachineArg, MachineParser, OutsideArg, PlacementArg,
    VmArg,
};
use super::{calibrate, machines, schedule, sweep, torture, validate};
use crate::report::Format;
use crate::scenario::{Cpl, Data, Preempt, WorkTime};
use crate::trace::collect::DEFAULT_RECORDS;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pvlab compare                      four locks, 4 vCPUs per CPU, under a minute
  pvlab run --lock ticket --vcpus 8  one guest, in detail
  pvlab doctor                       what this host can do

Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage, 3 a lock broke mutual exclusion or failed
under torture.
Environment: RUST_LOG=vmm=debug shows what the virtual machine monitor does, on standard error.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  pvlab compare
  pvlab compare --locks tas,qspinlock,pv-qspinlock --vcpus 8 --cpus 0-1
  pvlab compare --vcpus 32 --duration 5s --rounds 10 --format json -o result.json
  pvlab compare --locks tas,tas                   a lock against itself
  pvlab compare --locks qspinlock,qspinlock:pointer,qspinlock:patched --vcpus 1 --cpus 0 \\
      --critical 0 --outside 0 --no-latency       what calling it in other ways costs
  pvlab compare --locks rwlock --readers 6 --vcpus 8   readers against writers
  pvlab compare --vcpus 1 --cpus 0 --critical 0   nobody contends
  pvlab compare --outside 1us:exp                 vCPUs that do not fall into step
  pvlab compare --data same-line                  locks embedded in what they guard
  pvlab compare --machine sim:broadwell-ex-4s --locks ticket,qspinlock --warm-up 5ms --duration 50ms";

const RUN_EXAMPLES: &str = "\
Examples:
  pvlab run --lock pv-qspinlock --vcpus 8 --cpus 0-1
  pvlab run --vm lock=pv-qspinlock,vcpus=4 --vm lock=qspinlock,vcpus=4 \\
      --cpus 0-1 --duration 5s --stat-interval 1s
  pvlab run --lock ticket --vcpus 4 --placement 0,0,0,1
  pvlab run --lock auto --no-pv-unhalt            what a guest's kernel would choose there
  pvlab run --lock rwlock --vcpus 8 --reads 4:1
  pvlab run --lock qspinlock --vcpus 8 --contexts 5
  pvlab run --lock tas --vcpus 8 --lock-count 64 --skew 1
  pvlab run --lock ticket --vcpus 2 --critical 4.2ns --outside 1us:exp --no-check --no-latency
  pvlab run --lock qspinlock --vcpus 2 --iterations 100000 --format json
  pvlab run --lock pv-qspinlock --machine sim:broadwell-ex-4s --set kick_ns=2us --duration 50ms
  pvlab run --lock pv-qspinlock --vcpus 3 --machine sim:here --deschedule 0:5:2ms --save-schedule case.json";

const TRACE_EXAMPLES: &str = "\
Examples:
  pvlab trace --lock qspinlock --vcpus 8 --cpus 0-1 --duration 1s -o run.pftrace
  pvlab trace --lock pv-qspinlock --format json-lines | head
  pvlab trace --summary run.pftrace               the account again, from the file
  pvlab trace --lock ticket -o - | pvlab trace --summary -
  pvlab trace --lock tas --preempt holder:5ms@1%  preemption on demand

Open run.pftrace at ui.perfetto.dev. The formats are described in docs/trace.md.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  pvlab doctor
  pvlab doctor --format json -o host.json";

const LOCKS_EXAMPLES: &str = "\
Examples:
  pvlab locks
  pvlab locks --format json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pvlab completions bash > ~/.local/share/bash-completion/completions/pvlab
  pvlab completions zsh > ~/.zfunc/_pvlab";

/// A paravirtual lock laboratory: locks compared in overcommitted KVM guests.
#[derive(Debug, Parser)]
#[command(name = "pvlab", version, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compare locks, each in a guest of its own, in interleaved rounds.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Run a microbenchmark, and show its figures as kernel developers post them.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Run one or more guests at the same time and show every vCPU.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Trace every halt, kick and preemption, and account for every nanosecond of waiting.
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(Box<TraceArgs>),
    /// Torture a lock as locktorture does, and say whether it stood it.
    #[command(after_help = torture::EXAMPLES)]
    Torture(Box<torture::TortureArgs>),
    /// Tell what this host is, what halts and kicks cost on it, and what will not work.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Run again exactly what a schedule file says.
    #[command(after_help = schedule::EXAMPLES)]
    Replay(schedule::ReplayArgs),
    /// Show how much depends on a parameter of a simulated machine.
    #[command(after_help = sweep::EXAMPLES)]
    Sim(Box<sweep::SimArgs>),
    /// List the machines, or every parameter of a simulated one.
    #[command(after_help = machines::EXAMPLES)]
    Machines(machines::MachinesArgs),
    /// Measure this host, and write a preset of a simulated machine like it.
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Run the same on this host and on a simulated machine, and tell how far they are apart.
    #[command(after_help = validate::EXAMPLES)]
    Validate(Box<validate::ValidateArgs>),
    /// List the locks.
    #[command(after_help = LOCKS_EXAMPLES)]
    Locks(LocksArgs),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Locks to compare, separated by commas; the same lock may be named again. `auto` is what a guest's
    /// kernel would choose; `LOCK:pointer` calls it through function pointers, `LOCK:patched` by calls
    /// patched into the guest's code.
    #[arg(long, value_name = "LOCKS", value_delimiter = ',', value_parser = Each(LockParser),
          default_value = "tas,ticket,qspinlock,pv-qspinlock")]
    pub(super) locks: Vec<LockArg>,
    /// vCPUs of each guest [default: 4 for each CPU, or 1 on a simulated machine].
    #[arg(long, value_name = "N", value_parser = values::vcpus)]
    pub(super) vcpus: Option<usize>,
    /// Length of each measurement, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::nonzero_duration,
          conflicts_with = "iterations")]
    pub(super) duration: Duration,
    /// Measure this many acquisitions by each vCPU, instead of a time.
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(super) iterations: Option<u64>,
    /// Rounds; in each, every lock runs once, and the order rotates.
    #[arg(long, value_name = "N", default_value = "5", value_parser = values::rounds)]
    pub(super) rounds: usize,
    /// Lock that the others are compared with [default: qspinlock if it is among them, else the
    /// first].
    #[arg(long, value_name = "LOCK", value_parser = LockParser)]
    pub(super) baseline: Option<LockArg>,
    /// Least difference of the median worth a verdict, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = values::share)]
    pub(super) min_effect: f64,
    /// Afterwards trace each lock once, and tell what its waiting was spent on.
    #[arg(long)]
    pub(super) explain: bool,
    #[command(flatten)]
    pub(super) jobs: JobsArgs,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) guests: GuestArgs,
    /// Length of the measurement, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::nonzero_duration,
          conflicts_with = "iterations")]
    pub(super) duration: Duration,
    /// Measure this many acquisitions by each vCPU, instead of a time.
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub(super) iterations: Option<u64>,
    /// Show a line for each guest at this interval (at least 1ms).
    #[arg(long, value_name = "TIME", value_parser = values::interval)]
    pub(super) stat_interval: Option<Duration>,
    /// Redraw a small table each second instead: throughput, halts, kicks, preempted holders (LHP; those
    /// back within 5 ms may be missed), and who is preempted now.
    #[arg(long, conflicts_with = "stat_interval")]
    pub(super) live: bool,
    #[command(flatten)]
    pub(super) schedule: schedule::ScheduleArgs,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// Which guests to run.
#[derive(Debug, Args)]
pub(super) struct GuestArgs {
    /// A guest, such as lock=pv-qspinlock,vcpus=4; repeat it for several at the same time.
    #[arg(long, value_name = "SPEC", value_parser = values::vm,
          conflicts_with_all = ["lock", "vcpus"])]
    pub(super) vm: Vec<VmArg>,
    /// Lock of a single guest; short for --vm lock=LOCK,vcpus=N. `auto` is what its kernel would
    /// choose; `LOCK:pointer` and `LOCK:patched` say how it is called.
    #[arg(long, value_name = "LOCK", value_parser = LockParser)]
    pub(super) lock: Option<LockArg>,
    /// vCPUs of a single guest [default: 4 for each CPU, or 1 on a simulated machine].
    #[arg(long, value_name = "N", value_parser = values::vcpus, requires = "lock")]
    pub(super) vcpus: Option<usize>,
}

/// Where to run.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct MachineArgs {
    /// Where vCPUs run: KVM guests, host threads, or a simulated machine ('pvlab machines' tells of them)
    /// [default: kvm where /dev/kvm works, else threads].
    #[arg(long, value_name = "MACHINE", value_parser = MachineParser)]
    pub(super) machine: Option<MachineArg>,
    /// Change a parameter of the simulated machine, such as kick_ns=2us; repeat it to change several.
    #[arg(long, value_name = "PARAMETER=VALUE")]
    pub(super) set: Vec<String>,
    /// CPUs to use, such as 0-1, 0,2 or 0-15:2 (every second one) [default: the first two that may be used; of a simulated machine,
    /// all].
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub(super) cpus: Option<CpuList>,
}

/// How many runs may go on at the same time.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct JobsArgs {
    /// Runs that go on at the same time, on a simulated machine [default: one for each CPU that may be
    /// used]. The figures are the same whatever it is.
    #[arg(long, value_name = "N", value_parser = values::jobs)]
    pub(super) jobs: Option<usize>,
}

/// Options of every command that runs guests.
#[derive(Clone, Debug, Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Length of the critical section, with unit, such as 130ns or 4.2ns.
    #[arg(long, value_name = "TIME", default_value = "130ns", value_parser = values::work_time)]
    pub(super) critical: WorkTime,
    /// Length of the work between two critical sections, with unit; TIME:exp, such as 130ns:exp, is its mean,
    /// and it is random (exponentially distributed, by --seed), so that vCPUs do not fall into step.
    #[arg(long, value_name = "TIME[:exp]", default_value = "130ns", value_parser = values::outside)]
    pub(super) outside: OutsideArg,
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Number of locks in each guest, from which each acquisition picks one at random [default: 1].
    #[arg(long, value_name = "N", value_parser = values::lock_count)]
    pub(super) lock_count: Option<usize>,
    #[command(flatten)]
    pub(super) mix: MixArgs,
    /// Least time before the measurement starts, with unit.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = values::duration)]
    pub(super) warm_up: Duration,
    /// Turns that a waiter of a paravirtual lock spins before it halts (at least 1) [default: 32768].
    #[arg(long, value_name = "TURNS", value_parser = values::spin_threshold)]
    pub(super) spin_threshold: Option<u32>,
    /// How vCPUs are placed: pinned (round-robin), floating, or one CPU for each vCPU, such as
    /// 0,0,1,1.
    #[arg(long, value_name = "HOW", default_value = "pinned", value_parser = values::placement)]
    pub(super) placement: PlacementArg,
    /// Busy host threads that compete with the vCPUs for the CPUs.
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::noise)]
    pub(super) noise: usize,
    /// Privilege level of the guest: 0, 3, or 0 where the host runs it natively [default: auto].
    #[arg(long, value_parser = cpl())]
    pub(super) cpl: Option<Cpl>,
    /// Do not time acquisitions: no waiting times, and no cost of timing them.
    #[arg(long)]
    pub(super) no_latency: bool,
    /// Seed of every random choice.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::whole)]
    pub(super) seed: u64,
    /// A guest without any acquisition for this long (with unit) is reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = values::nonzero_duration)]
    pub(super) watchdog: Duration,
    /// Preemption on demand: hold the lock's holder, or the next waiter, off its CPU for that long in
    /// that share of acquisitions, such as holder:5ms@1% or next-waiter:5ms@1%.
    #[arg(long, value_name = "WHOM:TIME@SHARE", value_parser = values::preempt)]
    pub(super) preempt: Option<Preempt>,
    /// Never tell locks that a vCPU is preempted (vcpu_is_preempted), even where that is known: shows what
    /// it is worth.
    #[arg(long)]
    pub(super) no_vcpu_is_preempted: bool,
    /// Fault injection: drop kicks, so that halted waiters sleep for ever.
    #[arg(long, hide = true)]
    pub(super) drop_kicks: bool,
    #[command(flatten)]
    pub(super) offer: OfferArgs,
}

/// What data a critical section touches.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct DataArgs {
    /// Where the data lies that critical sections touch, and by which exclusion is checked: own-line, 128
    /// bytes away from the lock; same-line, in the lock's line behind it, for locks of at most 48 bytes; or
    /// none [default: own-line].
    #[arg(long, value_name = "WHERE", value_enum)]
    pub(super) data: Option<DataArg>,
    /// Touch no data, and so do not check exclusion: the same as --data none.
    #[arg(long)]
    pub(super) no_check: bool,
}

/// [`Data`], as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DataArg {
    OwnLine,
    SameLine,
    None,
}

impl DataArgs {
    /// What is wanted, or why that is not clear.
    pub(super) fn resolve(self) -> Result<Data, Usage> {
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
pub(super) struct OfferArgs {
    /// Do not offer halts that a kick ends (KVM's PV unhalt): `auto` is a test-and-set lock then, and
    /// locks whose waiters halt are refused.
    #[arg(long)]
    pub(super) no_pv_unhalt: bool,
    /// Tell guests that their vCPUs are never preempted (KVM's real-time hint): `auto` is the native
    /// qspinlock then.
    #[arg(long)]
    pub(super) realtime_hint: bool,
    /// Rule paravirtual spinlocks out, as the kernel parameter nopvspin does: `auto` is the native
    /// qspinlock then.
    #[arg(long)]
    pub(super) no_pv: bool,
}

/// Who takes which lock, and how.
#[derive(Clone, Debug, Args)]
pub(super) struct MixArgs {
    /// Share of reads in each vCPU's acquisitions, such as 80%, or its reads to its writes, such as
    /// 4:1; for reader-writer locks.
    #[arg(long, value_name = "SHARE|R:W", value_parser = values::reads, conflicts_with = "readers")]
    pub(super) reads: Option<f64>,
    /// This many vCPUs of each guest, the last, only read, and the others only write; for
    /// reader-writer locks.
    #[arg(long, value_name = "N", value_parser = values::vcpus)]
    pub(super) readers: Option<usize>,
    /// How unevenly the locks are chosen: exponent of a Zipf distribution over them, such as 1; 0: all
    /// alike.
    #[arg(long, value_name = "EXPONENT", value_parser = values::skew)]
    pub(super) skew: Option<f64>,
    /// Contexts of each vCPU, 1 to 5, one interrupting the other while it holds a lock or waits for it;
    /// each takes a lock of its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::contexts)]
    pub(super) contexts: u32,
    /// NUMA nodes that the vCPUs of each guest are told they are on, in equal runs.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::numa_nodes)]
    pub(super) numa_nodes: u32,
}

impl MixArgs {
    /// As if no option had been given.
    pub(super) const NONE: Self = Self {
        reads: None,
        readers: None,
        skew: None,
        contexts: 1,
        numa_nodes: 1,
    };
}

/// How and where to report.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(super) format: FormatArg,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    #[command(flatten)]
    pub(super) guests: GuestArgs,
    /// Length of the trace, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::nonzero_duration)]
    pub(super) duration: Duration,
    /// Write the trace to this file, or to standard output if it is -; the account then goes to standard
    /// error.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Format of the trace [default: json-lines for a file named *.jsonl, else perfetto]. JSON lines
    /// without --output go to standard output, and the account to standard error.
    #[arg(long, value_enum)]
    pub(super) format: Option<TraceFormatArg>,
    /// Format of the account.
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(super) account: FormatArg,
    /// Account for the trace in this file, or on standard input if it is -, without running anything.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "vm", "lock", "vcpus", "output", "format", "duration", "ring", "machine", "set", "cpus", "critical",
        "outside", "lock_count", "reads", "readers", "skew", "contexts", "numa_nodes", "warm_up",
        "spin_threshold", "placement", "noise", "cpl", "no_latency", "seed", "watchdog", "preempt",
        "no_vcpu_is_preempted", "drop_kicks", "no_pv_unhalt", "realtime_hint", "no_pv", "data", "no_check"])]
    pub(super) summary: Option<PathBuf>,
    /// Events that each vCPU's ring holds (rounded up to a power of two, at least 1024).
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS, value_parser = values::ring)]
    pub(super) ring: usize,
    #[command(flatten)]
    pub(super) common: Common,
}

/// [`sink::Format`], as an option.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TraceFormatArg {
    /// For ui.perfetto.dev.
    Perfetto,
    /// One line of JSON for each event.
    JsonLines,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = ShortFormatArg::Table)]
    pub(super) format: ShortFormatArg,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Format of the list.
    #[arg(long, value_enum, default_value_t = ShortFormatArg::Table)]
    pub(super) format: ShortFormatArg,
}

/// [`Format`], as an option.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FormatArg {
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
pub(super) enum ShortFormatArg {
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

pub(super) fn cpl() -> impl TypedValueParser<Value = Cpl> {
    PossibleValuesParser::new(["auto", "0", "3"]).map(|level| match level.as_str() {
        "0" => Cpl::Cpl0,
        "3" => Cpl::Cpl3,
        _ => Cpl::Auto,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
