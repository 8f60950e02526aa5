//! The warm-up: until when nothing counts.

use super::run::{POLL, Run};
use super::{RunError, look_every};
use crate::record::{Start, StartReason};
use guest::abi::phase;
use std::time::Duration;
use tokio::time::Instant;

/// How often to look whether every vCPU has been descheduled, once it is.
const SWITCH_LOOK: Duration = Duration::from_millis(20);
/// The longest warm-up, as a multiple of the shortest, and at least.
const LONGEST_WARM_UP: u32 = 20;
const LEAST_LONGEST_WARM_UP: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// Lets the vCPUs work until the measurement may start.
    ///
    /// Fair locks look thousands of times faster until the first of their waiters is descheduled,
    /// so where vCPUs must share CPUs each has to have been off its CPU once.
    pub(super) async fn warm_up(&mut self) -> Result<Start, RunError> {
        let begun = Instant::now();
        self.enter(phase::WARM_UP)?;
        let mut not_descheduled = self.switches();
        self.kick_all()?;
        let shortest = self.scenario.warm_up;
        let every = look_every(self.scenario.machine).min(shortest / 2);
        self.absences.forget();
        let passed = |run: &Self| begun.elapsed().saturating_sub(run.absences.lost());
        self.wait_until(every.max(POLL), |run| Ok(passed(run) >= shortest))
            .await?;

        let longest = (shortest * LONGEST_WARM_UP).max(LEAST_LONGEST_WARM_UP);
        let overcommitted = self.scenario.overcommitted();
        let every = look_every(self.scenario.machine).min(SWITCH_LOOK);
        self.wait_until(every, |run| {
            run.note_reported_preemption()?;
            let now = run.switches();
            not_descheduled.retain(|&(vcpu, switches)| now[vcpu].1 == switches);
            let waiting = overcommitted && !not_descheduled.is_empty();
            Ok(!waiting || passed(run) >= longest)
        })
        .await?;
        let reason = if !overcommitted {
            StartReason::NotOvercommitted
        } else if not_descheduled.is_empty() {
            StartReason::EveryVcpuDescheduled
        } else {
            StartReason::LimitReached(not_descheduled.iter().map(|&(vcpu, _)| vcpu).collect())
        };
        Ok(Start {
            warm_up_ms: passed(self).as_secs_f64() * 1e3,
            reason,
        })
    }

    /// Every vCPU's number, through all VMs, and how often it has left its CPU.
    pub(super) fn switches(&self) -> Vec<(usize, u64)> {
        let vms = self.vms.iter().map(|vm| &vm.machine);
        let switches = vms.flat_map(|vm| {
            (0..vm.region().layout().vcpus()).map(|vcpu| vm.thread(vcpu).switches())
        });
        switches.enumerate().collect()
    }

    /// Tells guests that this machine marks preempted vCPUs, as soon as one is seen marked.
    pub(crate) fn note_reported_preemption(&self) -> Result<(), RunError> {
        for vm in &self.vms {
            let region = vm.machine.region();
            for vcpu in 0..region.layout().vcpus() {
                if let Some((_, true)) = region.steal(vcpu)? {
                    region.set_preempted_is_reported()?;
                    break;
                }
            }
        }
        Ok(())
    }
}
