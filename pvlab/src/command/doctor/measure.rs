//! Throw-away VMs that measure.

use super::{Cost, Costs, KvmFindings};
use crate::ending;
use crate::host::Host;
use crate::machine::{self, MachineError, RunningVm, Started};
use crate::scenario::{Cpl, MachineKind};
use guest::abi::{Params, Task, Workload, phase};
use guest::hist::bucket_values;
use guest::workload::{probe, relay};
use host::region::RegionError;
use host::{HostError, Notice};
use std::time::{Duration, Instant};
use vmm::VmmError;

/// Longest time for a measurement that should take half a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to let two vCPUs fight for a CPU, to see what KVM says of it.
const FIGHT: Duration = Duration::from_millis(150);

/// Why the examination failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    /// A VM failed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its memory could not be read.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A measurement did not come to its end.
    #[error("the measurement of halts and kicks on machine '{0}' did not end within {1} s")]
    Endless(&'static str, u64),
    /// It was asked to end.
    #[error("interrupted")]
    Interrupted,
    /// A guest ended before its time.
    #[error("a throw-away guest ended unexpectedly: {0}")]
    Ended(String),
}

impl crate::options::error::Ends for DoctorError {}

impl From<HostError> for DoctorError {
    fn from(error: HostError) -> Self {
        Self::Machine(error.into())
    }
}

impl From<VmmError> for DoctorError {
    fn from(error: VmmError) -> Self {
        Self::Machine(error.into())
    }
}

/// Pairs of host CPUs to measure between: the same one, and two different ones.
pub(crate) fn placements(host: &Host) -> Vec<[usize; 2]> {
    match host.allowed_cpus[..] {
        [a, b, ..] => vec![[a, b], [a, a]],
        [a] => vec![[a, a]],
        [] => vec![],
    }
}

fn launch(
    machine: MachineKind,
    workload: Workload,
    affinity: Vec<Vec<usize>>,
) -> Result<Started, DoctorError> {
    let params = Params {
        workload: workload as u64,
        locks: 1,
        ..Params::default()
    };
    launch_with(machine, params, affinity)
}

fn launch_with(
    machine: MachineKind,
    params: Params,
    affinity: Vec<Vec<usize>>,
) -> Result<Started, DoctorError> {
    let mut started = machine::launch(machine, Cpl::Auto, params, affinity)?;
    wait(&mut started, machine, Task::Ready)?;
    started.0.region().set_phase(phase::WARM_UP)?;
    kick_all(&*started.0)?;
    Ok(started)
}

fn kick_all(vm: &dyn RunningVm) -> Result<(), DoctorError> {
    (0..vm.region().layout().vcpus()).try_for_each(|vcpu| Ok(vm.kick(vcpu)?))
}

/// Waits until all vCPUs are at `task`.
fn wait((vm, events): &mut Started, machine: MachineKind, task: Task) -> Result<(), DoctorError> {
    let start = Instant::now();
    loop {
        let region = vm.region();
        let mut there = true;
        for vcpu in 0..region.layout().vcpus() {
            there &= region.task(vcpu)? == task;
        }
        if there {
            return Ok(());
        }
        while let Ok(event) = events.try_recv() {
            match event {
                Notice::Failed { error, .. } => return Err(MachineError::Vcpu(error).into()),
                Notice::Panicked { message, .. } => return Err(DoctorError::Ended(message)),
                Notice::Done { .. } | Notice::Log { .. } => {}
            }
        }
        if ending::asked() {
            return Err(DoctorError::Interrupted);
        }
        if start.elapsed() > PATIENCE {
            return Err(DoctorError::Endless(machine.name(), PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Measures halts, kicks and yields between two vCPUs on those host CPUs.
pub(crate) fn costs(machine: MachineKind, cpus: [usize; 2]) -> Result<Costs, DoctorError> {
    let affinity = cpus.iter().map(|&cpu| vec![cpu]).collect();
    let mut started = launch(machine, Workload::Probe, affinity)?;
    wait(&mut started, machine, Task::Done)?;
    let vm = &*started.0;
    let cost = |vcpu, hist| -> Result<Cost, DoctorError> {
        Ok(summary(&vm.region().hist(vcpu, hist)?, vm.khz()))
    };
    let (task_wake, task_wake_to_run) = relay_costs(machine, cpus, 1)?;
    Ok(Costs {
        machine,
        cpus,
        halt: cost(0, probe::HIST_HALT)?,
        kick_running: cost(0, probe::HIST_KICK_RUNNING)?,
        kick_halted: cost(0, probe::HIST_KICK_HALTED)?,
        kick_to_run: cost(1, probe::HIST_KICK_TO_RUN)?,
        yield_to: cost(0, probe::HIST_YIELD)?,
        task_wake,
        task_wake_to_run,
    })
}

/// What waking a task costs the waker, and how long it takes until it runs: between two vCPUs of one
/// task each, or, with several tasks, on a single vCPU.
fn relay_costs(
    machine: MachineKind,
    cpus: [usize; 2],
    tasks: u64,
) -> Result<(Cost, Cost), DoctorError> {
    let params = Params {
        workload: Workload::Relay as u64,
        locks: 2,
        tasks,
        iterations: probe::TRIALS,
        ..Params::default()
    };
    let vcpus = if tasks > 1 { &cpus[..1] } else { &cpus[..] };
    let affinity = vcpus.iter().map(|&cpu| vec![cpu]).collect();
    let mut started = launch_with(machine, params, affinity)?;
    wait(&mut started, machine, Task::Done)?;
    let vm = &*started.0;
    let cost =
        |hist| -> Result<Cost, DoctorError> { Ok(summary(&vm.region().hist(0, hist)?, vm.khz())) };
    Ok((cost(relay::HIST_WAKER)?, cost(relay::HIST_WAKE)?))
}

/// Percentiles of a histogram in ticks, as ns: the upper bounds of the buckets they fall into.
fn summary(buckets: &[u64], khz: u64) -> Cost {
    let trials: u64 = buckets.iter().sum();
    let percentile = |percent: u64| {
        let mut seen = 0;
        let bucket = buckets.iter().position(|n| {
            seen += n;
            trials > 0 && seen * 100 >= trials * percent
        });
        let ticks = *bucket_values(bucket?).end();
        Some(ticks.saturating_mul(1_000_000) / khz.max(1))
    };
    Cost {
        p50_ns: percentile(50),
        p99_ns: percentile(99),
        trials,
    }
}

/// What this KVM does.
pub(crate) fn kvm(host: &Host) -> Result<KvmFindings, DoctorError> {
    let cpu = host.allowed_cpus.first().copied().unwrap_or(0);
    let (vm, _events) = launch(MachineKind::Kvm, Workload::Busy, vec![vec![cpu]; 2])?;
    let start = Instant::now();
    let (mut steal_time, mut preempted_reported) = (false, false);
    while start.elapsed() < FIGHT {
        for vcpu in 0..2 {
            if let Some((ns, preempted)) = vm.region().steal(vcpu)? {
                steal_time |= ns > 0;
                preempted_reported |= preempted;
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(KvmFindings {
        max_vcpus: vmm::max_vcpus()?,
        loop_ticks_cpl0: vmm::cpl::ticks_per_turn(vmm::Cpl::Cpl0)?,
        loop_ticks_cpl3: vmm::cpl::ticks_per_turn(vmm::Cpl::Cpl3)?,
        auto_cpl: machine::auto_cpl()?.level(),
        tsc_khz: vm.khz(),
        steal_time,
        preempted_reported,
        statistics: vm.kvm_stats(0).is_some_and(|stats| !stats.is_empty()),
        task_switch: relay_costs(MachineKind::Kvm, [cpu; 2], 2)?.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_upper_bounds_of_their_buckets() {
        let mut buckets = vec![0; guest::hist::BUCKETS];
        buckets[guest::hist::bucket_of(10)] = 98;
        buckets[guest::hist::bucket_of(1000)] = 2;
        // 1 GHz: a tick is a nanosecond.
        let cost = summary(&buckets, 1_000_000);
        assert_eq!((cost.p50_ns, cost.trials), (Some(10), 100));
        assert!((1000..1063).contains(&cost.p99_ns.unwrap()), "{cost:?}");
        let none = summary(&[], 1);
        assert_eq!((none.trials, none.p50_ns), (0, None), "unknown is not 0");
    }
}
