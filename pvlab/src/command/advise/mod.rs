//! `pvlab advise`.

mod advice;
mod report;
#[cfg(test)]
mod tests;

use super::compare::plan::Plan;
use super::compare::result::Comparison;
use crate::host::Host;
use crate::options::{
    Cell, CellArgs, CliError, DONE, Guests, LockArg, NumberUsage, cells, each, interrupted,
    nonzero_duration, rounds, whole,
};
use crate::record::{Ended, Record};
use crate::report::Report;
use crate::scenario::{Length, Lock, Scenario, VmSpec};
use advice::{Advice, Place};
use clap::Args;
use pvlock::LockKind;
use report::AdviceReport;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab advise                                     this host, 1, 2 and 4 vCPUs a CPU; about a minute
  pvlab advise --overcommit 2 --critical 1us       what is known of the guests
  pvlab advise --rounds 9 --format json            surer, and for programs

Each cell runs the same loop with four locks in interleaved rounds: a native queued spinlock (paravirtual locks
off), a paravirtual one (on), a better one, and a test-and-set lock, alone and beside one busy neighbour a CPU.
Where intervals are too wide, or the host was busy, there is no advice.";

/// The locks: what a guest's kernel takes without paravirtual locks and with them, and two beside them.
const LOCKS: [LockKind; 4] = [
    LockKind::QSpinLock,
    LockKind::PvQSpinLock,
    LockKind::PvNext,
    LockKind::Tas,
];
/// Least difference worth a verdict.
const MIN_EFFECT: f64 = 0.02;
/// Most vCPUs a CPU.
const MOST: u64 = 64;

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// vCPUs for each CPU, separated by commas; 1 is measured as well.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = each(overcommit), default_value = "2,4")]
    overcommit: Vec<usize>,
    /// Length of each measurement, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = nonzero_duration)]
    duration: Duration,
    /// Rounds; a verdict takes 3.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
    #[command(flatten)]
    cells: CellArgs,
}

fn overcommit(text: &str) -> Result<usize, NumberUsage> {
    match whole(text)? {
        0 => Err(NumberUsage::Zero),
        number if number > MOST => Err(NumberUsage::TooMany { number, most: MOST }),
        #[expect(clippy::cast_possible_truncation, reason = "at most MOST")]
        number => Ok(number as usize),
    }
}

/// Measures, and says what follows.
pub(crate) fn advise(args: &AdviseArgs) -> Result<u8, CliError> {
    let mut levels = args.overcommit.clone();
    levels.push(1);
    levels.sort_unstable();
    levels.dedup();
    let common = args.cells.common.clone();
    let locks = LOCKS.map(LockArg::from);
    let host = Host::examine();
    let request = |most| {
        let guests = Guests::one_of(&locks[..], most);
        common.request(guests, Length::Duration(args.duration), &host)
    };
    // How many CPUs there are is known once the options are understood.
    let cpus = request(None)?.scenario.cpus.len();
    let asked = request(levels.iter().max().map(|level| level * cpus))?;
    let (jobs, target) = args.cells.start(asked.scenario.machine)?;
    let places: Vec<Place> = (levels.iter())
        .flat_map(|&overcommit| {
            [0, cpus].map(|neighbours| Place {
                overcommit,
                neighbours,
            })
        })
        .collect();
    let plans: Vec<Plan> = places
        .iter()
        .map(|place| plan(args, place, cpus, &asked.locks, &asked.scenario))
        .collect();
    // Round after round, so that what changes on the host meanwhile changes for all alike.
    let mut cells = Vec::new();
    for round in 0..args.rounds {
        for (place, plan) in places.iter().zip(&plans) {
            cells.extend(plan.order(round).map(|lock| Cell {
                name: format!(
                    "round {}/{}, {place}: {}",
                    round + 1,
                    args.rounds,
                    plan.locks[lock]
                ),
                scenario: plan.scenario(lock, round),
            }));
        }
    }
    let (records, complete) = cells::records(&cells, jobs, asked.scenario.expected())?;
    if !complete {
        return Ok(interrupted(
            "interrupted: there is no advice from a part of the runs",
        ));
    }
    let mut records = records.into_iter().map(|record| Record {
        context: asked.context.clone(),
        ..record
    });
    let mut of_places: Vec<Vec<Vec<Record>>> = plans.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        for (plan, rounds) in plans.iter().zip(&mut of_places) {
            let mut round: Vec<_> = plan.order(round).zip(&mut records).collect();
            round.sort_unstable_by_key(|(lock, _)| *lock);
            rounds.push(round.into_iter().map(|(_, record)| record).collect());
        }
    }
    let compared = plans.into_iter().zip(&of_places);
    let compared: Vec<_> = compared
        .map(|(plan, rounds)| Comparison::new(plan, rounds, Ended::Complete, None))
        .collect();
    let places: Vec<_> = places.into_iter().zip(&compared).collect();
    let report = AdviceReport::new(
        &asked.context,
        &asked.scenario,
        args.rounds,
        Advice::from(&places),
    );
    target.write(&report.render(args.cells.report.format))?;
    Ok(DONE)
}

/// What is compared at that place.
fn plan(args: &AdviseArgs, place: &Place, cpus: usize, locks: &[Lock], base: &Scenario) -> Plan {
    let vcpus = place.overcommit * cpus;
    Plan {
        locks: locks.to_vec(),
        baseline: 0,
        rounds: args.rounds,
        min_effect: MIN_EFFECT,
        run: Scenario {
            vms: vec![VmSpec {
                lock: locks[0],
                vcpus,
            }],
            noise: base.noise + place.neighbours,
            ..base.clone()
        },
    }
}
