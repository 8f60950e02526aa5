//! From a scenario to what its machine is told.

use super::weights;
use crate::machine::{self, MachineError, Plan, Started};
use crate::scenario::{Mix, Scenario, SpinThreshold, Spread, VmSpec, Whom, whole, whole_ns};
use abi::{Params, Workload, flags, preempt};

/// Starts the VMs of the scenario. `trace_records` is the size of each vCPU's trace ring, 0 for no
/// trace.
///
/// # Errors
/// If the machine cannot run them.
pub(super) fn start(
    scenario: &Scenario,
    trace_records: usize,
) -> Result<Vec<Started>, MachineError> {
    let cpus = |vcpu| match scenario.cpu_of(vcpu) {
        Some(cpu) => vec![cpu],
        None => scenario.cpus.clone(),
    };
    let mut affinity = (0..).map(cpus);
    let vms = scenario.vms.iter().map(|&spec| {
        let affinity = affinity.by_ref().take(spec.vcpus).collect();
        (params(scenario, spec, trace_records), affinity)
    });
    let plan = Plan {
        cpl: scenario.cpl,
        seccomp: scenario.seccomp,
        simulated: scenario.simulated.as_ref(),
        seed: scenario.seed,
        noise: (scenario.cpus.iter().copied().cycle())
            .take(scenario.noise)
            .collect(),
        vms: vms.collect(),
    };
    let started = machine::start(scenario.machine, &plan)?;
    let workload = &scenario.workload;
    if workload.skew > 0.0 {
        let weights = weights::zipf(workload.locks, workload.skew);
        for (vm, _) in &started {
            vm.region().set_weights(&weights)?;
        }
    }
    Ok(started)
}

/// What the vCPUs of a VM are told.
fn params(scenario: &Scenario, spec: VmSpec, trace_records: usize) -> Params {
    let flag = |on, bit| if on { bit } else { 0 };
    let workload = &scenario.workload;
    let (readers, read_share) = match workload.mix {
        Mix::Exclusive => (0, 0.0),
        Mix::ReadShare(share) => (0, share),
        Mix::Readers(readers) => (readers, 0.0),
    };
    let random_mix = scenario.bench.is_some_and(|bench| bench.random_mix);
    let (critical_ns, critical_ps) = workload.critical.parts();
    let (outside_ns, outside_ps) = workload.outside.parts();
    let timed_spin = !matches!(
        scenario.spin_threshold.of(spec.lock),
        SpinThreshold::Own | SpinThreshold::Turns(_)
    );
    let params = Params {
        vcpus: spec.vcpus as u64,
        locks: workload.locks as u64,
        workload: Workload::Spin as u64,
        lock_kind: spec.lock.kind.id().into(),
        dispatch: spec.lock.dispatch as u64,
        critical_ns,
        critical_ps,
        outside_ns,
        outside_ps,
        data: workload.data.of_guest() as u64,
        iterations: scenario.length.iterations(),
        spin_threshold: scenario.spin_threshold.of(spec.lock).turns().into(),
        seed: scenario.seed,
        flags: flag(scenario.latency, flags::LATENCY)
            | flag(scenario.drop_kicks, flags::DROP_KICKS)
            | flag(workload.skew > 0.0, flags::SKEWED)
            | flag(workload.outside_spread == Spread::Exp, flags::OUTSIDE_EXP)
            | flag(!scenario.vcpu_is_preempted, flags::NO_VCPU_IS_PREEMPTED)
            | flag(timed_spin, flags::TURN)
            | flag(random_mix, flags::RANDOM_MIX),
        readers: readers as u64,
        read_share: share_of_2_32(read_share),
        numa_nodes: scenario.numa_nodes.into(),
        contexts: workload.contexts.into(),
        trace_records: trace_records as u64,
        preempt_whom: match scenario.preempt.map(|p| p.whom) {
            None => preempt::NOBODY,
            Some(Whom::Holder) => preempt::HOLDER,
            Some(Whom::NextWaiter) => preempt::NEXT_WAITER,
        },
        preempt_share: scenario.preempt.map_or(0, |p| share_of_2_32(p.share)),
        preempt_ns: scenario.preempt.map_or(0, |p| p.ns.into()),
        ..Params::default()
    };
    let params = match (scenario.torture, scenario.bench) {
        (Some(torture), _) => Params {
            workload: Workload::Torture as u64,
            long_hold_ns: whole_ns(torture.long_hold),
            nested_locks: torture.nested_locks as u64,
            acquire_limit_ns: whole_ns(torture.acquire_limit),
            flags: params.flags | flag(torture.irqs_off, flags::IRQS_OFF),
            ..params
        },
        (None, Some(bench)) => Params {
            workload: bench.workload.workload() as u64,
            threads: bench.threads as u64,
            tasks: bench.tasks(scenario.machine, spec.vcpus) as u64,
            pauses: bench.pauses,
            ..params
        },
        (None, None) => params,
    };
    #[cfg(test)]
    let params = hostile::instead_of(params);
    params
}

/// A share from 0 to 1 as a multiple of 2^-32.
fn share_of_2_32(share: f64) -> u64 {
    whole(share.clamp(0.0, 1.0) * 2f64.powi(32))
}

/// For tests: guests that do harm instead of what the scenario says.
#[cfg(test)]
pub(crate) mod hostile {
    use super::{Params, Workload};
    use std::cell::Cell;

    thread_local! {
        static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Calls `f`, in which this thread starts hostile guests of that seed.
    pub(crate) fn with_seed<T>(seed: u64, f: impl FnOnce() -> T) -> T {
        SEED.set(Some(seed));
        let result = f();
        SEED.set(None);
        result
    }

    pub(super) fn instead_of(params: Params) -> Params {
        let Some(seed) = SEED.get() else {
            return params;
        };
        Params {
            workload: Workload::Hostile as u64,
            iterations: 0,
            seed,
            ..params
        }
    }
}
