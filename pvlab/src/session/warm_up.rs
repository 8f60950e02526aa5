//! The warm-up: until when nothing counts.

use super::run::{POLL, Run};
use super::vms::all;
use super::{RunError, look_every};
use crate::machine::RunningVm;
use crate::record::{Start, StartReason};
use abi::{Counter, phase};
use std::time::Duration;
use tokio::time::Instant;

/// How often to look whether every vCPU has been preempted, once it is.
const SWITCH_LOOK: Duration = Duration::from_millis(20);
/// The longest warm-up, as a multiple of the shortest, and at least.
const LONGEST_WARM_UP: u32 = 20;
const LEAST_LONGEST_WARM_UP: Duration = Duration::from_secs(5);

/// How long a warm-up may last for those that have halted but have not been preempted, as a multiple of
/// the shortest.
const HALTED_WARM_UP: u32 = 2;

/// A vCPU that has not been preempted yet.
#[derive(Clone, Copy)]
struct NotPreempted {
    vm: usize,
    vcpu: usize,
    /// Counted through all VMs.
    number: usize,
    /// Times it had been preempted when the warm-up began; `None`: unknown.
    preemptions: Option<u64>,
    /// Times it had given up its CPU by itself.
    given_up: u64,
}

impl Run<'_> {
    /// Lets the vCPUs work until the measurement may start.
    ///
    /// Fair locks look thousands of times faster until the first of their waiters is preempted, so where
    /// vCPUs must share CPUs each has to have been preempted once. To have halted is not the same: a vCPU
    /// that halts has left its CPU when it suited the lock. But where waiters halt it may be long until
    /// each has been preempted, and less depends on it: there the warm-up is at most doubled for it.
    pub(super) async fn warm_up(&mut self) -> Result<Start, RunError> {
        let begun = Instant::now();
        self.enter(phase::WARM_UP)?;
        let mut left = self.not_preempted()?;
        self.vms.kick_all()?;
        let shortest = self.scenario.warm_up;
        let every = look_every(self.scenario.machine).min(shortest / 2);
        self.absences.forget();
        let passed = |run: &Self| begun.elapsed().saturating_sub(run.absences.lost());
        self.wait_until(every.max(POLL), |run| Ok(passed(run) >= shortest))
            .await?;

        let longest = (shortest * LONGEST_WARM_UP).max(LEAST_LONGEST_WARM_UP);
        let overcommitted = self.scenario.overcommitted();
        let every = look_every(self.scenario.machine).min(SWITCH_LOOK);
        let mut reason = StartReason::NotOvercommitted;
        self.wait_until(every, |run| {
            run.note_reported_preemption()?;
            if !overcommitted {
                return Ok(true);
            }
            left.retain(|vcpu| !run.preempted_since(vcpu));
            let passed = passed(run);
            let numbers = || left.iter().map(|vcpu| vcpu.number).collect();
            reason = if left.is_empty() {
                StartReason::EveryVcpuDescheduled
            } else if left.iter().any(|vcpu| vcpu.preemptions.is_none()) {
                StartReason::PreemptionsUnknown
            } else if passed >= longest {
                StartReason::LimitReached(numbers())
            } else if passed >= shortest * HALTED_WARM_UP && run.all_gave_up(&left)? {
                StartReason::HaltedOnly(numbers())
            } else {
                return Ok(false);
            };
            Ok(true)
        })
        .await?;
        Ok(Start {
            warm_up_ms: passed(self).as_secs_f64() * 1e3,
            reason,
        })
    }

    /// Every vCPU, as none has been preempted from now on.
    fn not_preempted(&self) -> Result<Vec<NotPreempted>, RunError> {
        let mut all = Vec::new();
        for (vm, watched) in self.vms.iter().enumerate() {
            for vcpu in watched.vcpus() {
                all.push(NotPreempted {
                    vm,
                    vcpu,
                    number: all.len(),
                    preemptions: watched.machine.thread(vcpu).involuntary_switches,
                    given_up: given_up(&*watched.machine, vcpu)?,
                });
            }
        }
        Ok(all)
    }

    fn preempted_since(&self, before: &NotPreempted) -> bool {
        let thread = self.vms[before.vm].machine.thread(before.vcpu);
        let (now, before) = (thread.involuntary_switches, before.preemptions);
        now.zip(before).is_some_and(|(now, before)| now > before)
    }

    /// Whether each of these has halted, or yielded, since then.
    fn all_gave_up(&self, vcpus: &[NotPreempted]) -> Result<bool, RunError> {
        all(vcpus, |before| {
            let machine = &*self.vms[before.vm].machine;
            Ok(given_up(machine, before.vcpu)? != before.given_up)
        })
    }

    /// Tells guests that this machine marks preempted vCPUs, as soon as one is seen marked.
    pub(crate) fn note_reported_preemption(&self) -> Result<(), RunError> {
        for vm in self.vms.iter() {
            let region = vm.machine.region();
            for vcpu in vm.vcpus() {
                if let Some((_, true)) = region.steal(vcpu)? {
                    region.set_preempted_is_reported()?;
                    break;
                }
            }
        }
        Ok(())
    }
}

/// How often a vCPU has given up its CPU by itself.
fn given_up(machine: &dyn RunningVm, vcpu: usize) -> Result<u64, RunError> {
    let counters = machine.region().counters(vcpu)?;
    let of = |counter: Counter| counters[counter.index()];
    // Futile yields gave nothing up.
    Ok(of(Counter::Halts) + of(Counter::Yields).saturating_sub(of(Counter::FutileYields)))
}
