//! What programs ask and tell the machine about themselves.

use super::Engine;
use crate::outcome::{Outcome, Said};
use corosensei::Yielder;
use corosensei::stack::Stack;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that must be left of a stack whenever a vCPU waits.
const STACK_RESERVE: usize = 32 << 10;

impl Engine {
    /// The executing vCPU has begun: the address of its area.
    pub(crate) fn begins(&mut self, yielder: *const Yielder<(), ()>) -> usize {
        let vcpu = self.turn.vcpu();
        let execution = self.execution(vcpu);
        execution.yielder = yielder;
        execution.area
    }

    pub(crate) fn says(&mut self, what: Said) {
        let execution = &self.executions[self.turn.vcpu() as usize];
        self.outcomes.push(Outcome {
            vm: execution.vm as usize,
            vcpu: execution.number as usize,
            what,
        });
    }

    /// The number among all of vCPU `number` of the VM of the executing one.
    pub(super) fn fellow(&self, number: u32) -> u32 {
        let vm = self.executions[self.turn.vcpu() as usize].vm;
        self.tenants[vm as usize].vcpus.start + number
    }

    /// The NUMA node, which is the socket, of vCPU `number` of the VM of the executing one: where it may
    /// run, or ran last.
    pub(crate) fn socket_of(&self, number: u32) -> u32 {
        let cpu = self.scheduler.cpu_of(self.fellow(number));
        #[expect(clippy::cast_possible_truncation, reason = "a few")]
        let socket = self.topology.socket(cpu) as u32;
        socket
    }

    /// Whether little is left of the stack that `at` is on: the executing vCPU's, or its present task's.
    pub(crate) fn stack_is_low(&self, at: usize) -> bool {
        let execution = &self.executions[self.turn.vcpu() as usize];
        let stacks = &self.tenants[execution.vm as usize].task_stacks;
        // Asked whenever a vCPU waits: the region is looked at only if there is a choice.
        let other = if stacks.is_empty() {
            None
        } else {
            let queue = &execution.area().run_queue;
            let own = queue.current.load(Relaxed) % queue.per_vcpu;
            let before = execution.number as usize * (queue.per_vcpu as usize - 1);
            own.checked_sub(1).map(|place| before + place as usize)
        };
        let lowest = match other {
            None => execution.lowest_stack,
            Some(place) => stacks.get(place).map_or(0, |stack| stack.limit().get()),
        };
        at < lowest + STACK_RESERVE
    }
}
