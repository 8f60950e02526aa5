//! Options of `pvlab torture`, and the scenario that comes of them.

use crate::host::Host;
use crate::options::{
    BaseArgs, CliError, Guests, LockArg, MachineUsage, NoEffect, NumberUsage, ReportArgs, Request,
    count, duration, lock_parser, long_duration, long_interval, no_read_side,
    nonzero_long_duration, usage,
};
use crate::scenario::{Length, MachineKind, Mix, Placement, Torture};
use abi::Dispatch;
use clap::Args;
use guest::workload::torture::MOST_NESTED;
use humantime::format_duration as human;
use peers::Kind;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab torture --lock qrwlock --writers 56 --readers 224 --stat-interval 2s
  pvlab torture --lock pv-qspinlock --writers 16 --cpus 0-1 --duration 10s
  pvlab torture --lock rwlock --writers 2 --readers 8 --stutter 0 --duration 10s
  pvlab torture --lock qspinlock --writers 8 --duration 12h --stat-interval 10min   over night
  pvlab torture --lock qspinlock --nested-locks 3 --acq-writer-lim 1s

Names and defaults are those of Linux's locktorture, and so are hold times and output; docs/torture.md
has them all. There is no equivalent of: onoff_interval, onoff_holdoff (vCPUs do not come and go),
call_rcu_chains (there is no RCU), rt_boost, rt_boost_factor (for locks that inherit priorities),
bind_readers, bind_writers (use --cpus), shutdown_secs (use --duration), verbose (use RUST_LOG).

Exit codes: 0 SUCCESS, 1 failed to run or interrupted, 2 wrong usage, 3 FAILURE of the lock.";

#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// The lock.
    #[arg(long, value_name = "LOCK", value_parser = lock_parser())]
    lock: LockArg,
    /// Threads that take it for writing, or exclusively [default: 2 for each CPU, or 1 if the lock has
    /// a read side].
    #[arg(long, value_name = "N", value_parser = threads)]
    writers: Option<usize>,
    /// Threads that take it for reading [default: 1 for each CPU if the lock has a read side].
    #[arg(long, value_name = "N", value_parser = threads)]
    readers: Option<usize>,
    /// Length of the test, with unit, at most 30 days.
    #[arg(long, value_name = "TIME", default_value = "30s",
          value_parser = nonzero_long_duration)]
    pub(super) duration: Duration,
    /// Show what has been done at this interval (at least 1ms) [default: 60s, or the whole test].
    #[arg(long, value_name = "TIME", value_parser = long_interval)]
    pub(super) stat_interval: Option<Duration>,
    /// Length of the rare long holds, with unit; 0: none.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    long_hold: Duration,
    /// Let everybody work for this long, then pause for as long, and so on; 0: no pauses.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = long_duration)]
    stutter: Duration,
    /// Locks (at most 8) of which each turn takes some at random before it takes the one under torture.
    #[arg(long, value_name = "N", default_value = "0", value_parser = |text: &str| count::<usize>(text, 0, MOST_NESTED as u64))]
    nested_locks: usize,
    /// Give writers real-time scheduling (SCHED_FIFO).
    #[arg(long)]
    writer_fifo: bool,
    /// Take no interrupts from before an acquisition until after the release, as locktorture's types that end
    /// in _irq do (simulated machines only).
    #[arg(long)]
    irqs_off: bool,
    /// Leave another CPU idle at this interval, and none after the last, moving the threads to the
    /// others; 0: never [default: 3s; never on a simulated machine].
    #[arg(long, value_name = "TIME", value_parser = long_duration)]
    shuffle_interval: Option<Duration>,
    /// Longest time that an acquisition of a writer may take; longer ones are failures; 0: any time.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    acq_writer_lim: Duration,
    /// Let Max/Min be of failures, as locktorture's was until 2020, instead of acquisitions.
    #[arg(long)]
    pub(super) legacy_max_min: bool,
    #[command(flatten)]
    pub(super) base: BaseArgs,
    /// The lock is stuck, which is a failure, if nobody makes an acquisition for this long.
    #[arg(long, value_name = "TIME", default_value = "3s",
          value_parser = nonzero_long_duration)]
    watchdog: Duration,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// What is wrong with how `pvlab torture` was called.
#[derive(Debug, thiserror::Error)]
pub(super) enum TortureUsage {
    #[error("no writers and no readers: give at least one of {0}")]
    NoThreads(&'static str),
    /// Real-time threads would keep each other off their CPU for ever.
    #[error(
        "--writer-fifo: {writers} writers on {cpus} CPUs (one of them idle in turn, unless \
         --shuffle-interval is 0): a spinning real-time thread never leaves its CPU to another; \
         give each writer a CPU"
    )]
    FifoOvercommitted { writers: usize, cpus: usize },
    #[error(
        "--watchdog {} is not longer than --long-hold {}; make it longer",
        human(*.watchdog), human(*.hold)
    )]
    ImpatientWatchdog { watchdog: Duration, hold: Duration },
    #[error("--lock {0}: torture calls locks directly; leave the way out")]
    Dispatch(LockArg),
    #[error(
        "--stat-interval {} makes more than a million intervals of {}; make it longer",
        human(*.interval), human(*.duration)
    )]
    TooManyIntervals {
        interval: Duration,
        duration: Duration,
    },
}

usage!(TortureUsage);

/// Threads of one role.
fn threads(text: &str) -> Result<usize, NumberUsage> {
    count(text, 0, 1 << 20)
}

/// Another CPU is left idle this often, unless said otherwise.
const SHUFFLE_INTERVAL: Duration = Duration::from_secs(3);

/// What to run: the scenario, and the torture in it.
pub(super) fn torture_request(
    args: &TortureArgs,
    host: &Host,
) -> Result<(Request, Torture), CliError> {
    let lock = args.lock;
    if lock.dispatch != Dispatch::Direct {
        return Err(TortureUsage::Dispatch(lock).into());
    }
    let shared = lock.kind.is_some_and(Kind::is_rw);
    if !shared && args.readers.is_some_and(|readers| readers > 0) {
        return Err(no_read_side("--readers", lock.to_string()).into());
    }
    let (watchdog, hold) = (args.watchdog, args.long_hold);
    if watchdog <= hold {
        return Err(TortureUsage::ImpatientWatchdog { watchdog, hold }.into());
    }
    let ask = |vcpus| {
        let guests = Guests::one_of([lock], vcpus);
        let length = Length::Duration(args.duration);
        let place = Placement::Floating;
        (args.base).request(guests, length, &place, host, |scenario, _| {
            scenario.watchdog = watchdog;
            Ok(())
        })
    };
    // The CPUs first: the defaults depend on their number.
    let first = ask(Some(1))?.scenario;
    let cpus = first.cpus.len();
    let writers = args.writers.unwrap_or(if shared { cpus } else { 2 * cpus });
    let readers = args.readers.unwrap_or(if shared { cpus } else { 0 });
    if writers + readers == 0 {
        return Err(TortureUsage::NoThreads(match shared {
            true => "--writers and --readers",
            false => "--writers (the lock has no read side)",
        })
        .into());
    }
    let how = Torture {
        long_hold: hold,
        nested_locks: args.nested_locks,
        acquire_limit: args.acq_writer_lim,
        stutter: args.stutter,
        shuffle_interval: shuffle_interval(args, first.machine)?,
        writer_fifo: args.writer_fifo,
        irqs_off: args.irqs_off,
    };
    if how.irqs_off && !first.machine.is_simulated() {
        return Err(MachineUsage::not_simulated("--irqs-off", first.machine).into());
    }
    if cpus == 1 && args.shuffle_interval.is_some_and(|i| !i.is_zero()) {
        let (option, why) = ("--shuffle-interval".to_owned(), "there is one CPU");
        return Err(NoEffect { option, why }.into());
    }
    if how.writer_fifo && first.machine.is_simulated() {
        return Err(MachineUsage::OnlyReal("--writer-fifo").into());
    }
    let shuffled = cpus > 1 && !how.shuffle_interval.is_zero();
    if how.writer_fifo && writers > cpus - usize::from(shuffled) {
        return Err(TortureUsage::FifoOvercommitted { writers, cpus }.into());
    }
    let mut request = ask(Some(writers + readers))?;
    let scenario = &mut request.scenario;
    scenario.workload.locks = 1 + how.nested_locks;
    scenario.workload.mix = Mix::Readers(readers);
    scenario.torture = Some(how);
    Ok((request, how))
}

/// Nobody but its hypervisor moves the vCPUs of a simulated machine.
fn shuffle_interval(args: &TortureArgs, machine: MachineKind) -> Result<Duration, MachineUsage> {
    match (machine.is_simulated(), args.shuffle_interval) {
        (true, Some(interval)) if !interval.is_zero() => {
            Err(MachineUsage::OnlyReal("--shuffle-interval"))
        }
        (true, _) => Ok(Duration::ZERO),
        (false, given) => Ok(given.unwrap_or(SHUFFLE_INTERVAL)),
    }
}
