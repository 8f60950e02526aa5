//! `pvlab sim`: how much depends on a parameter of a simulated machine.

pub(crate) mod report;
pub(crate) mod result;

use crate::host::Host;
use crate::options::{
    Cell, CellArgs, CliError, DONE, Guests, LockArg, MachineUsage, NoEffect, cells, each,
    interrupted, lock_parser, nonzero_duration, rounds, usage, vcpus,
};
use crate::report::Report;
use crate::scenario::{Length, Placement, Scenario, Simulated, VmSpec};
use clap::Args;
use report::SweepReport;
use result::{Point, Sweep, SweepSyntax};
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab sim --machine sim:here --locks pv-qspinlock,tas --vcpus 8 --sweep kick_ns=1us..100us:log:8
  pvlab sim --machine sim:broadwell-ex-4s --locks ticket,qspinlock --sweep transfer_cross_ns=100,200,400 \\
      --duration 20ms --warm-up 5ms --format csv";

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The parameter, and its values: PARAMETER=FROM..TO:log:N or FROM..TO:lin:N, or some separated by commas.
    #[arg(long, value_name = "PARAMETER=VALUES")]
    sweep: String,
    /// Locks, separated by commas; the others are compared with the first.
    #[arg(long, value_name = "LOCKS", value_delimiter = ',', value_parser = each(lock_parser()),
          default_value = "qspinlock,pv-qspinlock")]
    locks: Vec<LockArg>,
    /// vCPUs [default: one for each CPU].
    #[arg(long, value_name = "N", value_parser = vcpus)]
    vcpus: Option<usize>,
    /// Length of each run in virtual time, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = nonzero_duration)]
    duration: Duration,
    /// Runs of each lock at each value, each with a seed of its own.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
    #[command(flatten)]
    cells: CellArgs,
}

/// Runs every lock at every value, and reports.
pub(crate) fn run(args: &SimArgs) -> Result<u8, CliError> {
    let sweep = Sweep::parse(&args.sweep)?;
    let guests = Guests::one_of(&args.locks[..], args.vcpus);
    let host = Host::examine();
    let asked = (args.cells.common).request(guests, Length::Duration(args.duration), &host)?;
    let (scenario, locks) = (asked.scenario, asked.locks);
    let Some(simulated) = &scenario.simulated else {
        return Err(MachineUsage::not_simulated("--sweep", scenario.machine).into());
    };
    let name = sweep.parameter.name;
    let of_set = |set: &String| set.split('=').next().is_some_and(|set| set.trim() == name);
    if simulated.set.iter().any(of_set) {
        return Err(SweepSyntax::AlsoSet(name).into());
    }
    let floating = scenario.placement == Placement::Floating;
    let spec = crate::machine::spec(simulated)?;
    if let Some(why) = spec.without_effect(sweep.parameter, floating) {
        let option = format!("--sweep {name}");
        return Err(NoEffect { option, why }.into());
    }
    let (jobs, target) = args.cells.start(Simulated::KIND)?;
    let vcpus = scenario.vms[0].vcpus;
    let mut list = Vec::new();
    for &value in &sweep.values {
        let mut simulated = simulated.clone();
        simulated.set.push(format!("{name}={value}"));
        // Each value, before anything runs.
        crate::machine::spec(&simulated)?;
        for &lock in &locks {
            for round in 0..args.rounds {
                let scenario = Scenario {
                    simulated: Some(simulated.clone()),
                    vms: vec![VmSpec { lock, vcpus }],
                    ..scenario.clone()
                };
                list.push(Cell {
                    name: format!("{lock}, {}", sweep.name_of(value)),
                    scenario: scenario.in_round(round),
                });
            }
        }
    }
    let (records, complete) = cells::records(&list, jobs, None)?;
    // Values that are not complete are left out.
    let of_value = locks.len() * args.rounds;
    let points = sweep.values.iter().zip(records.chunks_exact(of_value));
    let point = |(&value, records)| Point::new(value, records, args.rounds);
    let points: Vec<_> = points.map(point).collect();
    let done = points.len();
    if done > 0 {
        let report = SweepReport {
            context: asked.context,
            parameter: name,
            unit: sweep.parameter.unit.symbol(),
            rounds: args.rounds,
            scenario,
            points,
            sweep,
        };
        target.write(&report.render(args.cells.report.format))?;
    }
    if !complete {
        return Ok(interrupted(&format!("interrupted after {done} values")));
    }
    Ok(DONE)
}

usage!(SweepSyntax);
