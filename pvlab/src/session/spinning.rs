//! From the time that a paravirtual waiter is to spin to the turns that it counts.

use super::RunError;
use super::costs::{CostError, costs};
use crate::machine::{self, MachineError, MachineKind};
use crate::record::Spinning;
use crate::scenario::{Scenario, SpinThreshold, whole_ns};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// Of each VM, how long its waiters are to spin, if that is a time.
pub(crate) type SpinTimes = Vec<Option<Duration>>;

/// What `scenario` asks for. What a halt takes is measured before the run begins, as it takes the CPUs.
pub(crate) fn spin_times(scenario: &Scenario) -> Result<SpinTimes, RunError> {
    scenario.check()?;
    let of = |threshold| match threshold {
        SpinThreshold::Own | SpinThreshold::Turns(_) => Ok(None),
        SpinThreshold::Time(time) => Ok(Some(time)),
        SpinThreshold::Auto => halt(scenario).map(Some),
    };
    let each = scenario
        .vms
        .iter()
        .map(|vm| match vm.lock.halts_while_spinning() {
            true => of(scenario.spin_threshold.of(vm.lock)),
            false => Ok(None),
        });
    each.collect()
}

/// How long a halt takes that a kick ends: of a simulated machine as it is defined, else as it is measured, once
/// on each pair of CPUs, from one to the other.
fn halt(scenario: &Scenario) -> Result<Duration, RunError> {
    if let Some(simulated) = &scenario.simulated {
        let costs = (machine::spec(simulated).map_err(MachineError::from)?).costs;
        let ns = costs.exit_ns + costs.entry_ns + costs.kick_ns + costs.wake_ns + costs.switch_ns;
        return Ok(Duration::from_secs_f64(ns / 1e9));
    }
    type Key = (&'static str, bool, [usize; 2]);
    static MEASURED: Mutex<BTreeMap<Key, Duration>> = Mutex::new(BTreeMap::new());
    let cpus = [0, 1].map(|i| scenario.cpus[i % scenario.cpus.len()]);
    let key = (scenario.machine.name(), scenario.seccomp, cpus);
    let measured = MEASURED.lock();
    let mut measured = measured.unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(&halt) = measured.get(&key) {
        return Ok(halt);
    }
    let halt = measure((scenario.machine, scenario.seccomp), cpus)?;
    measured.insert(key, halt);
    Ok(halt)
}

fn measure(machine: (MachineKind, bool), cpus: [usize; 2]) -> Result<Duration, RunError> {
    let costs = costs(machine, cpus).map_err(|error| match error {
        CostError::Run(error) => error,
        CostError::Interrupted => RunError::Interrupted,
        other => RunError::Threshold(other.to_string()),
    })?;
    let ns = [costs.halt, costs.kick_to_run].map(|cost| cost.p50_ns.unwrap_or(0));
    Ok(Duration::from_nanos(ns.into_iter().sum()))
}

/// What so long a time is in turns of which 1,024 take `turn_ps`.
pub(super) fn spinning(time: Duration, turn_ps: u64) -> Spinning {
    let turns = time.as_nanos() * 1000 * 1024 / u128::from(turn_ps.max(1));
    Spinning {
        time_ns: whole_ns(time) as f64,
        turns: u32::try_from(turns).unwrap_or(u32::MAX).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_turns_one_at_least() {
        let turns = |us, turn_ps| spinning(Duration::from_micros(us), turn_ps).turns;
        assert_eq!(turns(20, 1024 * 10_000), 2000);
        assert_eq!(turns(1, u64::MAX), 1);
        assert_eq!(turns(1 << 30, 0), u32::MAX);
    }
}
