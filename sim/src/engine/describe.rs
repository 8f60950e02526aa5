//! What vCPUs are doing, for a person.

use super::Engine;
use super::execution::{Doing, Tenant};
use super::turn::LINE_BYTES;
use crate::scheduler::State;
use crate::units::Ps;
use abi::{Layout, VcpuState};
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// See [`crate::Simulation::is_stuck`].
    pub(crate) fn is_stuck(&self, vm: usize) -> bool {
        let mut wanted = false;
        for vcpu in self.tenants[vm].vcpus.clone() {
            let execution = &self.executions[vcpu as usize];
            let for_good = match self.scheduler.state(vcpu) {
                State::Done => continue,
                State::Halted => !self.hypervisor.is_waking(vcpu),
                State::Running | State::Queued => {
                    matches!(execution.doing, Doing::Spins { left: Ps::MAX, .. })
                        && !execution.line_changed
                }
                State::Away => false,
            };
            if !for_good {
                return false;
            }
            let area = execution.area();
            wanted |= area.state.load(Relaxed) == VcpuState::Working as u32
                && area.finished.load(Relaxed) == 0;
        }
        wanted
    }

    /// What a vCPU is doing, for a person.
    pub(crate) fn describe(&self, vcpu: u32) -> String {
        let execution = &self.executions[vcpu as usize];
        let cpu = self.scheduler.cpu_of(vcpu);
        let spins_on = || self.name_of(execution.spins_on);
        match (self.scheduler.state(vcpu), execution.doing) {
            (State::Done, _) => "ended".to_owned(),
            (State::Halted, _) => format!("halted, off CPU {cpu}"),
            (State::Running, Doing::Polls) => format!("halted, CPU {cpu} polls for it"),
            (State::Away, _) => "held off its CPU".to_owned(),
            (State::Running, Doing::Spins { .. }) => {
                format!("spins on {} on CPU {cpu}", spins_on())
            }
            (State::Running, Doing::WaitsForLine) => {
                let line = self.coherence.requested(vcpu);
                format!("waits on CPU {cpu} for the line of {}", self.name_of(line))
            }
            (State::Running, _) => format!("runs on CPU {cpu}"),
            (State::Queued, Doing::Spins { .. }) => {
                format!("spins on {}, waits for CPU {cpu}", spins_on())
            }
            (State::Queued, _) => format!("waits for CPU {cpu}"),
        }
    }

    /// What is on a line.
    fn name_of(&self, line: u32) -> String {
        let of = |vm: &&Tenant| line >= vm.window.first_line;
        let Some(vm) = self.tenants.iter().rev().find(of) else {
            return "memory".to_owned();
        };
        let offset = (line - vm.window.first_line) as usize * LINE_BYTES;
        let layout = vm.layout;
        let part = |start: usize, end: usize, size: usize| {
            (start..end)
                .contains(&offset)
                .then(|| (offset - start) / size)
        };
        let size = |of: fn(Layout, usize) -> usize| of(layout, 1) - of(layout, 0);
        let locks = part(
            layout.lock(0),
            layout.lock(layout.locks()),
            size(Layout::lock),
        );
        let nodes = part(
            layout.percpu(0),
            layout.percpu(layout.vcpus()),
            size(Layout::percpu),
        );
        let waiters = part(
            layout.waiter(0),
            layout.waiter(layout.tasks()),
            Layout::WAITER_BYTES,
        );
        match (locks, nodes, waiters) {
            (Some(lock), _, _) => format!("lock {lock}"),
            (_, Some(cpu), _) => format!("the queue node of vCPU {cpu}"),
            (_, _, Some(task)) => format!("the waiter of task {task}"),
            _ => format!("offset {offset:#x} of the region"),
        }
    }
}
