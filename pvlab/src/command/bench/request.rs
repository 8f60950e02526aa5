//! From the options of `pvlab bench` to its plan, or why that makes no sense.

use super::error::BenchUsage;
use super::plan::{BenchPlan, Column, Load, Ratio, TableKind};
use super::{BenchArgs, BenchMixArg, ModeArg};
use crate::host::Host;
use crate::options::common::Request;
use crate::options::error::CliError;
use crate::options::guests::Guests;
use crate::options::lock::LockArg;
use crate::options::times::length;
use crate::options::work;
use crate::scenario::{BenchKind, Lock, Placement, Scenario, WorkTime};
use abi::MAX_TASKS;
use std::fmt::Display;

/// Operations of each thread in tables of execution times (mail of 3 August 2014).
const OPERATIONS: u64 = 1_000_000;

/// The plan, and why its machine was chosen.
pub(crate) fn plan(args: &BenchArgs, host: &Host) -> Result<(BenchPlan, String), CliError> {
    let workload = args.workload;
    check_options(args)?;
    let layout = layout(args);
    let columns = columns(args, layout);
    let threads = threads(args);
    check_twice("--threads", &threads)?;
    let operations = args
        .ops
        .or((layout == TableKind::Times && args.duration.is_none()).then_some(OPERATIONS));
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
        let guests = Guests::Alternatives {
            locks: locks(args),
            first: 0,
            vcpus: Some(vcpus),
        };
        (args.base).request(guests, length, &Placement::Pinned, host, work)
    };
    // The machine and its CPUs first: the number of vCPUs depends on them.
    let first = ask(1)?.scenario;
    let most = threads.iter().copied().max().unwrap_or(1);
    let facts = first.machine.facts();
    let (vcpus, asked) = match (facts.tasks, args.vcpus) {
        (false, Some(_)) => return Err(usage(BenchUsage::VcpusOfThreads)),
        // More are refused below.
        (false, None) => (most, most.min(facts.most_vcpus)),
        (true, given) => {
            let vcpus = given.unwrap_or(first.cpus.len());
            (vcpus, vcpus)
        }
    };
    let Request {
        scenario: run,
        machine_reason,
        locks,
    } = ask(asked)?;
    check_reads(args, &locks, &columns)?;
    if args.split && !columns.iter().any(|column| column.split) {
        return Err(usage(BenchUsage::NothingToSplit));
    }
    let plan = BenchPlan {
        workload,
        layout,
        locks,
        threads,
        columns,
        rounds: args.rounds,
        random_mix: args.mix == Some(BenchMixArg::Random),
        vcpus,
        run,
    };
    check_threads(&plan)?;
    Ok((plan, machine_reason))
}

fn usage(error: BenchUsage) -> CliError {
    error.into()
}

/// Options of rwsem-bench are of no other.
fn check_options(args: &BenchArgs) -> Result<(), CliError> {
    if args.workload == BenchKind::RwsemBench {
        if layout(args) == TableKind::Times && !args.modes.is_empty() {
            return Err(usage(BenchUsage::ModesOfTimes));
        }
        check_twice("--ratios", &args.ratios)?;
        check_twice("--loads", &args.loads)?;
        let modes: Vec<_> = args.modes.iter().map(|mode| mode.name()).collect();
        return check_twice("--modes", &modes);
    }
    let given = [
        ("--modes", !args.modes.is_empty()),
        ("--ratios", !args.ratios.is_empty()),
        ("--loads", !args.loads.is_empty()),
        ("--split", args.split),
        ("--mix", args.mix.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some(&(option, _)) => Err(usage(BenchUsage::NotOfWorkload {
            option,
            workload: args.workload.name(),
        })),
        None => Ok(()),
    }
}

fn check_twice<T: PartialEq + Display>(option: &'static str, values: &[T]) -> Result<(), CliError> {
    for (i, value) in values.iter().enumerate() {
        if values[..i].contains(value) {
            let value = value.to_string();
            return Err(usage(BenchUsage::Twice { option, value }));
        }
    }
    Ok(())
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
    let loads = match args.loads.as_slice() {
        [] => &[Load::Pauses(1)],
        loads => loads,
    };
    let column = |name: String, ratio: Ratio, load| Column {
        name,
        split: args.split && ratio.reads > 0 && ratio.writes > 0,
        ratio,
        load,
    };
    match layout {
        TableKind::Rates => {
            let modes = match args.modes.as_slice() {
                [] => &ModeArg::ALL,
                modes => modes,
            };
            let mode = |mode: &ModeArg| column(mode.name().to_owned(), mode.ratio(), loads[0]);
            modes.iter().map(mode).collect()
        }
        TableKind::Times => {
            const RATIOS: [Ratio; 3] = [
                Ratio::WRITES,
                Ratio::EQUAL,
                Ratio {
                    reads: 10,
                    writes: 1,
                },
            ];
            let ratios = match args.ratios.as_slice() {
                [] => &RATIOS,
                ratios => ratios,
            };
            let of = |&ratio: &Ratio| {
                let named = move |&load| column(format!("{ratio} load {load}"), ratio, load);
                loads.iter().map(named).collect::<Vec<_>>()
            };
            ratios.iter().flat_map(of).collect()
        }
        TableKind::PerThread | TableKind::RoundTrips => {
            let name = args.workload.name().to_owned();
            vec![column(name, Ratio::WRITES, Load::Pauses(0))]
        }
    }
}

fn locks(args: &BenchArgs) -> Vec<LockArg> {
    if !args.locks.is_empty() {
        return args.locks.clone();
    }
    vec![args.workload.default_lock().into()]
}

/// A lock without a read side only writes, unless reads were asked for.
fn check_reads(args: &BenchArgs, locks: &[Lock], columns: &[Column]) -> Result<(), CliError> {
    let asked = [
        ("--modes", !args.modes.is_empty()),
        ("--ratios", !args.ratios.is_empty()),
    ];
    let asked = asked.iter().find(|(_, given)| *given);
    let reads = columns.iter().any(|column| column.ratio.reads > 0);
    if let (Some(&(option, _)), true) = (asked, reads) {
        work::check_reads(option, locks)?;
    }
    Ok(())
}

fn threads(args: &BenchArgs) -> Vec<usize> {
    match (args.threads.as_slice(), args.workload) {
        ([], BenchKind::Pipe) => vec![2, 4, 8, 16],
        ([], _) => vec![1, 2, 4, 8, 16],
        (threads, _) => threads.to_vec(),
    }
}

fn check_threads(plan: &BenchPlan) -> Result<(), CliError> {
    let split = || plan.columns.iter().filter(|column| column.split);
    for &threads in &plan.threads {
        if plan.workload == BenchKind::Pipe && !threads.is_multiple_of(2) {
            return Err(usage(BenchUsage::OddThreads(threads)));
        }
        if let Some(column) = split().find(|column| column.ratio.readers(threads).is_none()) {
            let ratio = column.ratio.to_string();
            return Err(usage(BenchUsage::NotSplit { threads, ratio }));
        }
        let facts = plan.run.machine.facts();
        let vcpus = plan.vcpus;
        let (most, too_many) = if facts.tasks {
            let most = vcpus * MAX_TASKS;
            let too_many = BenchUsage::TooManyThreads {
                threads,
                vcpus,
                most,
            };
            (most, too_many)
        } else {
            let most = facts.most_vcpus;
            (most, BenchUsage::TooManyHostThreads { threads, most })
        };
        if threads > most {
            return Err(usage(too_many));
        }
    }
    Ok(())
}
