//! `pvlab bench`.

pub(crate) mod plan;
pub(crate) mod report;
mod request;
pub(crate) mod result;
mod values;

use crate::host::Host;
use crate::options::{
    BROKEN, BaseArgs, CliError, DONE, DataArgs, JobsArgs, LockArg, OutsideArg, Progress,
    ReportArgs, Target, cells, complain, duration, each, interrupted, jobs, lock_parser, named,
    nonzero_duration, outside, rounds, vcpus, watch,
};
use crate::record::{Ended, VmRecord};
use crate::scenario::BenchKind;
use crate::session::RunError;
use clap::builder::EnumValueParser;
use clap::{Args, ValueEnum};
use plan::{BenchPlan, Cell, Load, Ratio};
use report::BenchReport;
use result::{BenchResult, RunFigures};
use std::ops::ControlFlow;
use std::time::Duration;

/// What follows the help: examples, and what each workload is.
pub(crate) fn after_help() -> String {
    let mut text = EXAMPLES.to_owned();
    for kind in BenchKind::ALL {
        for (number, line) in kind.about().iter().enumerate() {
            let name = if number == 0 { kind.name() } else { "" };
            text += &format!("\n  {name:<12} {line}");
        }
    }
    text + "\n\n" + NOTES
}

fn locks_help() -> String {
    let locks = BenchKind::ALL.map(|kind| kind.default_lock().name());
    format!(
        "The locks; the second and later ones are compared with the first [default: what the kernel has in \
         that place: {}]",
        locks.join(", ")
    )
}

const EXAMPLES: &str = "\
Examples:
  pvlab bench rwsem-bench --locks rwsem --threads 1,2,4,8,16,32,64
  pvlab bench rwsem-bench --locks rwlock,rwsem --threads 1,2 --rounds 5   before and after
  pvlab bench rwsem-bench --locks mutex,rwsem --threads 2,10 --loads 1,5,10
  pvlab bench rwsem-bench --locks rwsem --threads 2,10 --ratios 1:1,10:1 --loads 1,100ns
  pvlab bench rwsem-bench --locks rwsem --threads 16 --split --latency
  pvlab bench rwsem-bench --locks rwsem --threads 16 --mix random --outside 1us:exp
  pvlab bench futex-hash --locks qspinlock,pv-qspinlock --threads 1,2,4 --vcpus 4
  pvlab bench pipe --locks mutex --threads 2,1000 --duration 2s --format markdown

Workloads:";

const NOTES: &str = "\
Threads are tasks that share the vCPUs as threads share CPUs; on --machine threads they are host threads.
The locks of a lock list are compared with its first.";

/// How long a run is, unless said otherwise.
const DURATION: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What the threads do.
    #[arg(value_name = "WORKLOAD", value_parser = named(&WORKLOADS))]
    workload: BenchKind,
    #[arg(long, value_name = "LOCK,...", value_delimiter = ',', value_parser = each(lock_parser()),
          help = locks_help())]
    locks: Vec<LockArg>,
    /// Numbers of threads [default: 1,2,4,8,16; for pipe from 2 on].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = each(values::threads))]
    threads: Vec<usize>,
    /// vCPUs that the threads share, if there are as many threads [default: one for each CPU].
    #[arg(long, value_name = "N", value_parser = vcpus)]
    vcpus: Option<usize>,
    /// Columns of rwsem-bench's table of rates [default: all that the lock can do].
    #[arg(long, value_name = "MODE,...", value_delimiter = ',',
          value_parser = each(EnumValueParser::<ModeArg>::new()))]
    modes: Vec<ModeArg>,
    /// Rows of rwsem-bench's table of execution times: reads to writes [default: 0:1,1:1,10:1].
    #[arg(long, value_name = "R:W,...", value_delimiter = ',', value_parser = each(values::ratio))]
    ratios: Vec<Ratio>,
    /// What rwsem-bench does inside the critical section: pauses, such as 10, or a time, such as 100ns
    /// [default: 1].
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = each(values::load))]
    loads: Vec<Load>,
    /// Let each thread of rwsem-bench only read or only write, instead of both in turn.
    #[arg(long)]
    split: bool,
    /// Which operations of rwsem-bench read, where a thread both reads and writes: evenly spread ones
    /// (alternate), or by chance, by --seed (random) [default: alternate].
    #[arg(long, value_name = "HOW", value_parser = named(&[("alternate", false), ("random", true)]))]
    mix: Option<bool>,
    /// Think for this long, with unit, between two operations; TIME:exp is random, with that mean.
    #[arg(long, value_name = "TIME[:exp]", default_value = "0", value_parser = outside)]
    outside: OutsideArg,
    #[command(flatten)]
    data: DataArgs,
    /// Operations of each thread in a run, instead of --duration [default for execution times: 1000000].
    #[arg(long, value_name = "N", value_parser = values::operations, conflicts_with = "duration")]
    ops: Option<u64>,
    /// Length of each run, with unit, not counting the warm-up [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = nonzero_duration)]
    duration: Option<Duration>,
    /// How often each cell of the table is run; rounds are interleaved, and the table shows medians.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
    /// Time every acquisition, and report the longest waits. It makes short operations much slower.
    #[arg(long)]
    latency: bool,
    #[command(flatten)]
    base: BaseArgs,
    #[command(flatten)]
    jobs: JobsArgs,
    /// Least time before the measurement of each run starts, with unit.
    #[arg(long, value_name = "TIME", default_value = "100ms",
          value_parser = duration)]
    warm_up: Duration,
    /// A run without any acquisition for this long (with unit) is reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = nonzero_duration)]
    watchdog: Duration,
    #[command(flatten)]
    report: ReportArgs,
}

/// A column of the table of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Everybody writes.
    Wlock,
    /// Everybody reads.
    Rlock,
    /// As many reads as writes.
    Mixed,
}

impl ModeArg {
    const fn column(self) -> (&'static str, Ratio) {
        match self {
            Self::Wlock => ("wlock", Ratio::WRITES),
            Self::Rlock => ("rlock", Ratio::READS),
            Self::Mixed => ("mixed", Ratio::EQUAL),
        }
    }
}

const WORKLOADS: [(&str, BenchKind); BenchKind::ALL.len()] = {
    let [a, b, c, d] = BenchKind::ALL;
    [(a.name(), a), (b.name(), b), (c.name(), c), (d.name(), d)]
};

enum End {
    Complete,
    Interrupted,
    Broken(String),
    Failed(RunError),
}

pub(crate) fn bench(args: &BenchArgs) -> Result<u8, CliError> {
    let (plan, context) = request::plan(args, &Host::examine())?;
    let jobs = jobs(args.jobs, plan.run.machine)?;
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    let (runs, end) = run_all(&plan, jobs);
    let all = plan.order(0).len() * plan.rounds;
    let done = runs.len();
    // What is complete is reported, whatever came then.
    if done > 0 {
        let ended = match end {
            End::Complete => Ended::Complete,
            End::Broken(_) => Ended::ExclusionBroken,
            End::Interrupted | End::Failed(_) => Ended::Interrupted,
        };
        let result = BenchResult::new(plan, &runs, ended);
        target.write(&BenchReport { context, result }.render(args.report.format))?;
    }
    match end {
        End::Complete => Ok(DONE),
        End::Interrupted if done == 0 => Ok(interrupted(
            "interrupted before the first run was complete; there is nothing to report",
        )),
        End::Interrupted => Ok(interrupted(&format!(
            "interrupted after {done} of {all} runs; the report is of these"
        ))),
        End::Broken(line) => {
            complain(&line);
            Ok(BROKEN)
        }
        End::Failed(error) => Err(error.into()),
    }
}

/// The complete runs, and how they ended.
fn run_all(plan: &BenchPlan, jobs: usize) -> (Vec<(Cell, RunFigures)>, End) {
    let round = |round| plan.order(round).into_iter().map(move |cell| (round, cell));
    let places: Vec<_> = (0..plan.rounds).flat_map(round).collect();
    let cells = places.iter().map(|&(round, cell)| cells::Cell {
        name: format!(
            "round {}/{} {} {} threads {}",
            round + 1,
            plan.rounds,
            plan.locks[cell.lock],
            plan.threads[cell.threads],
            plan.columns[cell.column].name,
        ),
        scenario: plan.scenario(cell, round),
    });
    let cells: Vec<_> = cells.collect();
    let mut progress = Progress::new(cells.len(), plan.expected());
    let mut runs = Vec::new();
    let mut end = End::Complete;
    cells::run_all(&cells, jobs, &mut progress, |number, result| {
        let cell = places[number].1;
        end = match result {
            Ok(record) => match record.vms.iter().find(|vm| !vm.exclusion.held()) {
                Some(vm) => End::Broken(broken(vm, plan.threads[cell.threads])),
                None if record.interrupted => End::Interrupted,
                None => {
                    runs.push((cell, RunFigures::of(plan.workload, &record)));
                    return ControlFlow::Continue(());
                }
            },
            Err(RunError::Interrupted) => End::Interrupted,
            Err(error) => End::Failed(error),
        };
        ControlFlow::Break(())
    });
    (runs, end)
}

fn broken(vm: &VmRecord, threads: usize) -> String {
    let (exclusion, lock) = (vm.exclusion, &vm.lock);
    format!(
        "{lock} broke mutual exclusion: {} times somebody else was inside, {} acquisitions but {} \
         entries ({threads} threads)",
        exclusion.violations.unwrap_or(0),
        exclusion.acquisitions,
        exclusion.entries.unwrap_or(0)
    )
}
