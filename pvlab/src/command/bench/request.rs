//! From the options of `pvlab bench` to its plan, or why that makes no sense.

use super::plan::{BenchPlan, Column, Load, Ratio, TableKind};
use super::{BenchArgs, ModeArg};
use crate::host::Host;
use crate::options::{CliError, Guests, length, usage, work};
use crate::record::Context;
use crate::scenario::{BenchKind, Lock, Placement, Scenario, WorkTime};
use abi::MAX_TASKS;
use clap::ValueEnum;
use std::fmt::Display;

/// Operations of each thread in tables of execution times (mail of 3 August 2014).
const OPERATIONS: u64 = 1_000_000;

/// What is wrong with how `pvlab bench` was called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchUsage {
    #[error("{option} applies only to rwsem-bench; {workload} has no reads and no load")]
    NotOfWorkload {
        option: &'static str,
        workload: &'static str,
    },
    #[error("--modes: the table of several loads has rows for --ratios instead, such as 0:1,1:1")]
    ModesOfTimes,
    #[error("--threads {0}: pipe's threads come in pairs; give even numbers")]
    OddThreads(usize),
    #[error(
        "--split: {threads} threads cannot be split {ratio} into those that read and those that write; \
         choose other --threads"
    )]
    NotSplit { threads: usize, ratio: String },
    #[error("--split: nothing is both read and written; choose other --modes or --ratios")]
    NothingToSplit,
    #[error(
        "--threads {threads}: {vcpus} vCPUs have at most {most} tasks; give fewer, or more --vcpus"
    )]
    TooManyThreads {
        threads: usize,
        vcpus: usize,
        most: usize,
    },
    #[error("--threads {threads}: at most {most} host threads, as the lock word can name no more")]
    TooManyHostThreads { threads: usize, most: usize },
    #[error(
        "--vcpus applies only to --machine kvm and simulated ones; each host thread is a vCPU of its own"
    )]
    VcpusOfThreads,
    #[error("{option}: {value} is there twice")]
    Twice { option: &'static str, value: String },
}

usage!(BenchUsage);

/// The plan, and where it is run.
pub(crate) fn plan(args: &BenchArgs, host: &Host) -> Result<(BenchPlan, Context), CliError> {
    let workload = args.workload;
    check_options(args)?;
    let layout = layout(args);
    let columns = columns(args, layout);
    let default: &[usize] = match workload {
        BenchKind::Pipe => &[2, 4, 8, 16],
        _ => &[1, 2, 4, 8, 16],
    };
    let threads = or(&args.threads, default).to_vec();
    check_twice("--threads", &threads)?;
    let timed = layout == TableKind::Times && args.duration.is_none();
    let operations = args.ops.or(timed.then_some(OPERATIONS));
    let length = length(args.duration.unwrap_or(super::DURATION), operations);
    let longest = columns.iter().map(|column| match column.load {
        Load::Ns(ns) => ns,
        Load::Pauses(_) => WorkTime::ZERO,
    });
    let critical = longest.max().unwrap_or(WorkTime::ZERO);
    let work = |scenario: &mut Scenario, locks: &[Lock]| {
        let workload = &mut scenario.workload;
        workload.critical = critical;
        workload.outside = args.outside.mean;
        workload.outside_spread = args.outside.spread;
        workload.data = args.data.resolve(locks)?;
        scenario.warm_up = args.warm_up;
        scenario.latency = args.latency;
        scenario.watchdog = args.watchdog;
        Ok(())
    };
    let ask = |vcpus| {
        let default = [args.workload.default_lock().into()];
        let guests = Guests::one_of(or(&args.locks, &default), Some(vcpus));
        (args.base).request(guests, length, &Placement::Pinned, host, work)
    };
    // The machine and its CPUs first: the number of vCPUs depends on them.
    let first = ask(1)?.scenario;
    let most = threads.iter().copied().max().unwrap_or(1);
    let facts = first.machine.facts();
    let (vcpus, asked) = match (facts.tasks, args.vcpus) {
        (false, Some(_)) => return Err(BenchUsage::VcpusOfThreads.into()),
        // More are refused below.
        (false, None) => (most, most.min(facts.most_vcpus)),
        (true, given) => {
            let vcpus = given.unwrap_or(first.cpus.len());
            (vcpus, vcpus)
        }
    };
    let asked = ask(asked)?;
    check_reads(args, &asked.locks, &columns)?;
    if args.split && !columns.iter().any(|column| column.split) {
        return Err(BenchUsage::NothingToSplit.into());
    }
    let plan = BenchPlan {
        workload,
        layout,
        locks: asked.locks,
        threads,
        columns,
        rounds: args.rounds,
        random_mix: args.mix.unwrap_or(false),
        vcpus,
        run: asked.scenario,
    };
    check_threads(&plan)?;
    Ok((plan, asked.context))
}

/// Options of rwsem-bench are of no other.
fn check_options(args: &BenchArgs) -> Result<(), BenchUsage> {
    if args.workload == BenchKind::RwsemBench {
        if layout(args) == TableKind::Times && !args.modes.is_empty() {
            return Err(BenchUsage::ModesOfTimes);
        }
        check_twice("--ratios", &args.ratios)?;
        check_twice("--loads", &args.loads)?;
        let modes: Vec<_> = args.modes.iter().map(|mode| mode.column().0).collect();
        return check_twice("--modes", &modes);
    }
    let given = [
        ("--modes", !args.modes.is_empty()),
        ("--ratios", !args.ratios.is_empty()),
        ("--loads", !args.loads.is_empty()),
        ("--split", args.split),
        ("--mix", args.mix.is_some()),
    ];
    let workload = args.workload.name();
    match given.iter().find(|(_, given)| *given) {
        Some(&(option, _)) => Err(BenchUsage::NotOfWorkload { option, workload }),
        None => Ok(()),
    }
}

fn check_twice<T: PartialEq + Display>(
    option: &'static str,
    values: &[T],
) -> Result<(), BenchUsage> {
    let twice = |&i: &usize| values[..i].contains(&values[i]);
    match (0..values.len()).find(twice).map(|i| values[i].to_string()) {
        Some(value) => Err(BenchUsage::Twice { option, value }),
        None => Ok(()),
    }
}

fn layout(args: &BenchArgs) -> TableKind {
    match args.workload {
        BenchKind::RwsemBench if !args.ratios.is_empty() || args.loads.len() > 1 => {
            TableKind::Times
        }
        BenchKind::RwsemBench => TableKind::Rates,
        BenchKind::Pipe => TableKind::RoundTrips,
        _ => TableKind::PerThread,
    }
}

fn columns(args: &BenchArgs, layout: TableKind) -> Vec<Column> {
    let loads = or(&args.loads, &[Load::Pauses(1)]);
    let column = |name: String, ratio: Ratio, load| Column {
        name,
        split: args.split && ratio.reads > 0 && ratio.writes > 0,
        ratio,
        load,
    };
    match layout {
        TableKind::Rates => {
            let modes = or(&args.modes, ModeArg::value_variants()).iter();
            let columns = modes.map(|mode| mode.column());
            let columns = columns.map(|(name, ratio)| column(name.to_owned(), ratio, loads[0]));
            columns.collect()
        }
        TableKind::Times => {
            const RATIOS: [Ratio; 3] = [Ratio::WRITES, Ratio::EQUAL, Ratio::new(10, 1)];
            let of = |&ratio: &Ratio| {
                let named = move |&load| column(format!("{ratio} load {load}"), ratio, load);
                loads.iter().map(named)
            };
            or(&args.ratios, &RATIOS).iter().flat_map(of).collect()
        }
        TableKind::PerThread | TableKind::RoundTrips => {
            let name = args.workload.name().to_owned();
            vec![column(name, Ratio::WRITES, Load::Pauses(0))]
        }
    }
}

/// What was given, or else the default.
fn or<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}

/// A lock without a read side only writes, unless reads were asked for.
fn check_reads(args: &BenchArgs, locks: &[Lock], columns: &[Column]) -> Result<(), CliError> {
    let option = match (args.modes.is_empty(), args.ratios.is_empty()) {
        (false, _) => "--modes",
        (true, false) => "--ratios",
        (true, true) => return Ok(()),
    };
    match columns.iter().any(|column| column.ratio.reads > 0) {
        true => Ok(work::check_reads(option, locks)?),
        false => Ok(()),
    }
}

fn check_threads(plan: &BenchPlan) -> Result<(), BenchUsage> {
    let split = || plan.columns.iter().filter(|column| column.split);
    for &threads in &plan.threads {
        if plan.workload == BenchKind::Pipe && !threads.is_multiple_of(2) {
            return Err(BenchUsage::OddThreads(threads));
        }
        if let Some(column) = split().find(|column| column.ratio.readers(threads).is_none()) {
            let ratio = column.ratio.to_string();
            return Err(BenchUsage::NotSplit { threads, ratio });
        }
        let facts = plan.run.machine.facts();
        let vcpus = facts.tasks.then_some(plan.vcpus);
        let most = vcpus.map_or(facts.most_vcpus, |vcpus| vcpus * MAX_TASKS);
        if threads > most {
            return Err(match vcpus {
                Some(vcpus) => BenchUsage::TooManyThreads {
                    threads,
                    vcpus,
                    most,
                },
                None => BenchUsage::TooManyHostThreads { threads, most },
            });
        }
    }
    Ok(())
}
