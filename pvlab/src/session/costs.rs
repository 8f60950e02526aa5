//! What halts, kicks, yields and tasks cost, as throw-away VMs measure it.

use super::RunError;
use super::control::with_control;
use super::run::POLL;
use super::snapshot::{ns, percentile};
use super::vms::Vms;
use crate::machine::{self, MachineKind, RunningVm};
use crate::scenario::CplChoice;
use abi::{Params, VcpuState, Workload, phase};
use guest::workload::{probe, relay};
use pvlock::LockKind;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Longest time for a measurement that should take half a second.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub(crate) enum CostError {
    #[error(transparent)]
    Run(RunError),
    #[error("the measurement of halts and kicks on machine '{0}' did not end within {1} s")]
    Endless(&'static str, u64),
    #[error("interrupted")]
    Interrupted,
    #[error("a throw-away guest ended unexpectedly: {0}")]
    Ended(String),
}

impl<E> From<E> for CostError
where
    RunError: From<E>,
{
    fn from(error: E) -> Self {
        match RunError::from(error) {
            RunError::Panicked { message, .. } => Self::Ended(message),
            RunError::Interrupted => Self::Interrupted,
            error => Self::Run(error),
        }
    }
}

/// What halts, kicks, yields and tasks cost.
#[derive(Debug, Serialize)]
pub(crate) struct Costs {
    pub machine: MachineKind,
    /// Host CPUs of the kicker and the kicked.
    pub cpus: [usize; 2],
    /// Out of the guest and in again: a halt whose kick is already there.
    pub halt: Cost,
    /// Sending a kick to a vCPU that runs.
    pub kick_running: Cost,
    /// Sending a kick to a vCPU that is halted.
    pub kick_halted: Cost,
    /// From sending the kick to running again.
    pub kick_to_run: Cost,
    /// A directed yield to a halted vCPU, which is futile: what it costs to find that out.
    pub yield_to: Cost,
    /// A barrier on all CPUs while the other vCPU runs, as waiters of an asymmetric lock make it before they halt; no
    /// trials where there is none.
    pub barrier: Cost,
    /// Waking a task that is blocked on another vCPU: what the waker spends.
    pub task_wake: Cost,
    /// From waking it to its running again.
    pub task_wake_to_run: Cost,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Cost {
    /// Median, ns; `None` of no trials.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// Times it was measured.
    pub trials: u64,
}

/// A VM that does what `params` say, one vCPU on each of those host CPUs, until it is done, or for that
/// time; what `look` makes of it then, or at each look meanwhile.
///
/// `seccomp` as in a scenario. Nothing is lost with it: a signal ends the process at once.
pub(crate) fn throw_away<T>(
    (machine, seccomp): (MachineKind, bool),
    params: Params,
    cpus: &[usize],
    length: Option<Duration>,
    mut look: impl FnMut(&dyn RunningVm) -> Result<T, RunError>,
) -> Result<T, CostError> {
    let affinity = cpus.iter().map(|&cpu| vec![cpu]).collect();
    let measured = with_control(machine, |control| {
        control.carry_out(async |mut signalled| {
            let launched = Instant::now();
            let vm = machine::launch(machine, CplChoice::Auto, seccomp, params, affinity)?;
            let mut vms = Vms::new(launched, vec![vm]);
            let course = timeout(PATIENCE, async {
                vms.come_to(VcpuState::Ready).await?;
                vms.enter(phase::WARM_UP)?;
                vms.kick_all()?;
                let begun = Instant::now();
                match length {
                    None => vms.come_to(VcpuState::Done).await?,
                    Some(length) => {
                        while begun.elapsed() < length {
                            look(&*vms[0].machine)?;
                            sleep(POLL).await;
                        }
                    }
                }
                look(&*vms[0].machine)
            });
            tokio::select! {
                biased;
                () = &mut signalled => Err(RunError::Interrupted),
                measured = course => measured.ok().transpose(),
            }
        })
    });
    measured?.ok_or(CostError::Endless(machine.name(), PATIENCE.as_secs()))
}

/// Measures halts, kicks and yields between two vCPUs on those host CPUs; `seccomp` as in a scenario.
pub(crate) fn costs(
    (machine, seccomp): (MachineKind, bool),
    cpus: [usize; 2],
) -> Result<Costs, CostError> {
    let params = Params {
        workload: Workload::Probe as u64,
        locks: 1,
        lock_kind: if host::membarrier::is_offered() {
            LockKind::PvNext
        } else {
            LockKind::Tas
        } as u64,
        ..Params::default()
    };
    let costs = throw_away((machine, seccomp), params, &cpus, None, |vm| {
        Ok(Costs {
            machine,
            cpus,
            halt: cost(vm, 0, probe::HIST_HALT)?,
            kick_running: cost(vm, 0, probe::HIST_KICK_RUNNING)?,
            kick_halted: cost(vm, 0, probe::HIST_KICK_HALTED)?,
            kick_to_run: cost(vm, 1, probe::HIST_KICK_TO_RUN)?,
            yield_to: cost(vm, 0, probe::HIST_YIELD)?,
            barrier: cost(vm, 0, probe::HIST_BARRIER)?,
            task_wake: Cost::default(),
            task_wake_to_run: Cost::default(),
        })
    })?;
    let (task_wake, task_wake_to_run) = of_tasks((machine, seccomp), cpus, 1)?;
    Ok(Costs {
        task_wake,
        task_wake_to_run,
        ..costs
    })
}

/// What waking a task costs the waker, and how long it takes until it runs: between two vCPUs of one
/// task each, or, with several tasks, on a single vCPU.
pub(crate) fn of_tasks(
    machine: (MachineKind, bool),
    cpus: [usize; 2],
    tasks: u64,
) -> Result<(Cost, Cost), CostError> {
    let params = Params {
        workload: Workload::Relay as u64,
        locks: 2,
        tasks,
        iterations: probe::TRIALS,
        ..Params::default()
    };
    let vcpus = if tasks > 1 { &cpus[..1] } else { &cpus[..] };
    throw_away(machine, params, vcpus, None, |vm| {
        let waker = cost(vm, 0, relay::HIST_WAKER)?;
        Ok((waker, cost(vm, 0, relay::HIST_WAKE)?))
    })
}

fn cost(vm: &dyn RunningVm, vcpu: usize, hist: usize) -> Result<Cost, RunError> {
    Ok(Cost::of(&vm.region().hist(vcpu, hist)?, vm.khz()))
}

impl Cost {
    /// Percentiles of a histogram in ticks, as ns: the upper bounds of the buckets they fall into.
    fn of(buckets: &[u64], khz: u64) -> Self {
        let end = |percent| Some(ns(*percentile(buckets, percent)?.end(), khz));
        Self {
            p50_ns: end(50),
            p99_ns: end(99),
            trials: buckets.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_upper_bounds_of_their_buckets() {
        let mut buckets = vec![0; abi::hist::BUCKETS];
        buckets[abi::hist::bucket_of(10)] = 98;
        buckets[abi::hist::bucket_of(1000)] = 2;
        // 1 GHz: a tick is a nanosecond.
        let cost = Cost::of(&buckets, 1_000_000);
        assert_eq!((cost.p50_ns, cost.trials), (Some(10), 100));
        assert!((1000..1063).contains(&cost.p99_ns.unwrap()), "{cost:?}");
        let none = Cost::of(&[], 1);
        assert_eq!((none.trials, none.p50_ns), (0, None), "unknown is not 0");
    }
}
