//! VMs that run: what their vCPUs say, and how they get on.

use super::RunError;
use super::absence::ticks;
use super::run::POLL;
use crate::machine::{MachineError, RunningVm, Started};
use abi::{VcpuArea, VcpuState};
use host::Notice;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

pub(crate) struct Watched {
    pub(crate) machine: Box<dyn RunningVm>,
    events: UnboundedReceiver<Notice>,
    /// The number of its first vCPU, counted through all VMs.
    pub(super) first: usize,
    /// On the VM's clock.
    pub(super) launched: u64,
    acquisitions: u64,
    pub(crate) last_progress: Instant,
}

pub(crate) struct Vms(Vec<Watched>);

impl Deref for Vms {
    type Target = [Watched];

    fn deref(&self) -> &[Watched] {
        &self.0
    }
}

impl DerefMut for Vms {
    fn deref_mut(&mut self) -> &mut [Watched] {
        &mut self.0
    }
}

impl Vms {
    pub(super) fn new(launched: Instant, started: Vec<Started>) -> Self {
        let mut vms = Vec::new();
        let mut first = 0;
        for (machine, events) in started {
            let now = machine.now();
            let vm = Watched {
                launched: now.saturating_sub(ticks(launched.elapsed(), machine.khz())),
                machine,
                events,
                first,
                acquisitions: 0,
                last_progress: Instant::now(),
            };
            first += vm.vcpus().len();
            vms.push(vm);
        }
        Self(vms)
    }

    pub(crate) fn machines(&self) -> Vec<&dyn RunningVm> {
        self.iter().map(|vm| &*vm.machine).collect()
    }

    pub(crate) fn all_are(&self, state: VcpuState) -> Result<bool, RunError> {
        all(self.iter(), |vm| {
            let region = vm.machine.region();
            all(vm.vcpus(), |vcpu| Ok(region.state(vcpu)? == state))
        })
    }

    /// Waits until every vCPU is in `state`, without a watchdog.
    pub(crate) async fn come_to(&mut self, state: VcpuState) -> Result<(), RunError> {
        while !self.all_are(state)? {
            self.listen()?;
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether every vCPU has made the acquisitions it was to make.
    pub(super) fn all_done(&self) -> Result<bool, RunError> {
        all(self.iter(), Watched::done)
    }

    /// Handles what vCPUs have said. An error if one has failed.
    pub(crate) fn listen(&mut self) -> Result<(), RunError> {
        for (vm, watched) in self.iter_mut().enumerate() {
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

    pub(super) fn enter(&mut self, phase: u32) -> Result<(), RunError> {
        for vm in self.iter_mut() {
            vm.machine.region().set_phase(phase)?;
            vm.last_progress = Instant::now();
        }
        Ok(())
    }

    pub(crate) fn kick_all(&self) -> Result<(), RunError> {
        for vm in self.iter() {
            for vcpu in vm.vcpus() {
                vm.machine.kick(vcpu)?;
            }
        }
        Ok(())
    }
}

/// Whether that holds of all of them.
pub(super) fn all<T>(
    of: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, RunError>,
) -> Result<bool, RunError> {
    for one in of {
        if !holds(one)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Watched {
    pub(super) fn vcpus(&self) -> Range<usize> {
        0..self.machine.region().layout().vcpus()
    }

    /// Whether every vCPU has ended, or made a fixed number of acquisitions.
    pub(super) fn done(&self) -> Result<bool, RunError> {
        let region = self.machine.region();
        all(self.vcpus(), |vcpu| {
            let finished = region.vcpu_word(vcpu, offset_of!(VcpuArea, finished))?;
            Ok(finished > 0 || region.state(vcpu)? == VcpuState::Done)
        })
    }

    /// For how long it has made no acquisition.
    pub(crate) fn silence(&mut self) -> Result<Duration, RunError> {
        let acquisitions = self.machine.region().acquisitions()?;
        if acquisitions != self.acquisitions {
            self.acquisitions = acquisitions;
            self.last_progress = Instant::now();
        }
        Ok(self.last_progress.elapsed())
    }
}

pub(super) fn seconds(ticks: u64, machine: &dyn RunningVm) -> f64 {
    ticks as f64 / (machine.khz() as f64 * 1e3)
}
