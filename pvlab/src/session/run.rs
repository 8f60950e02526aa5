//! A run under way: its VMs, what their vCPUs say, and whether they get on.

use super::absence::{Absences, Found};
use super::counted::Kinds;
use super::snapshot::{VmSnapshot, to_f64};
use super::surroundings::Counts;
use super::{RunError, Stuck, launch};
use crate::machine::{MachineError, Noise, RunningVm};
use crate::scenario::Scenario;
use crate::trace::Collector;
use abi::{Costs, Task, VcpuArea};
use host::Notice;
use host::sched::{ControlPlane, Precedence};
use std::mem::offset_of;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

/// How often to look whether vCPUs are prepared, or done.
pub(crate) const POLL: Duration = Duration::from_micros(500);

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(super) launched: Instant,
    pub(crate) vms: Vec<Watched>,
    pub(super) collector: Option<&'a mut Collector>,
    pub(crate) absences: Absences,
    /// The host's counts when the measurement began.
    pub(super) host: Option<Counts>,
    /// What work costs, once it is known.
    pub(super) calibration: Option<Costs>,
    noise: Option<Noise>,
    /// Given up last: ending what comes before takes it. A simulated machine has no threads.
    control: Option<ControlPlane>,
}

/// A VM and what is known of it.
pub(crate) struct Watched {
    pub(crate) machine: Box<dyn RunningVm>,
    pub(super) events: UnboundedReceiver<Notice>,
    /// The number of its first vCPU, counted through all VMs.
    pub(super) first: usize,
    /// On the VM's clock.
    pub(super) launched: u64,
    pub(super) acquisitions: u64,
    pub(crate) last_progress: Instant,
}

impl<'a> Run<'a> {
    pub(crate) fn launch(
        scenario: &'a Scenario,
        collector: Option<&'a mut Collector>,
    ) -> Result<Self, RunError> {
        scenario.check()?;
        let records = collector.as_ref().map_or(0, |c| c.records());
        let control = (!scenario.machine.is_simulated()).then(|| {
            let threads = scenario.vcpus() + scenario.noise;
            ControlPlane::begin(threads.div_ceil(scenario.cpus.len().max(1)))
        });
        let launched = Instant::now();
        let mut vms = Vec::new();
        let mut first = 0;
        for (machine, events) in launch::start(scenario, records)? {
            let vcpus = machine.region().layout().vcpus();
            let now = machine.now();
            let since_launch =
                launched.elapsed().as_nanos() * u128::from(machine.khz()) / 1_000_000;
            vms.push(Watched {
                launched: now.saturating_sub(u64::try_from(since_launch).unwrap_or(0)),
                machine,
                events,
                first,
                acquisitions: 0,
                last_progress: Instant::now(),
            });
            first += vcpus;
        }
        Ok(Self {
            scenario,
            launched,
            vms,
            collector,
            absences: Absences::new(usable_cpus(scenario)),
            host: None,
            calibration: None,
            noise: None,
            control,
        })
    }

    /// What this thread's precedence over the vCPUs is made of.
    pub(crate) fn control_plane(&self) -> Precedence {
        let control = self.control.as_ref();
        control.map_or(Precedence::Nothing, ControlPlane::precedence)
    }

    /// Lets threads that compete for the CPUs begin.
    pub(super) fn make_noise(&mut self) -> Result<(), RunError> {
        // A simulated machine has its own.
        if !self.scenario.machine.is_simulated() {
            let noise = Noise::start(self.scenario.noise, &self.scenario.cpus);
            self.noise = Some(noise.map_err(RunError::Noise)?);
        }
        Ok(())
    }

    pub(crate) fn all_are(&self, task: Task) -> Result<bool, RunError> {
        for vm in &self.vms {
            let region = vm.machine.region();
            for vcpu in 0..region.layout().vcpus() {
                if region.task(vcpu)? != task {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether every vCPU has made the acquisitions it was to make.
    pub(super) fn all_done(&self) -> Result<bool, RunError> {
        for vm in &self.vms {
            if !done(vm)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles what vCPUs have said. An error if one has failed.
    pub(crate) fn listen(&mut self) -> Result<(), RunError> {
        for (vm, watched) in self.vms.iter_mut().enumerate() {
            while let Ok(event) = watched.events.try_recv() {
                match event {
                    Notice::Log { vcpu, message } => tracing::info!(vm, vcpu, message, "guest"),
                    Notice::Done { vcpu } => tracing::debug!(vm, vcpu, "done"),
                    Notice::Panicked { vcpu, message } => {
                        return Err(RunError::Panicked { vm, vcpu, message });
                    }
                    Notice::Failed { error, .. } => return Err(MachineError::Vcpu(error).into()),
                }
            }
        }
        Ok(())
    }

    /// Looks whether nothing of this process had a CPU for a while: nobody can be blamed for what did not
    /// happen then.
    pub(crate) fn notice_absence(&mut self) -> Option<Found> {
        let found = self.absences.look()?;
        for vm in &mut self.vms {
            vm.last_progress = (vm.last_progress + found.lost).min(Instant::now());
        }
        Some(found)
    }

    /// The watchdog: an error if a VM has made no acquisition for too long, or never will again.
    pub(super) fn watch(&mut self) -> Result<(), RunError> {
        for number in 0..self.vms.len() {
            let silent = self.silence(number)? > self.scenario.watchdog;
            let stuck = silent && !done(&self.vms[number])?;
            if stuck || self.vms[number].machine.is_stuck() {
                return Err(Box::new(self.stuck(number)?).into());
            }
        }
        Ok(())
    }

    /// For how long VM `number` has made no acquisition.
    pub(crate) fn silence(&mut self, number: usize) -> Result<Duration, RunError> {
        let vm = &mut self.vms[number];
        let acquisitions = vm.machine.region().acquisitions()?;
        if acquisitions != vm.acquisitions {
            vm.acquisitions = acquisitions;
            vm.last_progress = Instant::now();
        }
        Ok(vm.last_progress.elapsed())
    }

    /// What is to be told of VM `number`, which makes no progress.
    pub(crate) fn stuck(&self, number: usize) -> Result<Stuck, RunError> {
        let vm = &self.vms[number];
        let spec = self.scenario.vms[number];
        let holder = if self.scenario.bench.is_some() {
            "task"
        } else {
            "vCPU"
        };
        Ok(Stuck::new(
            number,
            spec,
            vm.last_progress.elapsed(),
            &*vm.machine,
            holder,
        )?)
    }

    /// Listens and watches until `condition` holds.
    pub(crate) async fn wait_until(
        &mut self,
        every: Duration,
        mut condition: impl FnMut(&mut Self) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        loop {
            self.listen()?;
            self.notice_absence();
            if condition(self)? {
                return Ok(());
            }
            self.watch()?;
            sleep(every).await;
        }
    }

    pub(crate) fn enter(&mut self, phase: u32) -> Result<(), RunError> {
        for vm in &mut self.vms {
            vm.machine.region().set_phase(phase)?;
            vm.last_progress = Instant::now();
        }
        self.absences.turn();
        Ok(())
    }

    pub(crate) fn kick_all(&self) -> Result<(), RunError> {
        for vm in &self.vms {
            for vcpu in 0..vm.machine.region().layout().vcpus() {
                vm.machine.kick(vcpu)?;
            }
        }
        Ok(())
    }

    /// Waits until every vCPU has prepared itself and halts.
    pub(crate) async fn prepared(&mut self) -> Result<(), RunError> {
        self.wait_until(POLL, |run| run.all_are(Task::Ready)).await
    }

    pub(super) fn snapshots(&self) -> Result<Vec<VmSnapshot>, RunError> {
        Ok(self
            .vms
            .iter()
            .map(|vm| VmSnapshot::take(&*vm.machine, Kinds::of(self.scenario)))
            .collect::<Result<_, _>>()?)
    }

    pub(super) fn attach(&mut self) {
        if let Some(collector) = &mut self.collector {
            let longest = self.scenario.preempt.map_or(0, |p| p.ns.into());
            collector.attach(longest, &machines(&self.vms));
        }
    }

    pub(super) fn collect(&mut self) -> Result<(), RunError> {
        match &mut self.collector {
            Some(collector) => Ok(collector.collect(&machines(&self.vms))?),
            None => Ok(()),
        }
    }
}

/// CPUs that can be used at the same time by what runs; 0 if it is simulated.
fn usable_cpus(scenario: &Scenario) -> usize {
    if scenario.machine.is_simulated() {
        return 0;
    }
    scenario.cpus.len().min(scenario.vcpus() + scenario.noise)
}

pub(super) fn machines(vms: &[Watched]) -> Vec<&dyn RunningVm> {
    vms.iter().map(|vm| &*vm.machine).collect()
}

/// Whether every vCPU of the VM has ended, or made a fixed number of acquisitions.
pub(super) fn done(vm: &Watched) -> Result<bool, RunError> {
    let region = vm.machine.region();
    for vcpu in 0..region.layout().vcpus() {
        let finished = region.vcpu_word(vcpu, offset_of!(VcpuArea, finished))?;
        if finished == 0 && region.task(vcpu)? != Task::Done {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn seconds(ticks: u64, machine: &dyn RunningVm) -> f64 {
    to_f64(ticks) / (to_f64(machine.khz()) * 1e3)
}
