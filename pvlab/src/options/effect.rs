//! Options that would change nothing are refused: whoever gives one expects that it does.
//!
//! Options that have a value unless they are given are `None` until they are, so that their defaults need
//! nothing.

use super::common::BaseArgs;
use super::error::{CliError, usage};
use crate::scenario::{Lock, Placement, Scenario, Simulated, Whom};
use peers::Kind;
use pvlock::LockKind;

#[derive(Debug, thiserror::Error)]
#[error("{option} would change nothing: {why}; leave it out")]
pub(crate) struct NoEffect {
    /// The option, with its value where that matters.
    pub(crate) option: String,
    /// What it needs is missing.
    pub(crate) why: &'static str,
}

usage!(NoEffect);

/// Whether each option that was given has an effect on a run of `scenario`, with one or another of `locks`.
pub(super) fn check(args: &BaseArgs, scenario: &Scenario, locks: &[Lock]) -> Result<(), CliError> {
    // What `auto` becomes depends on options, which may be given for all that it could be.
    let any_lock = |is: fn(&Lock) -> bool| locks.iter().any(|lock| lock.auto || is(lock));
    // Each option, whether it was given, whether there is what it needs, and what there is instead.
    let rules = [
        (
            "--spin-threshold",
            args.spin_threshold.is_some(),
            any_lock(Lock::halts_while_spinning),
            "waiters of none of the locks spin for a number of turns and then halt",
        ),
        (
            "--numa-nodes",
            scenario.numa_nodes > 1,
            any_lock(|lock| {
                matches!(
                    lock.kind,
                    Kind::Ours(LockKind::Cna | LockKind::PpcQSpinLock)
                )
            }),
            "none of the locks asks for nodes (cna and ppc-qspinlock do)",
        ),
        (
            "--preempt next-waiter",
            scenario.preempt.is_some_and(|p| p.whom == Whom::NextWaiter),
            any_lock(|lock| lock.traits().queues || lock.traits().fair),
            "none of the locks has a next waiter: its waiters do not queue",
        ),
    ];
    for (option, given, met, why) in rules {
        if given && !met {
            let option = option.to_owned();
            return Err(NoEffect { option, why }.into());
        }
    }
    let simulated = scenario.simulated.as_ref();
    simulated.map_or(Ok(()), |s| check_assignments(s, &scenario.placement))
}

/// Whether each changed parameter has an effect on the simulated machine.
pub(crate) fn check_assignments(
    simulated: &Simulated,
    placement: &Placement,
) -> Result<(), CliError> {
    let floating = *placement == Placement::Floating;
    let idle = crate::machine::idle_assignment(simulated, floating)?;
    let Some((assignment, why)) = idle else {
        return Ok(());
    };
    let option = format!("--set {assignment}");
    Err(NoEffect { option, why }.into())
}
