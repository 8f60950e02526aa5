//! Options that would change nothing are refused: whoever gives one expects that it does.
//!
//! What an option needs is in one list. Options that have a value unless they are given are `None` until they
//! are, so that their defaults need nothing.

use super::args::Common;
use super::error::Usage;
use crate::scenario::{Lock, MachineKind, Placement, Scenario, Simulated, Whom};
use pvlock::LockKind;
use std::time::Duration;

/// What is to be run, as far as it matters.
struct Run<'a> {
    machine: MachineKind,
    locks: &'a [Lock],
    scenario: &'a Scenario,
}

impl Run<'_> {
    /// Whether any lock is like that. What `auto` becomes depends on options, which may be given for all that
    /// it could be.
    fn any_lock(&self, is: impl Fn(&Lock) -> bool) -> bool {
        self.locks.iter().any(|lock| lock.auto || is(lock))
    }
}

/// An option, and what it needs.
struct Rule {
    option: &'static str,
    given: fn(&Common) -> bool,
    met: fn(&Run<'_>) -> bool,
    /// What there is instead.
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        option: "--spin-threshold",
        given: |common| common.spin_threshold.is_some(),
        met: |run| run.any_lock(spins_for_a_while),
        instead: "waiters of none of the locks spin for a number of turns and then halt",
    },
    Rule {
        option: "--numa-nodes",
        given: |common| common.mix.numa_nodes > 1,
        met: |run| run.any_lock(|lock| asks_for_nodes(lock.kind)),
        instead: "none of the locks asks for nodes (cna and ppc-qspinlock do)",
    },
    Rule {
        option: "--preempt next-waiter",
        given: |common| common.preempt.is_some_and(|p| p.whom == Whom::NextWaiter),
        met: |run| run.any_lock(|lock| lock.traits().queues || lock.traits().fair),
        instead: "none of the locks has a next waiter: its waiters do not queue",
    },
];

/// Whether its waiters spin for [`pvlock::Platform::pv_spin_threshold`] turns.
fn spins_for_a_while(lock: &Lock) -> bool {
    lock.traits().halts && !lock.traits().sleeps
}

fn asks_for_nodes(kind: LockKind) -> bool {
    matches!(kind, LockKind::Cna | LockKind::PpcQSpinLock)
}

/// Whether each option that was given has an effect on a run of `scenario`, with one or another of `locks`.
pub(crate) fn check(common: &Common, scenario: &Scenario, locks: &[Lock]) -> Result<(), Usage> {
    let run = Run {
        machine: scenario.machine,
        locks,
        scenario,
    };
    for rule in RULES {
        if (rule.given)(common) && !(rule.met)(&run) {
            return Err(Usage::NoEffect {
                option: rule.option.to_owned(),
                why: rule.instead,
            });
        }
    }
    check_set(&run)?;
    check_time("--warm-up", common.warm_up, run.machine)
}

/// Whether each changed parameter has an effect on the simulated machine.
fn check_set(run: &Run<'_>) -> Result<(), Usage> {
    let floating = run.scenario.placement == Placement::Floating;
    match &run.scenario.simulated {
        None => Ok(()),
        Some(simulated) => check_assignments(simulated, floating),
    }
}

/// Whether each parameter that is changed has an effect. `floating`: vCPUs may run on several CPUs.
pub(crate) fn check_assignments(simulated: &Simulated, floating: bool) -> Result<(), Usage> {
    match crate::machine::idle_assignment(simulated, floating)? {
        None => Ok(()),
        Some((assignment, why)) => Err(Usage::NoEffect {
            option: format!("--set {assignment}"),
            why,
        }),
    }
}

/// Whether that time, which `option` gives, can be kept: the clock of the control thread, and so a simulated
/// machine's, goes by milliseconds.
pub(crate) fn check_time(
    option: &'static str,
    time: Duration,
    machine: MachineKind,
) -> Result<(), Usage> {
    const TICK: Duration = Duration::from_millis(1);
    let simulated = machine.is_simulated();
    let whole = time.subsec_nanos().is_multiple_of(TICK.subsec_nanos());
    if (!time.is_zero() && time < TICK) || (simulated && !whole) {
        return Err(Usage::FinerThanTicks {
            option,
            time,
            simulated,
        });
    }
    Ok(())
}
