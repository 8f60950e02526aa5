//! The machines: where vCPUs run. All show the same region, so what is read from it is the same.

mod kvm;
mod noise;
mod threads;
mod weights;

use crate::scenario::{Bench, Cpl, MachineKind, Mix, Scenario, Torture, Whom, whole_ns};
use guest::abi::{Params, Workload, flags, preempt};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::host_trace::HostEvent;
use vmm::{Event, Region, VmmError};

pub use noise::Noise;

/// A running virtual machine, of whatever kind. Dropping it ends it.
pub trait RunningVm {
    /// What it shares with its vCPUs.
    fn region(&self) -> &Region;
    /// Frequency of its clock, kHz.
    fn khz(&self) -> u64;
    /// Its clock, now.
    fn now(&self) -> u64;
    /// Kicks a vCPU.
    ///
    /// # Errors
    /// If the machine cannot.
    fn kick(&self, vcpu: usize) -> Result<(), VmmError>;
    /// The host thread of a vCPU, once it runs.
    fn tid(&self, vcpu: usize) -> Option<Pid>;
    /// Exits of a vCPU to the VMM, by kind.
    fn exits(&self, vcpu: usize) -> BTreeMap<String, u64>;
    /// KVM's statistics of a vCPU.
    fn kvm_stats(&self, vcpu: usize) -> BTreeMap<String, u64>;
    /// What to add to the host's TSC to get that of the vCPUs, modulo 2^64.
    fn tsc_offset(&self) -> u64;
    /// Takes away what the host has noted of a vCPU, if the VM is traced.
    fn take_host_events(&self, vcpu: usize) -> Vec<HostEvent>;
    /// Whether a vCPU is halted.
    fn is_halted(&self, vcpu: usize) -> bool;
    /// Ends the vCPUs wherever they are, if this machine can: host threads go on until they have done
    /// what they were told.
    fn stop(&mut self);
    /// What each vCPU is doing right now, for a person.
    fn states(&self) -> Vec<String>;
}

/// A VM and what its vCPUs have to say.
pub type Started = (Box<dyn RunningVm>, UnboundedReceiver<Event>);

/// Starts VM number `vm` of the scenario. `first` is the number of its first vCPU, counted through
/// all VMs; `trace_records` is the size of each vCPU's trace ring, 0 for no trace.
///
/// # Errors
/// If the host cannot run it.
pub fn start(
    scenario: &Scenario,
    vm: usize,
    first: usize,
    trace_records: usize,
) -> Result<Started, VmmError> {
    let spec = scenario.vms[vm];
    let affinity = (first..first + spec.vcpus)
        .map(|vcpu| {
            scenario
                .cpu_of(vcpu)
                .map_or_else(|| scenario.cpus.clone(), |cpu| vec![cpu])
        })
        .collect();
    let flag = |on, bit| if on { bit } else { 0 };
    let workload = &scenario.workload;
    let skewed = workload.skew > 0.0;
    let (readers, read_share) = match workload.mix {
        Mix::Exclusive => (0, 0.0),
        Mix::ReadShare(share) => (0, share),
        Mix::Readers(readers) => (readers, 0.0),
    };
    let params = Params {
        vcpus: spec.vcpus as u64,
        locks: workload.locks as u64,
        workload: Workload::Spin as u64,
        lock_kind: spec.lock.kind.id().into(),
        dispatch: spec.lock.dispatch as u64,
        critical_ns: workload.critical_ns,
        outside_ns: workload.outside_ns,
        iterations: scenario.length.iterations(),
        spin_threshold: scenario.spin_threshold.into(),
        seed: scenario.seed,
        flags: flag(scenario.latency, flags::LATENCY)
            | flag(scenario.drop_kicks, flags::DROP_KICKS)
            | flag(skewed, flags::SKEWED),
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
        (Some(torture), _) => torture_params(torture, params),
        (None, Some(bench)) => bench_params(bench, scenario.machine, params),
        (None, None) => params,
    };
    let started = launch(scenario.machine, scenario.cpl, params, affinity)?;
    if skewed {
        let table = weights::zipf(workload.locks, workload.skew);
        started.0.region().set_weights(&table)?;
    }
    Ok(started)
}

fn bench_params(bench: Bench, machine: MachineKind, params: Params) -> Params {
    let vcpus = usize::try_from(params.vcpus).unwrap_or(1);
    Params {
        workload: bench.workload.workload() as u64,
        threads: bench.threads as u64,
        tasks: bench.tasks(machine, vcpus) as u64,
        pauses: bench.pauses,
        ..params
    }
}

fn torture_params(torture: Torture, params: Params) -> Params {
    Params {
        workload: Workload::Torture as u64,
        long_hold_ns: whole_ns(torture.long_hold),
        nested_locks: torture.nested_locks as u64,
        acquire_limit_ns: whole_ns(torture.acquire_limit),
        ..params
    }
}

/// A share from 0 to 1 as a multiple of 2^-32.
fn share_of_2_32(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 2^32"
    )]
    let share = (share.clamp(0.0, 1.0) * 2f64.powi(32)).round() as u64;
    share
}

/// Starts a VM that does what `params` say, each vCPU on the host CPUs it is given.
///
/// # Errors
/// If the host cannot run it.
pub fn launch(
    machine: MachineKind,
    cpl: Cpl,
    params: Params,
    affinity: Vec<Vec<usize>>,
) -> Result<Started, VmmError> {
    match machine {
        MachineKind::Kvm => {
            let cpl = match cpl {
                Cpl::Cpl0 => vmm::Cpl::Cpl0,
                Cpl::Cpl3 => vmm::Cpl::Cpl3,
                Cpl::Auto => auto_cpl()?,
            };
            let (vm, events) = vmm::Vm::start(&vmm::Config {
                params,
                cpl,
                affinity,
            })?;
            Ok((Box::new(vm), events))
        }
        MachineKind::Threads => threads::start(params, &affinity),
    }
}

/// The privilege level for this host, found out once.
///
/// # Errors
/// If KVM cannot run a guest to find out.
pub fn auto_cpl() -> Result<vmm::Cpl, VmmError> {
    static AUTO: OnceLock<vmm::Cpl> = OnceLock::new();
    if let Some(cpl) = AUTO.get() {
        return Ok(*cpl);
    }
    let cpl = vmm::cpl::detect()?;
    Ok(*AUTO.get_or_init(|| cpl))
}
