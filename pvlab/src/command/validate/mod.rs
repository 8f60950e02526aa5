//! `pvlab validate`.

pub(crate) mod report;
pub(crate) mod result;

use super::calibrate::fit::twin;
use crate::host::Host;
use crate::options::{
    Cell, CellArgs, CliError, DONE, Guests, LockArg, MachineArg, MachineUsage, cells, each, effect,
    interrupted, lock_parser, machine_parser, nonzero_duration, rounds, vcpus,
};
use crate::report::{Report, headline};
use crate::scenario::{Length, Scenario, Simulated, VmSpec};
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
    cells: CellArgs,
}

/// Runs every cell on both machines, and reports how far they are apart.
pub(crate) fn run(args: &ValidateArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let MachineArg::Simulated(against) = &args.against else {
        let (option, machine) = ("--against", "real");
        return Err(MachineUsage::NotSimulated { option, machine }.into());
    };
    let twin_machine = Simulated {
        preset: against.clone(),
        set: args.cells.common.base.machine.set.clone(),
        rules: Vec::new(),
    };
    let mut common = args.cells.common.clone();
    effect::check_assignments(&twin_machine, &common.placement)?;
    common.base.machine.set.clear();
    let most = args.vcpus.iter().copied().max();
    let guests = Guests::one_of(&args.locks[..], most);
    let asked = common.request(guests, Length::Duration(args.duration), &host)?;
    let (scenario, context) = (asked.scenario, asked.context);
    if scenario.machine.is_simulated() {
        return Err(MachineUsage::MeasuresReal("pvlab validate").into());
    }
    let (jobs, target) = args.cells.start(Simulated::KIND)?;
    let sizes = |&lock| args.vcpus.iter().map(move |&vcpus| (lock, vcpus));
    let places: Vec<_> = asked.locks.iter().flat_map(sizes).collect();
    // Round after round, so that what changes on the host in the meantime changes for all alike.
    let mut real = Vec::new();
    let mut simulated = Vec::new();
    for round in 1..=args.rounds {
        for &(lock, vcpus) in &places {
            let scenario = Scenario {
                vms: vec![VmSpec { lock, vcpus }],
                ..scenario.clone()
            };
            let name = format!("{lock} at {vcpus} vCPUs, round {round}/{}", args.rounds);
            let twin = twin(&scenario, twin_machine.clone(), args.duration);
            simulated.push(Cell {
                name: format!("{name}, simulated"),
                scenario: twin.in_round(round - 1),
            });
            real.push(Cell { name, scenario });
        }
    }
    let mut sides = Vec::new();
    for (cells, jobs, expected) in [(real, 1, scenario.expected()), (simulated, jobs, None)] {
        let (records, complete) = cells::records(&cells, jobs, expected)?;
        if !complete {
            return Ok(interrupted("interrupted: there is nothing to report"));
        }
        sides.push(records);
    }
    let cells = places.iter().enumerate().map(|(place, &(lock, vcpus))| {
        let rounds = |side: usize| sides[side].iter().skip(place).step_by(places.len());
        ValidationCell::new(lock, vcpus, scenario.cpus.len(), rounds(0), rounds(1))
    });
    let report = ValidateReport {
        cells: cells.collect(),
        first_line: headline(&context, &scenario),
        machine: context.machine,
        machine_reason: context.machine_reason,
        host: context.host,
        simulated_machine: format!("sim:{against}"),
        rounds: args.rounds,
        scenario,
    };
    target.write(&report.render(args.cells.report.format))?;
    Ok(DONE)
}
