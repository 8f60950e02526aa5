//! A run under way: its VMs, what their vCPUs say, and whether they get on.

use super::absence::{Absences, Found};
use super::counted::Kinds;
use super::snapshot::VmSnapshot;
use super::spinning::SpinTimes;
use super::surroundings::Counts;
use super::vms::Vms;
use super::{RunError, Stuck, launch};
use crate::machine::Noise;
use crate::record::Spinning;
use crate::scenario::Scenario;
use crate::trace::Collector;
use abi::{Costs, VcpuState};
use host::sched::{ControlPlane, Precedence};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often to look whether vCPUs are prepared, or done.
pub(crate) const POLL: Duration = Duration::from_micros(500);

pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(super) launched: Instant,
    pub(crate) vms: Vms,
    pub(super) collector: Option<&'a mut Collector>,
    pub(crate) absences: Absences,
    /// The host's counts when the measurement began.
    pub(super) host: Option<Counts>,
    /// What work costs, once it is known.
    pub(super) calibration: Option<Costs>,
    /// Of each VM, how long waiters spin before they halt, if that is a time,
    pub(super) spin_times: SpinTimes,
    /// and what came of it.
    pub(super) spinning: Vec<Option<Spinning>>,
    noise: Option<Noise>,
    /// Given up last: ending what comes before takes it. A simulated machine has no threads.
    control: Option<ControlPlane>,
}

impl<'a> Run<'a> {
    pub(crate) fn launch(
        scenario: &'a Scenario,
        spin_times: SpinTimes,
        collector: Option<&'a mut Collector>,
    ) -> Result<Self, RunError> {
        scenario.check()?;
        let records = collector.as_ref().map_or(0, |c| c.records());
        let control = (!scenario.machine.is_simulated()).then(|| {
            let threads = scenario.vcpus() + scenario.noise;
            ControlPlane::begin(threads.div_ceil(scenario.cpus.len().max(1)))
        });
        let launched = Instant::now();
        let vms = Vms::new(launched, launch::start(scenario, records)?);
        Ok(Self {
            scenario,
            launched,
            vms,
            collector,
            absences: Absences::new(usable_cpus(scenario)),
            host: None,
            calibration: None,
            spinning: vec![None; spin_times.len()],
            spin_times,
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

    /// Looks whether nothing of this process had a CPU for a while: nobody can be blamed for what did not
    /// happen then.
    pub(crate) fn notice_absence(&mut self) -> Option<Found> {
        let found = self.absences.look()?;
        for vm in self.vms.iter_mut() {
            vm.last_progress = (vm.last_progress + found.lost).min(Instant::now());
        }
        Some(found)
    }

    /// The watchdog: an error if a VM has made no acquisition for too long, or never will again.
    pub(super) fn watch(&mut self) -> Result<(), RunError> {
        for number in 0..self.vms.len() {
            let vm = &mut self.vms[number];
            let silent = vm.silence()? > self.scenario.watchdog;
            if (silent && !vm.done()?) || vm.machine.is_stuck() {
                return Err(Box::new(self.stuck(number)?).into());
            }
        }
        Ok(())
    }

    /// What is to be told of VM `number`, which makes no progress.
    pub(crate) fn stuck(&self, number: usize) -> Result<Stuck, RunError> {
        let vm = &self.vms[number];
        let spec = self.scenario.vms[number];
        let tasks = self.scenario.bench.is_some();
        let holder = if tasks { "task" } else { "vCPU" };
        let silent_for = vm.last_progress.elapsed();
        Ok(Stuck::new(number, spec, silent_for, &*vm.machine, holder)?)
    }

    /// Listens and watches until `condition` holds.
    pub(crate) async fn wait_until(
        &mut self,
        every: Duration,
        mut condition: impl FnMut(&mut Self) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        loop {
            self.vms.listen()?;
            self.notice_absence();
            if condition(self)? {
                return Ok(());
            }
            self.watch()?;
            sleep(every).await;
        }
    }

    pub(crate) fn enter(&mut self, phase: u32) -> Result<(), RunError> {
        self.vms.enter(phase)?;
        self.absences.turn();
        Ok(())
    }

    /// Waits until every vCPU has prepared itself and halts.
    pub(crate) async fn prepared(&mut self) -> Result<(), RunError> {
        self.wait_until(POLL, |run| run.vms.all_are(VcpuState::Ready))
            .await
    }

    pub(super) fn snapshots(&self) -> Result<Vec<VmSnapshot>, RunError> {
        let kinds = Kinds::of(self.scenario);
        let taken = (self.vms.iter()).map(|vm| Ok(VmSnapshot::take(&*vm.machine, kinds)?));
        taken.collect()
    }

    pub(super) fn attach(&mut self) {
        if let Some(collector) = &mut self.collector {
            let longest = self.scenario.preempt.map_or(0, |p| p.ns.into());
            collector.attach(longest, &self.vms.machines());
        }
    }

    pub(super) fn collect(&mut self) -> Result<(), RunError> {
        match &mut self.collector {
            Some(collector) => Ok(collector.collect(&self.vms.machines())?),
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
