//! Which vCPUs are preempted right now, and how often a holder is: for the live view.
//!
//! Context switches are recorded by the kernel; whether a vCPU that lost its CPU holds a lock is seen
//! from the owner beside the lock, which cannot change while its holder is away. So every preemption
//! of a holder that lasts at least [`LOOK_EVERY`] is found; shorter ones may be missed.

use super::vms::Watched;
use super::{LiveVm, RunError};
use crate::machine::Switches;
use abi::SwitchKind;
use std::time::Duration;

pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What the live view knows of the vCPUs of all VMs.
pub(super) struct Live {
    /// `None`: the host does not let switches be recorded.
    vcpus: Option<Vec<Seen>>,
}

struct Seen {
    vm: usize,
    number: usize,
    recorder: Option<Box<dyn Switches>>,
    /// It lost its CPU though it wanted to go on.
    preempted: bool,
    /// That preemption has been counted as one of a holder.
    counted: bool,
    holder_preemptions: u64,
}

impl Live {
    pub(super) fn new(vms: &[Watched]) -> Self {
        let mut vcpus = Vec::new();
        for (vm, watched) in vms.iter().enumerate() {
            for number in watched.vcpus() {
                let Ok(recorder) = watched.machine.record_switches(number).transpose() else {
                    // Those of some would not do, and the files they take are missing elsewhere.
                    return Self { vcpus: None };
                };
                vcpus.push(Seen {
                    vm,
                    number,
                    recorder,
                    preempted: false,
                    counted: false,
                    holder_preemptions: 0,
                });
            }
        }
        Self { vcpus: Some(vcpus) }
    }

    /// Looks at who is off its CPU, and whether it holds a lock.
    pub(super) fn look(&mut self, vms: &[Watched]) -> Result<(), RunError> {
        for vcpu in self.vcpus.iter_mut().flatten() {
            let Some(recorder) = &mut vcpu.recorder else {
                continue;
            };
            recorder.drain(&mut |switch| {
                vcpu.counted = false;
                vcpu.preempted = switch.kind == SwitchKind::OutPreempted;
            });
            if !vcpu.preempted || vcpu.counted {
                continue;
            }
            let region = vms[vcpu.vm].machine.region();
            for lock in 0..region.layout().locks() {
                let (_, owner, _) = region.lock(lock)?;
                vcpu.counted |= owner as usize == vcpu.number + 1;
            }
            vcpu.holder_preemptions += u64::from(vcpu.counted);
        }
        Ok(())
    }

    /// Of VM `vm`: preemptions of holders since the last call, and who is preempted now. `None` where
    /// switches cannot be recorded.
    pub(super) fn take(&mut self, vm: usize) -> Option<LiveVm> {
        let vcpus = self.vcpus.as_mut()?.iter_mut();
        let (mut holder_preemptions, mut preempted) = (0, Vec::new());
        for vcpu in vcpus.filter(|vcpu| vcpu.vm == vm) {
            holder_preemptions += std::mem::take(&mut vcpu.holder_preemptions);
            preempted.extend(vcpu.preempted.then_some(vcpu.number));
        }
        Some(LiveVm {
            holder_preemptions,
            preempted,
        })
    }
}
