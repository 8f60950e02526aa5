//! `pvlab torture`.

mod count;
mod course;
mod late;
mod lines;
mod pauses;
pub(crate) mod record;
pub(crate) mod report;
mod shuffle;
mod stop;
pub(crate) mod verdict;
mod watch;

use crate::host::Host;
use crate::options::args::{
    Common, DataArgs, MachineArgs, MixArgs, OfferArgs, ShortFormatArg, cpl,
};
use crate::options::effect;
use crate::options::error::{CliError, Usage};
use crate::options::exit::{BROKEN, DONE, interrupted, watch};
use crate::options::mix;
use crate::options::output::Target;
use crate::options::progress::{Aside, Progress, Watcher};
use crate::options::request::{Guests, Request, request};
use crate::options::values;
use crate::options::values::{LockArg, LockParser, OutsideArg, PlacementArg};
use crate::record::Context;
use crate::report::Format;
use crate::report::headline::headline;
use crate::scenario::{Cpl, Length, MachineKind, Mix, Torture, WorkTime};
use crate::selection::SlowPath;
use abi::Dispatch;
use clap::Args;
use pvlock::LockKind;
use report::TortureReport;
use std::path::PathBuf;
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
    #[arg(long, value_name = "LOCK", value_parser = LockParser)]
    lock: LockArg,
    /// Threads that take it for writing, or exclusively [default: 2 for each CPU, or 1 if the lock has
    /// a read side].
    #[arg(long, value_name = "N", value_parser = values::threads)]
    writers: Option<usize>,
    /// Threads that take it for reading [default: 1 for each CPU if the lock has a read side].
    #[arg(long, value_name = "N", value_parser = values::threads)]
    readers: Option<usize>,
    /// Length of the test, with unit, at most 30 days.
    #[arg(long, value_name = "TIME", default_value = "30s",
          value_parser = values::nonzero_long_duration)]
    duration: Duration,
    /// Show what has been done at this interval (at least 1ms) [default: 60s, or the whole test].
    #[arg(long, value_name = "TIME", value_parser = values::long_interval)]
    stat_interval: Option<Duration>,
    /// Length of the rare long holds, with unit; 0: none.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = values::duration)]
    long_hold: Duration,
    /// Let everybody work for this long, then pause for as long, and so on; 0: no pauses.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::long_duration)]
    stutter: Duration,
    /// Locks (at most 8) of which each turn takes some at random before it takes the one under torture.
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::nested_locks)]
    nested_locks: usize,
    /// Give writers real-time scheduling (SCHED_FIFO).
    #[arg(long)]
    writer_fifo: bool,
    /// Leave another CPU idle at this interval, and none after the last, moving the threads to the
    /// others; 0: never [default: 3s; never on a simulated machine].
    #[arg(long, value_name = "TIME", value_parser = values::long_duration)]
    shuffle_interval: Option<Duration>,
    /// Longest time that an acquisition of a writer may take; longer ones are failures; 0: any time.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    acq_writer_lim: Duration,
    /// Let Max/Min be of failures, as locktorture's was until 2020, instead of acquisitions.
    #[arg(long)]
    legacy_max_min: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// Turns that a waiter of a paravirtual lock spins before it halts (at least 1) [default: 32768].
    #[arg(long, value_name = "TURNS", value_parser = values::spin_threshold)]
    spin_threshold: Option<u32>,
    /// Privilege level of the guest: 0, 3, or 0 where the host runs it natively [default: auto].
    #[arg(long, value_parser = cpl())]
    cpl: Option<Cpl>,
    /// Seed of every random choice.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::whole)]
    seed: u64,
    /// The lock is stuck, which is a failure, if nobody makes an acquisition for this long.
    #[arg(long, value_name = "TIME", default_value = "3s",
          value_parser = values::nonzero_long_duration)]
    watchdog: Duration,
    /// Never tell locks that a vCPU is preempted (vcpu_is_preempted), even where that is known: shows what
    /// it is worth.
    #[arg(long)]
    no_vcpu_is_preempted: bool,
    /// Fault injection: drop kicks, so that halted waiters sleep for ever.
    #[arg(long, hide = true)]
    drop_kicks: bool,
    #[command(flatten)]
    offer: OfferArgs,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = ShortFormatArg::Table)]
    format: ShortFormatArg,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Tortures the lock and reports.
pub(crate) fn torture(args: &TortureArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let format = Format::from(args.format);
    let (request, how) = torture_request(args, &host)?;
    let stat_interval = match args.stat_interval {
        Some(interval) if interval > args.duration => {
            let duration = args.duration;
            return Err(Usage::IntervalTooLong { interval, duration }.into());
        }
        given => given.unwrap_or(STAT_INTERVAL.min(args.duration)),
    };
    let machine = request.scenario.machine;
    for (option, time) in [
        ("--stat-interval", args.stat_interval.unwrap_or_default()),
        ("--stutter", how.stutter),
        ("--shuffle-interval", how.shuffle_interval),
    ] {
        effect::check_time(option, time, machine)?;
    }
    if args.duration.as_nanos() / stat_interval.as_nanos().max(1) > MOST_INTERVALS {
        let (interval, duration) = (stat_interval, args.duration);
        return Err(Usage::TooManyIntervals { interval, duration }.into());
    }
    let target = Target::check(args.output.as_deref())?;
    watch(&target);
    let scenario = request.scenario;
    let context = Context::new(host, request.machine_reason, &scenario);
    let live = format == Format::Table && target.is_stdout();
    let progress = Progress::new(1, Some(args.duration));
    progress.begin(String::new());
    let aside = if live { Aside::Report } else { Aside::Stderr };
    let mut head = vec![headline(&context, &scenario)];
    head.extend(SlowPath::lines(&SlowPath::of_vms(&scenario)));
    head.push(lines::start(&scenario, stat_interval));
    if progress.tell(aside, &head).is_break() {
        return Ok(DONE);
    }
    let mut watcher = Watcher::telling(&progress, aside, |counts| {
        lines::interval(counts, args.legacy_max_min)
    });
    let result = course::run(&scenario, &how, stat_interval, &mut watcher);
    drop(watcher);
    drop(progress);

    let record = result?;
    let report = TortureReport::new(context, stat_interval, args.legacy_max_min, record);
    target.write(&report.render(format, !live))?;
    if report.record.interrupted {
        let measured = report.record.measured_s;
        return Ok(interrupted(&format!(
            "interrupted after {measured:.1} s; the report is of these"
        )));
    }
    Ok(if report.failures.is_empty() {
        DONE
    } else {
        BROKEN
    })
}

/// Statistics intervals of a test, at most: the report has them all.
const MOST_INTERVALS: u128 = 1_000_000;

/// Statistics interval, unless said otherwise; at most the test.
const STAT_INTERVAL: Duration = Duration::from_secs(60);

/// Another CPU is left idle this often, unless said otherwise.
const SHUFFLE_INTERVAL: Duration = Duration::from_secs(3);

/// What to run: the scenario, and the torture in it.
fn torture_request(args: &TortureArgs, host: &Host) -> Result<(Request, Torture), CliError> {
    let lock = args.lock;
    if lock.dispatch != Dispatch::Direct {
        return Err(Usage::TortureDispatch(lock.to_string()).into());
    }
    let shared = lock.kind.is_some_and(LockKind::is_rw);
    if !shared && args.readers.is_some_and(|readers| readers > 0) {
        return Err(mix::no_read_side("--readers", lock.to_string()).into());
    }
    if args.watchdog <= args.long_hold {
        return Err(Usage::ImpatientTorture {
            watchdog: args.watchdog,
            hold: args.long_hold,
        }
        .into());
    }
    let ask = |vcpus| {
        let guests = Guests::One { lock, vcpus };
        request(&common(args), guests, Length::Duration(args.duration), host)
    };
    // The CPUs first: the defaults depend on their number.
    let first = ask(Some(1))?.scenario;
    let cpus = first.cpus.len();
    let writers = args.writers.unwrap_or(if shared { cpus } else { 2 * cpus });
    let readers = args.readers.unwrap_or(if shared { cpus } else { 0 });
    if writers + readers == 0 {
        let choice = if shared {
            "--writers and --readers"
        } else {
            "--writers (the lock has no read side)"
        };
        return Err(Usage::NoThreads(choice).into());
    }
    let how = Torture {
        long_hold: args.long_hold,
        nested_locks: args.nested_locks,
        acquire_limit: args.acq_writer_lim,
        stutter: args.stutter,
        shuffle_interval: shuffle_interval(args, first.machine)?,
        writer_fifo: args.writer_fifo,
    };
    if cpus == 1 && args.shuffle_interval.is_some_and(|i| !i.is_zero()) {
        return Err(Usage::NoEffect {
            option: "--shuffle-interval".to_owned(),
            why: "there is one CPU",
        }
        .into());
    }
    if how.writer_fifo && first.machine.is_simulated() {
        return Err(Usage::OnlyReal("--writer-fifo").into());
    }
    let shuffled = cpus > 1 && !how.shuffle_interval.is_zero();
    if how.writer_fifo && writers > cpus - usize::from(shuffled) {
        return Err(Usage::FifoOvercommitted { writers, cpus }.into());
    }
    let mut request = ask(Some(writers + readers))?;
    let scenario = &mut request.scenario;
    scenario.workload.locks = 1 + how.nested_locks;
    scenario.workload.mix = Mix::Readers(readers);
    scenario.torture = Some(how);
    Ok((request, how))
}

/// Nobody but its hypervisor moves the vCPUs of a simulated machine.
fn shuffle_interval(args: &TortureArgs, machine: MachineKind) -> Result<Duration, Usage> {
    match (machine.is_simulated(), args.shuffle_interval) {
        (true, Some(interval)) if !interval.is_zero() => Err(Usage::OnlyReal("--shuffle-interval")),
        (true, _) => Ok(Duration::ZERO),
        (false, given) => Ok(given.unwrap_or(SHUFFLE_INTERVAL)),
    }
}

/// The options that all runs have.
fn common(args: &TortureArgs) -> Common {
    Common {
        machine: args.machine.clone(),
        critical: WorkTime::ZERO,
        outside: OutsideArg::default(),
        data: DataArgs::default(),
        lock_count: Some(1),
        mix: MixArgs::NONE,
        warm_up: Duration::ZERO,
        spin_threshold: args.spin_threshold,
        placement: PlacementArg::Floating,
        noise: 0,
        cpl: args.cpl,
        no_latency: false,
        seed: args.seed,
        watchdog: args.watchdog,
        preempt: None,
        no_vcpu_is_preempted: args.no_vcpu_is_preempted,
        drop_kicks: args.drop_kicks,
        offer: args.offer,
    }
}

#[cfg(test)]
mod tests;
