//! `pvlab compare`.

mod args;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod result;
mod warning;

pub(crate) use args::{CompareArgs, EXAMPLES};

use super::trace;
use crate::host::Host;
use crate::human::listed;
use crate::options::{
    BROKEN, Cell, CliError, DONE, Guests, LockArg, Progress, Watcher, cells, complain, interrupted,
    length, usage,
};
use crate::record::{Context, Ended, Record};
use crate::report::{Format, Report};
use crate::session;
use peers::{Kind, Peer};
use plan::Plan;
use pvlock::LockKind;
use result::Comparison;
use std::ops::ControlFlow;

/// What is wrong with how `pvlab compare` was called.
#[derive(Debug, thiserror::Error)]
enum CompareUsage {
    #[error("--baseline {baseline} is not among --locks {locks}; add it there")]
    BaselineMissing { baseline: LockArg, locks: String },
    #[error("--explain does not fit into CSV, which has one table; use --format json")]
    ExplainCsv,
}

usage!(CompareUsage);

pub(crate) fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    if args.explain && args.cells.report.format == Format::Csv {
        return Err(CompareUsage::ExplainCsv.into());
    }
    let mut common = args.cells.common.clone();
    let locks = match args.peers {
        true => {
            common.base.machine.prefer(|facts| facts.peers);
            beside_peers(common.work.reads())
        }
        false => args.chosen(),
    };
    let baseline = baseline(args, &locks)?;
    let guests = Guests::Alternatives {
        locks,
        first: baseline,
        vcpus: args.vcpus,
    };
    let length = length(args.duration, args.iterations);
    let asked = common.request(guests, length, &Host::examine())?;
    if args.explain {
        trace::check_traceable(&asked.scenario)?;
    }
    let (jobs, target) = args.cells.start(asked.scenario.machine)?;
    let plan = Plan {
        locks: asked.locks,
        baseline,
        rounds: args.rounds,
        min_effect: args.min_effect,
        run: asked.scenario,
    };
    let (rounds, ended, broken) = run_rounds(&plan, &asked.context, jobs)?;
    let done = rounds.len();
    if ended == Ended::Interrupted && done == 0 {
        return Ok(interrupted(
            "interrupted before the first round was complete; there is nothing to report",
        ));
    }
    let explained = match ended {
        Ended::Complete if args.explain => explain(&plan)?,
        _ => Vec::new(),
    };
    let comparison = Comparison {
        explained,
        ..Comparison::new(plan, &rounds, ended, broken.as_ref())
    };
    target.write(&comparison.render(args.cells.report.format))?;
    if let Some(line) = comparison.exclusion_broken() {
        complain(&line);
        return Ok(BROKEN);
    }
    if ended == Ended::Interrupted {
        let of = args.rounds;
        return Ok(interrupted(&format!(
            "interrupted after {done} of {of} rounds; the report is of these"
        )));
    }
    Ok(DONE)
}

/// Traces each lock once.
fn explain(plan: &Plan) -> Result<Vec<Record>, CliError> {
    let mut progress = Progress::new(plan.locks.len(), plan.run.expected());
    let mut records = Vec::new();
    for (number, lock) in plan.locks.iter().enumerate() {
        progress.begin(format!("explaining {lock}"));
        let record = trace::account(&plan.scenario(number, 0), &mut Watcher::new(&progress))?;
        // The comparison is complete; an explanation that was cut short is left out.
        if record.interrupted {
            break;
        }
        records.push(record);
        progress.end();
    }
    Ok(records)
}

/// Our lock, and the peers that are built in: those with a read side, or the others.
fn beside_peers(reads: bool) -> Vec<LockArg> {
    let ours = match reads {
        true => LockKind::QRwLockPvNext,
        false => LockKind::PvNext,
    };
    let peers = Peer::ALL.iter().copied();
    let peers = peers.filter(|peer| peer.is_built_in() && peer.is_rw() == reads);
    let all = [Kind::Ours(ours)].into_iter().chain(peers.map(Kind::Peer));
    all.map(LockArg::from).collect()
}

/// Place of the baseline among the locks. Native qspinlock is what most guests run, so it is what
/// others are compared with unless somebody says otherwise.
fn baseline(args: &CompareArgs, locks: &[LockArg]) -> Result<usize, CompareUsage> {
    let place = |lock: LockArg| locks.iter().position(|&other| other == lock);
    let Some(baseline) = args.baseline else {
        return Ok(place(LockKind::QSpinLock.into()).unwrap_or(0));
    };
    place(baseline).ok_or_else(|| {
        let locks = listed(locks).replace(' ', "");
        CompareUsage::BaselineMissing { baseline, locks }
    })
}

/// The complete rounds, each in the order of the plan's locks; how they ended; and the place of a
/// lock that did not exclude, with its record.
type Rounds = Result<(Vec<Vec<Record>>, Ended, Option<(usize, Record)>), session::RunError>;

fn run_rounds(plan: &Plan, context: &Context, jobs: usize) -> Rounds {
    let round = |round| plan.order(round).map(move |lock| (round, lock));
    let places: Vec<_> = (0..plan.rounds).flat_map(round).collect();
    let cells = places.iter().map(|&(round, lock)| Cell {
        name: format!("round {}/{} {}", round + 1, plan.rounds, plan.locks[lock]),
        scenario: plan.scenario(lock, round),
    });
    let cells: Vec<_> = cells.collect();
    let mut progress = Progress::new(cells.len(), plan.run.expected());
    let mut rounds = Vec::new();
    let mut records = Vec::new();
    let mut end = Ok((Ended::Complete, None));
    cells::run_all(&cells, jobs, &mut progress, |number, result| {
        let lock = places[number].1;
        let context = context.clone();
        end = match result.map(|record| Record { context, ..record }) {
            Ok(record) if record.vms.iter().any(|vm| !vm.exclusion.held()) => {
                Ok((Ended::ExclusionBroken, Some((lock, record))))
            }
            Ok(record) if !record.interrupted => {
                records.push((lock, record));
                if records.len() == plan.locks.len() {
                    records.sort_unstable_by_key(|(lock, _)| *lock);
                    rounds.push(records.drain(..).map(|(_, record)| record).collect());
                }
                return ControlFlow::Continue(());
            }
            Ok(_) | Err(session::RunError::Interrupted) => Ok((Ended::Interrupted, None)),
            Err(error) => Err(error),
        };
        ControlFlow::Break(())
    });
    let (ended, broken) = end?;
    Ok((rounds, ended, broken))
}
