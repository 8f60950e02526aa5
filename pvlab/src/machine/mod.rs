//! The machines: where vCPUs run. All show the same region, so what is read from it is the same.
//!
//! A machine knows nothing of scenarios: it is told what each vCPU is to do ([`Params`]), and where.

mod kind;
mod kvm;
mod noise;
mod simulated;
mod threads;

use abi::{Params, Switch};
use host::region::RegionError;
use host::switches::{SwitchError, SwitchRecorder};
use host::thread::{self, ThreadStats};
use host::{HostError, HostNote, Notice, Region, clock};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sim::{SimError, SpecError};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use vmm::VmmError;

pub use kind::{Caution, Facts, MOST_WORD_VCPUS, MachineKind};
pub use kvm::{CplChoice, auto_cpl};
pub use noise::Noise;
pub(crate) use simulated::NOT_MEASURED;
pub use simulated::{SIM_PREFIX, Simulated, idle_assignment, presets, spec};
pub use threads::lock_bytes;

/// Why a machine cannot run a VM, or go on with one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum MachineError {
    Host(#[from] HostError),
    Kvm(#[from] VmmError),
    Region(#[from] RegionError),
    Vcpu(#[from] Box<dyn Error + Send + Sync>),
    #[error("a simulated machine is made from a preset")]
    NoPreset,
    Spec(#[from] SpecError),
    Simulation(#[from] SimError),
}

/// A figure that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// What.
    pub what: String,
    /// Why, and what helps.
    pub why: String,
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
    fn unknown(&self) -> Vec<Unknown> {
        unknown_of_threads(self.tid(0))
    }
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
    fn exits(&self, _vcpu: usize) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// KVM's statistics of a vCPU; `None` if they are unknown. Without KVM there are none.
    fn kvm_stats(&self, _vcpu: usize) -> Option<BTreeMap<String, u64>> {
        Some(BTreeMap::new())
    }
    /// What to add to the host's TSC to get that of the vCPUs, modulo 2^64.
    fn tsc_offset(&self) -> u64 {
        0
    }
    /// Takes away what the host has noted of a vCPU, if the VM is traced.
    fn take_notes(&self, vcpu: usize) -> Vec<HostNote>;
    /// Whether a vCPU is halted.
    fn is_halted(&self, vcpu: usize) -> bool;
    /// Whether a vCPU is halted, and nobody has woken it: one that has been kicked and waits for a CPU, which may
    /// take seconds on a host that does much else, is halted still, but not asleep.
    fn is_asleep(&self, vcpu: usize) -> bool {
        self.is_halted(vcpu) && !self.tid(vcpu).is_some_and(wants_cpu)
    }
    /// Whether it is certain that none of its vCPUs will ever go on, though they want to.
    fn is_stuck(&self) -> bool {
        false
    }
    /// Ends the vCPUs wherever they are: of host threads those that wait or halt; others go on until they
    /// do, or have done what they were told. Nothing goes on on a machine that stands still.
    fn stop(&mut self) {}
    /// What each vCPU is doing right now, for a person.
    fn states(&self) -> Vec<String>;
}

/// Whether thread `tid` of this process is on a CPU, or waits for one; no, if that is not known.
fn wants_cpu(tid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", tid.as_raw_nonzero()));
    // The state comes behind the name, which is in parentheses (proc(5)).
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('R'))
    })
}

/// What of vCPUs that are threads of this process is not known, and why.
fn unknown_of_threads(first: Option<Pid>) -> Vec<Unknown> {
    let what = "context switches of vCPUs".to_owned();
    let why = first.and_then(ThreadStats::unknown);
    why.map(|why| Unknown { what, why }).into_iter().collect()
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

/// VMs that are to run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Privilege level, of KVM guests.
    pub cpl: CplChoice,
    /// Whether the threads of KVM guests are confined to the system calls that they need.
    pub seccomp: bool,
    /// Which simulated machine, if it is one.
    pub simulated: Option<&'a Simulated>,
    /// Seed of what chance does in it.
    pub seed: u64,
    /// The CPU of each thread that competes with the vCPUs, if the machine itself runs them.
    pub noise: Vec<usize>,
    /// Of each VM: what it is told, and on which CPUs each of its vCPUs may run.
    pub vms: Vec<(Params, Vec<Vec<usize>>)>,
}

/// Starts VMs.
///
/// # Errors
/// If the machine cannot run them.
pub fn start(kind: MachineKind, plan: &Plan<'_>) -> Result<Vec<Started>, MachineError> {
    (kind.facts().start)(plan)
}

/// Starts a VM of the host that does what `params` say, each vCPU on the CPUs it is given.
///
/// # Errors
/// If the host cannot run it, or it is to be simulated.
pub fn launch(
    kind: MachineKind,
    cpl: CplChoice,
    seccomp: bool,
    params: Params,
    affinity: Vec<Vec<usize>>,
) -> Result<Started, MachineError> {
    let plan = Plan {
        cpl,
        seccomp,
        simulated: None,
        seed: params.seed,
        noise: Vec::new(),
        vms: vec![(params, affinity)],
    };
    start(kind, &plan)?.pop().ok_or(MachineError::NoPreset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_wants_no_cpu_and_one_that_runs_does() {
        assert!(wants_cpu(rustix::thread::gettid()));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            ready.send(rustix::thread::gettid()).unwrap();
            let _ = is_ended.recv();
        });
        let tid = is_ready.recv().unwrap();
        // However long it takes until it sleeps.
        while wants_cpu(tid) {
            std::thread::yield_now();
        }
        drop(end);
        sleeper.join().unwrap();
        assert!(!wants_cpu(tid), "it has ended");
    }
}
