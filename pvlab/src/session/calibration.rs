//! Before anybody works, one vCPU finds out what work costs, for all.

use super::RunError;
use super::run::{POLL, Run};
use super::spinning::spinning;
use crate::record::{Calibration, Spinning};
use abi::{Costs, phase};

impl Run<'_> {
    /// Lets vCPU 0 of the first VM find out what work costs, and tells all vCPUs of all VMs. The others halt
    /// meanwhile, so that it is alone with its CPU as far as that depends on this run.
    pub(crate) async fn calibrate(&mut self) -> Result<(), RunError> {
        if self.scenario.machine.facts().kvm && self.scenario.cpl.is_emulated()? {
            // Each instruction of the guests is emulated: nothing that is found out holds, and KVM's
            // emulator does not know all that it takes. vCPUs find out for themselves how long a unit
            // takes, and spin as long as Linux does.
            return Ok(());
        }
        let first = &self.vms[0];
        first.machine.region().set_phase(phase::CALIBRATE)?;
        first.machine.kick(0)?;
        let mut found = None;
        self.wait_until(POLL, |run| {
            found = run.vms[0].machine.region().calibration(0)?;
            Ok(found.is_some())
        })
        .await?;
        if let Some(costs) = &found {
            for (i, vm) in self.vms.iter().enumerate() {
                vm.machine.region().set_calibration(costs)?;
                self.spinning[i] = self.spin_times[i].map(|time| spinning(time, costs.turn_ps));
                if let Some(Spinning { turns, .. }) = self.spinning[i] {
                    vm.machine.region().set_spin_threshold(turns)?;
                }
            }
        }
        self.calibration = found;
        Ok(())
    }
}

pub(super) fn record(costs: Costs) -> Calibration {
    let ns = |ps: u64| ps as f64 / 1e3;
    Calibration {
        unit_ns: ns(costs.unit_ps) / 1024.0,
        look_ns: ns(costs.look_ps),
        section_ns: ns(costs.section_ps),
        outside_ns: ns(costs.outside_ps),
    }
}
