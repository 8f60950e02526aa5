//! What is put on the machine before it runs, and what can be asked of it afterwards.

use super::execution::{Doing, Execution, Program, Tenant, area_at};
use super::turn::{LINE_BYTES, Window};
use super::{Engine, EngineStats};
use crate::outcome::{Outcome, VcpuStats};
use crate::units::Ps;
use abi::HostStep;
use abi::Layout;
use abi::Switch;
use corosensei::stack::DefaultStack;
use std::ptr;

/// A vCPU to be.
pub(crate) struct NewVcpu {
    /// `None`: it computes for ever.
    pub(crate) program: Option<Program>,
    pub(crate) lowest_stack: usize,
    /// Its VM, and its number there.
    pub(crate) vm: Option<(usize, usize)>,
    pub(crate) area: usize,
    pub(crate) allowed: Box<[u32]>,
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Engine {
    pub(crate) fn add_vm(
        &mut self,
        layout: Layout,
        region: usize,
        task_stacks: Vec<DefaultStack>,
    ) -> usize {
        let (first, bytes) = (self.executions.len(), layout.size());
        let lines = bytes.div_ceil(LINE_BYTES);
        self.tenants.push(Tenant {
            vcpus: small(first)..small(first + layout.vcpus()),
            window: Window {
                base: region,
                bytes,
                first_line: small(self.coherence.add_lines(lines)),
            },
            layout,
            task_stacks,
        });
        self.hypervisor.add_vm();
        self.tenants.len() - 1
    }

    pub(crate) fn add_vcpu(&mut self, new: NewVcpu) {
        let (vcpu, now) = (small(self.executions.len()), self.agenda.now);
        let (vm, own) = new.vm.unwrap_or((0, 0));
        let steal = new.vm.map(|_| &area_at(new.area).steal);
        self.coherence.add_vcpu();
        self.hypervisor.add_vcpu(small(own), now);
        self.scheduler
            .add_vcpu(new.vm.map(|_| small(vm)), own, new.allowed, steal, now);
        self.executions.push(Execution {
            doing: match new.program {
                Some(_) => Doing::Nothing,
                None => Doing::Computed { left: Ps::MAX / 2 },
            },
            program: new.program.map(Box::new),
            yielder: ptr::null(),
            lowest_stack: new.lowest_stack,
            vm: small(vm),
            number: small(own),
            area: new.area,
            arranged: 0,
            spins_on: 0,
            line_changed: false,
            masked: false,
            spin_left: 0,
        });
        self.make_runnable(vcpu);
    }

    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    pub(crate) fn now(&self) -> Ps {
        self.agenda.now
    }

    pub(crate) fn number_of(&self, vm: usize, vcpu: usize) -> u32 {
        self.tenants[vm].vcpus.start + small(vcpu)
    }

    pub(crate) fn vcpu_stats(&self, vcpu: u32) -> VcpuStats {
        let (times, switches) = self.scheduler.account(vcpu, self.agenda.now);
        let (cpu_ns, queued_ns) = times;
        let (voluntary_switches, involuntary_switches) = switches;
        VcpuStats {
            cpu_ns,
            queued_ns,
            voluntary_switches,
            involuntary_switches,
            exits: self.hypervisor.exits(vcpu),
        }
    }

    pub(crate) fn take_switches(&mut self, vcpu: u32) -> Vec<Switch> {
        self.scheduler.take_switches(vcpu)
    }

    pub(crate) fn take_steps(&mut self, vcpu: u32) -> Vec<(u64, HostStep)> {
        self.hypervisor.take_steps(vcpu)
    }

    pub(crate) fn cpu_times(&self) -> Vec<(u64, u64)> {
        self.scheduler.cpu_times(self.agenda.now)
    }

    pub(crate) fn stats(&self) -> EngineStats {
        EngineStats {
            events: self.events,
            requests: self.coherence.requests(),
            operations: self.turn.operations(),
        }
    }

    /// Ends all programs where they are.
    #[allow(unsafe_code)] // What is on their stacks is not dropped.
    pub(crate) fn forget_programs(&mut self) {
        let programs = self.executions.iter_mut().map(|e| &mut e.program);
        for program in programs.flatten() {
            // SAFETY: nothing on the stack of a program is referred to from outside it: workloads
            // own nothing but numbers and references into the region.
            unsafe { program.force_reset() };
        }
    }
}
