//! The machines: where vCPUs run. All show the same region, so what is read from it is the same.

mod kvm;
mod noise;
mod simulated;
mod threads;
mod weights;

use crate::record::Unknown;
use crate::scenario::{
    Bench, Cpl, MachineKind, Mix, Scenario, Spread, Torture, VmSpec, Whom, whole_ns,
};
use crate::session::RunError;
use abi::{Params, Switch, Workload, flags, preempt};
use host::switches::{SwitchError, SwitchRecorder};
use host::thread::{self, ThreadStats};
use host::{HostError, HostNote, Notice, Region, clock};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::VmmError;

pub use noise::Noise;
pub use simulated::{idle_assignment, presets, spec};
pub use threads::lock_bytes;

/// Why a machine cannot run a VM, or go on with one.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The host refuses something.
    #[error(transparent)]
    Host(#[from] HostError),
    /// KVM refuses something.
    #[error(transparent)]
    Kvm(#[from] VmmError),
    /// A vCPU cannot go on.
    #[error(transparent)]
    Vcpu(#[from] Box<dyn Error + Send + Sync>),
    /// A simulated machine is to be started like one of the host.
    #[error("a simulated machine is made from a preset")]
    NoPreset,
}

/// A running virtual machine, of whatever kind. Dropping it ends it.
///
/// What is said of the host here is what a machine whose vCPUs are threads of this process says.
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
    fn kick(&self, vcpu: usize) -> Result<(), HostError>;
    /// The host thread of a vCPU, once it runs.
    fn tid(&self, vcpu: usize) -> Option<Pid>;
    /// What the host's scheduler has counted for a vCPU.
    fn thread(&self, vcpu: usize) -> ThreadStats {
        self.tid(vcpu).map(ThreadStats::of).unwrap_or_default()
    }
    /// How long a vCPU has been on a CPU: cheaper than [`Self::thread`]. `None` if it has ended.
    fn cpu_time(&self, vcpu: usize) -> Option<Duration> {
        thread::cpu_time(self.tid(vcpu)?).ok()
    }
    /// What of its vCPUs is not known, and why.
    fn unknown(&self) -> Vec<Unknown>;
    /// Lets a vCPU run on `cpus` only.
    ///
    /// # Errors
    /// If the host refuses.
    fn set_affinity(&self, vcpu: usize, cpus: &[usize]) -> io::Result<()> {
        match self.tid(vcpu) {
            Some(tid) => thread::set_affinity_of(Some(tid), cpus),
            None => Ok(()),
        }
    }
    /// Records context switches of a vCPU from now on; `None` if it has none.
    fn record_switches(&self, vcpu: usize) -> Option<Result<Box<dyn Switches>, SwitchError>> {
        let recorder = SwitchRecorder::start(self.tid(vcpu)?);
        Some(recorder.map(|recorder| Box::new(recorder) as Box<dyn Switches>))
    }
    /// The host's clock, which all its VMs have in common, now: its TSC.
    fn host_now(&self) -> u64 {
        clock::now()
    }
    /// The host's clock, and the one that context switches are stamped with (ns), at the same moment.
    fn host_clocks(&self) -> (u64, u64) {
        clock::pair()
    }
    /// Exits of a vCPU to the VMM, by kind.
    fn exits(&self, vcpu: usize) -> BTreeMap<String, u64>;
    /// KVM's statistics of a vCPU; `None` if they are unknown. Without KVM there are none.
    fn kvm_stats(&self, _vcpu: usize) -> Option<BTreeMap<String, u64>> {
        Some(BTreeMap::new())
    }
    /// What to add to the host's TSC to get that of the vCPUs, modulo 2^64.
    fn tsc_offset(&self) -> u64;
    /// Takes away what the host has noted of a vCPU, if the VM is traced.
    fn take_notes(&self, vcpu: usize) -> Vec<HostNote>;
    /// Whether a vCPU is halted.
    fn is_halted(&self, vcpu: usize) -> bool;
    /// Whether it is certain that none of its vCPUs will ever go on, though they want to.
    fn is_stuck(&self) -> bool {
        false
    }
    /// Ends the vCPUs wherever they are: of host threads those that wait or halt; others go on until they
    /// do, or have done what they were told.
    fn stop(&mut self);
    /// What each vCPU is doing right now, for a person.
    fn states(&self) -> Vec<String>;
}

/// What of vCPUs that are threads of this process is not known, and why.
fn unknown_of_threads(vm: &dyn RunningVm) -> Vec<Unknown> {
    let why = vm.tid(0).and_then(ThreadStats::unknown);
    let unknown = why.map(|why| Unknown {
        what: "context switches of vCPUs".to_owned(),
        why,
    });
    unknown.into_iter().collect()
}

/// Context switches of a vCPU, as they are recorded.
pub trait Switches: Debug {
    /// Takes away the switches recorded, in order. Returns how many there was no room for.
    fn drain(&mut self, each: &mut dyn FnMut(Switch)) -> u64;
}

impl Switches for SwitchRecorder {
    fn drain(&mut self, each: &mut dyn FnMut(Switch)) -> u64 {
        Self::drain(self, each)
    }
}

/// A VM and what its vCPUs have to say.
pub type Started = (Box<dyn RunningVm>, UnboundedReceiver<Notice>);

/// Starts the VMs of the scenario. `trace_records` is the size of each vCPU's trace ring, 0 for no
/// trace.
///
/// # Errors
/// If the machine cannot run them.
pub fn start(scenario: &Scenario, trace_records: usize) -> Result<Vec<Started>, RunError> {
    let workload = &scenario.workload;
    let weights = (workload.skew > 0.0).then(|| weights::zipf(workload.locks, workload.skew));
    let mut vcpus = 0..;
    let vms = scenario.vms.iter().map(|&spec| {
        let numbers = vcpus.by_ref().take(spec.vcpus);
        let cpus = |vcpu| scenario.cpu_of(vcpu).map(|cpu| vec![cpu]);
        let affinity = numbers.map(|vcpu| cpus(vcpu).unwrap_or_else(|| scenario.cpus.clone()));
        (params(scenario, spec, trace_records), affinity.collect())
    });
    let started = match &scenario.simulated {
        Some(simulated) => simulated::start(scenario, simulated, vms.collect())?,
        None => {
            let launch = |(params, cpus)| launch(scenario.machine, scenario.cpl, params, cpus);
            vms.map(launch).collect::<Result<Vec<_>, _>>()?
        }
    };
    if let Some(weights) = &weights {
        for (vm, _) in &started {
            vm.region().set_weights(weights)?;
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
    let (critical_ns, critical_ps) = workload.critical.parts();
    let (outside_ns, outside_ps) = workload.outside.parts();
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
        spin_threshold: scenario.spin_threshold.into(),
        seed: scenario.seed,
        flags: flag(scenario.latency, flags::LATENCY)
            | flag(scenario.drop_kicks, flags::DROP_KICKS)
            | flag(workload.skew > 0.0, flags::SKEWED)
            | flag(workload.outside_spread == Spread::Exp, flags::OUTSIDE_EXP)
            | flag(!scenario.vcpu_is_preempted, flags::NO_VCPU_IS_PREEMPTED),
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
    match (scenario.torture, scenario.bench) {
        (Some(torture), _) => torture_params(torture, params),
        (None, Some(bench)) => bench_params(bench, scenario.machine, params),
        (None, None) => params,
    }
}

fn bench_params(bench: Bench, machine: MachineKind, params: Params) -> Params {
    let vcpus = usize::try_from(params.vcpus).unwrap_or(1);
    Params {
        workload: bench.workload.workload() as u64,
        threads: bench.threads as u64,
        tasks: bench.tasks(machine, vcpus) as u64,
        pauses: bench.pauses,
        flags: params.flags
            | if bench.random_mix {
                flags::RANDOM_MIX
            } else {
                0
            },
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

/// Starts a VM on the host that does what `params` say, each vCPU on the CPUs it is given.
///
/// # Errors
/// If the host cannot run it, or it is to be simulated.
pub fn launch(
    machine: MachineKind,
    cpl: Cpl,
    params: Params,
    affinity: Vec<Vec<usize>>,
) -> Result<Started, MachineError> {
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
        MachineKind::Threads => Ok(threads::start(params, &affinity)?),
        MachineKind::Simulated => Err(MachineError::NoPreset),
    }
}

/// The privilege level for this host, found out once.
///
/// # Errors
/// If KVM cannot run a guest to find out.
pub fn auto_cpl() -> Result<vmm::Cpl, MachineError> {
    static AUTO: OnceLock<vmm::Cpl> = OnceLock::new();
    if let Some(cpl) = AUTO.get() {
        return Ok(*cpl);
    }
    let cpl = vmm::cpl::detect()?;
    Ok(*AUTO.get_or_init(|| cpl))
}
