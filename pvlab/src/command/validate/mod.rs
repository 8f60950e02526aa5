//! `pvlab validate`.

pub(crate) mod report;
pub(crate) mod result;

use super::calibrate::fit::twin;
use crate::host::Host;
use crate::options::cells;
use crate::options::cells::Cell;
use crate::options::common::Common;
use crate::options::effect;
use crate::options::error::CliError;
use crate::options::exit::{DONE, interrupted, watch};
use crate::options::guests::{Guests, vcpus};
use crate::options::lock::{LockArg, lock_parser};
use crate::options::machine::{JobsArgs, MachineArg, MachineUsage, jobs, machine_parser};
use crate::options::numbers::{each, rounds};
use crate::options::output::{ReportArgs, Target};
use crate::options::times::nonzero_duration;
use crate::record::Context;
use crate::record::Record;
use crate::scenario::{Length, Lock, Scenario, Simulated, VmSpec};
use clap::Args;
use report::ValidateReport;
use result::ValidationCell;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab validate                                        this host against the preset 'here'
  pvlab calibrate -o host.toml && pvlab validate --against sim:./host.toml
  pvlab validate --locks tas,pv-qspinlock --vcpus 8 --rounds 5 --format csv";

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The simulated machine.
    #[arg(long, value_name = "MACHINE", value_parser = machine_parser(), default_value = "sim:here")]
    against: MachineArg,
    /// Locks, separated by commas.
    #[arg(long, value_name = "LOCKS", value_delimiter = ',', value_parser = each(lock_parser()),
          default_value = "tas,ticket,qspinlock,pv-qspinlock")]
    locks: Vec<LockArg>,
    /// Numbers of vCPUs, separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = each(vcpus),
          default_value = "4,8,16,48")]
    vcpus: Vec<usize>,
    /// Length of each measurement, real and simulated, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = nonzero_duration)]
    duration: Duration,
    /// How often each cell is run on either machine.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs every cell on both machines, and reports how far they are apart.
pub(crate) fn run(args: &ValidateArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let MachineArg::Simulated(against) = &args.against else {
        return Err(MachineUsage::NotSimulated {
            option: "--against",
            machine: "real",
        }
        .into());
    };
    let simulated = Simulated {
        preset: against.clone(),
        set: args.common.base.machine.set.clone(),
        rules: Vec::new(),
    };
    effect::check_assignments(&simulated, &args.common.placement)?;
    let mut common = args.common.clone();
    common.base.machine.set.clear();
    let most = args.vcpus.iter().copied().max();
    let guests = Guests::Alternatives {
        locks: args.locks.clone(),
        first: 0,
        vcpus: most,
    };
    let asked = common.request(guests, Length::Duration(args.duration), &host)?;
    let scenario = asked.scenario;
    if scenario.machine.is_simulated() {
        return Err(MachineUsage::MeasuresReal("pvlab validate").into());
    }
    let jobs = jobs(args.jobs, Simulated::KIND)?;
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    let places: Vec<_> = (asked.locks.iter())
        .flat_map(|&lock| args.vcpus.iter().map(move |&vcpus| (lock, vcpus)))
        .collect();
    // Round after round, so that what changes on the host in the meantime changes for all alike.
    let mut real_cells = Vec::new();
    let mut simulated_cells = Vec::new();
    for round in 0..args.rounds {
        for &(lock, vcpus) in &places {
            let real = of(&scenario, lock, vcpus);
            let name = format!(
                "{lock} at {vcpus} vCPUs, round {}/{}",
                round + 1,
                args.rounds
            );
            let twin = twin(&real, simulated.clone(), args.duration).in_round(round);
            simulated_cells.push(Cell {
                name: format!("{name}, simulated"),
                scenario: twin,
            });
            real_cells.push(Cell {
                name,
                scenario: real,
            });
        }
    }
    let (real, complete) = cells::records(&real_cells, 1, scenario.expected())?;
    if !complete {
        return Ok(interrupted(NOTHING));
    }
    let (twins, complete) = cells::records(&simulated_cells, jobs, None)?;
    if !complete {
        return Ok(interrupted(NOTHING));
    }
    let (real, twins) = (by_place(real, places.len()), by_place(twins, places.len()));
    let cells = places.iter().enumerate().map(|(place, &(lock, vcpus))| {
        ValidationCell::new(
            lock,
            vcpus,
            scenario.cpus.len(),
            &real[place],
            &twins[place],
        )
    });
    let report = ValidateReport {
        cells: cells.collect(),
        context: Context::new(host, asked.machine_reason, &scenario),
        against: format!("sim:{against}"),
        rounds: args.rounds,
        scenario,
    };
    target.write(&report.render(args.report.format))?;
    Ok(DONE)
}

const NOTHING: &str = "interrupted: there is nothing to report";

fn of(scenario: &Scenario, lock: Lock, vcpus: usize) -> Scenario {
    Scenario {
        vms: vec![VmSpec { lock, vcpus }],
        ..scenario.clone()
    }
}

/// The records of each of `places` cells, of all rounds.
fn by_place(records: Vec<Record>, places: usize) -> Vec<Vec<Record>> {
    let mut of_places = vec![Vec::new(); places];
    for (number, record) in records.into_iter().enumerate() {
        of_places[number % places].push(record);
    }
    of_places
}
