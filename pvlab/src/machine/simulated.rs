//! vCPUs of a simulated machine, which all VMs of a scenario share.
//!
//! Its time is that of the control plane, which stands still while there is anything to do
//! (`session::control`): whenever somebody looks at a VM, the machine runs until then.
#![allow(unsafe_code)] // The machine is told where the VMs' regions are.

use super::kind::{Caution, WORD_IS_FULL};
use super::{
    Facts, MOST_WORD_VCPUS, MachineError, MachineKind, Plan, RunningVm, Started, Switches,
};
use crate::ending;
use abi::{Params, Switch, VcpuState};
use host::switches::SwitchError;
use host::thread::ThreadStats;
use host::{HostError, HostNote, Notice, Region};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sim::{Said, Simulation, Spec, SpecError, VmConfig};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::Instant;

/// Frequency of the machine's clock: it counts nanoseconds.
const KHZ: u64 = 1_000_000;

/// What the names of simulated machines begin with, as users write them.
pub const SIM_PREFIX: &str = "sim:";

/// What to say of figures of a simulated machine.
pub(crate) const NOT_MEASURED: &str =
    "nothing was measured: these are figures of a model, as good as its parameters";

pub(super) const FACTS: Facts = Facts {
    name: "sim",
    about: "A model of a machine, as its preset says.",
    simulated: true,
    kvm: false,
    tasks: true,
    peers: false,
    ends_waiters: true,
    most_vcpus: MOST_WORD_VCPUS,
    why_no_more: WORD_IS_FULL,
    caution: Some(Caution {
        code: "simulated",
        text: NOT_MEASURED,
        of_threads: NOT_MEASURED,
    }),
    start,
};

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// Name of its preset.
    pub preset: String,
    /// What differs from it: `PARAMETER=VALUE`, as given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// What is to happen at chosen moments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<sim::Rule>,
}

impl Simulated {
    /// The machine that runs it.
    pub const KIND: MachineKind = MachineKind::Simulated;
}

/// The names of all simulated machines.
pub fn presets() -> impl Iterator<Item = &'static str> {
    sim::presets::names()
}

/// What a simulated machine is like.
///
/// # Errors
/// If there is no such preset, or file of one (named *.toml), or it cannot be changed like that.
pub fn spec(simulated: &Simulated) -> Result<Spec, SpecError> {
    let mut spec = preset(simulated)?;
    for assignment in &simulated.set {
        spec.set(assignment)?;
    }
    spec.check()?;
    Ok(spec)
}

fn preset(simulated: &Simulated) -> Result<Spec, SpecError> {
    match simulated.preset.strip_suffix(".toml") {
        Some(_) => Spec::from_file(Path::new(&simulated.preset)),
        None => sim::presets::find(&simulated.preset),
    }
}

/// The first change of a parameter that has no effect on the machine, and why. `floating`: vCPUs may run on
/// several CPUs.
///
/// # Errors
/// As [`spec`].
pub fn idle_assignment(
    simulated: &Simulated,
    floating: bool,
) -> Result<Option<(&str, &'static str)>, SpecError> {
    spec(simulated)?.idle_assignment(&preset(simulated)?, &simulated.set, floating)
}

#[derive(Debug)]
struct Machine {
    /// Dropped first: it uses all that follows.
    simulation: RefCell<Simulation>,
    regions: Vec<Region>,
    notices: Vec<UnboundedSender<Notice>>,
    switched_on: Instant,
}

fn start(plan: &Plan<'_>) -> Result<Vec<Started>, MachineError> {
    let simulated = plan.simulated.ok_or(MachineError::NoPreset)?;
    let options = sim::Options {
        seed: plan.seed,
        rules: simulated.rules.clone(),
        tracing: plan.vms.iter().any(|(params, _)| params.trace_records > 0),
    };
    let mut simulation = Simulation::new(&spec(simulated)?, options);
    simulation.stand_still_on(ending::asked_flag());
    let (mut regions, mut notices, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
    for (params, affinity) in &plan.vms {
        let params = Params {
            tsc_khz: KHZ,
            ..*params
        };
        let region = Region::in_process(&params)?;
        let config = VmConfig {
            layout: region.layout(),
            region: region.host_address()?,
            affinity: affinity.clone(),
            // Critical sections are counted where they are seen.
            instrumented: params.instrumented() || !simulated.rules.is_empty(),
        };
        regions.push(region);
        // SAFETY: the region is laid out and filled in like that, and lives as long as the simulation, with
        // which it is dropped, but after it (`Machine`; here, as it was declared before). `Machine` and the
        // region are of one thread, which either runs the simulation or uses the region.
        unsafe { simulation.add_vm(&config) }?;
        let (sender, receiver) = mpsc::unbounded_channel();
        notices.push(sender);
        receivers.push(receiver);
    }
    for &cpu in &plan.noise {
        simulation.add_noise(cpu)?;
    }
    let machine = Rc::new(Machine {
        simulation: RefCell::new(simulation),
        regions,
        notices,
        switched_on: Instant::now(),
    });
    let vm = |(number, receiver)| {
        let machine = Rc::clone(&machine);
        let vm: Box<dyn RunningVm> = Box::new(OneOf { machine, number });
        (vm, receiver)
    };
    Ok(receivers.into_iter().enumerate().map(vm).collect())
}

impl Machine {
    /// The simulation, at the time that it is now.
    fn now(&self) -> RefMut<'_, Simulation> {
        let ns = u64::try_from(self.switched_on.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut simulation = self.simulation.borrow_mut();
        if simulation.now_ns() < ns {
            simulation.run_until(ns);
            for outcome in simulation.take_outcomes() {
                let vcpu = outcome.vcpu;
                let notice = match outcome.what {
                    Said::Done => Notice::Done { vcpu },
                    Said::Panicked(message) => Notice::Panicked { vcpu, message },
                    Said::Log(message) => Notice::Log { vcpu, message },
                };
                // Nobody listens any more if the VM has been dropped.
                let _ = self.notices[outcome.vm].send(notice);
            }
        }
        simulation
    }
}

struct OneOf {
    machine: Rc<Machine>,
    number: usize,
}

impl OneOf {
    fn stats(&self, vcpu: usize) -> sim::VcpuStats {
        self.machine.now().vcpu_stats(self.number, vcpu)
    }
}

impl RunningVm for OneOf {
    fn region(&self) -> &Region {
        drop(self.machine.now());
        &self.machine.regions[self.number]
    }

    fn khz(&self) -> u64 {
        KHZ
    }

    fn now(&self) -> u64 {
        self.machine.now().now_ns()
    }

    fn kick(&self, vcpu: usize) -> Result<(), HostError> {
        self.machine.now().kick(self.number, vcpu);
        Ok(())
    }

    fn tid(&self, _vcpu: usize) -> Option<Pid> {
        None
    }

    fn thread(&self, vcpu: usize) -> ThreadStats {
        let stats = self.stats(vcpu);
        ThreadStats {
            cpu: Some(Duration::from_nanos(stats.cpu_ns)),
            queued: Some(Duration::from_nanos(stats.queued_ns)),
            voluntary_switches: Some(stats.voluntary_switches),
            involuntary_switches: Some(stats.involuntary_switches),
        }
    }

    fn cpu_time(&self, vcpu: usize) -> Option<Duration> {
        Some(Duration::from_nanos(self.stats(vcpu).cpu_ns))
    }

    fn record_switches(&self, vcpu: usize) -> Option<Result<Box<dyn Switches>, SwitchError>> {
        // What was before does not count.
        self.machine.now().take_switches(self.number, vcpu);
        let (machine, vm) = (Rc::clone(&self.machine), self.number);
        Some(Ok(Box::new(Recorder { machine, vm, vcpu })))
    }

    fn host_now(&self) -> u64 {
        self.now()
    }

    fn host_clocks(&self) -> (u64, u64) {
        (self.now(), self.now())
    }

    fn exits(&self, vcpu: usize) -> BTreeMap<String, u64> {
        let exits = self.stats(vcpu).exits.into_iter();
        exits.map(|(kind, n)| (kind.to_owned(), n)).collect()
    }

    fn take_notes(&self, vcpu: usize) -> Vec<HostNote> {
        let steps = self.machine.now().take_steps(self.number, vcpu);
        let note = |(ticks, step)| HostNote { ticks, step };
        steps.into_iter().map(note).collect()
    }

    fn is_halted(&self, vcpu: usize) -> bool {
        self.machine.now().is_halted(self.number, vcpu)
    }

    fn is_stuck(&self) -> bool {
        self.machine.now().is_stuck(self.number)
    }

    fn states(&self) -> Vec<String> {
        let simulation = self.machine.now();
        let region = &self.machine.regions[self.number];
        let state = |vcpu| match region.state(vcpu) {
            Ok(VcpuState::Working) => simulation.state(self.number, vcpu),
            Ok(task) => format!("{} ({task:?})", simulation.state(self.number, vcpu)),
            Err(e) => e.to_string(),
        };
        (0..region.layout().vcpus()).map(state).collect()
    }
}

/// Switches of a vCPU, which the machine notes if it is traced.
#[derive(Debug)]
struct Recorder {
    machine: Rc<Machine>,
    vm: usize,
    vcpu: usize,
}

impl Switches for Recorder {
    fn drain(&mut self, each: &mut dyn FnMut(Switch)) -> u64 {
        let switches = self.machine.now().take_switches(self.vm, self.vcpu);
        switches.into_iter().for_each(each);
        0
    }
}
