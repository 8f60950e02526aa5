//! What is put on the machine before it runs, and what can be asked of it afterwards.

use super::event::{NS, Ps};
use super::vcpu::{Doing, Exits, HostStep, Program, State, Switch, Vcpu, VcpuStats};
use super::{Engine, EngineStats, LINE_BYTES, Vm, area_of};
use crate::simulation::{Outcome, Said};
use corosensei::Yielder;
use corosensei::stack::DefaultStack;
use guest::abi::{Layout, Task};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

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

impl Engine {
    pub(crate) fn add_vm(
        &mut self,
        layout: Layout,
        region: usize,
        task_stacks: Vec<DefaultStack>,
    ) -> usize {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.vms.push(Vm {
            vcpus: (small(self.vcpus.len()), small(layout.vcpus())),
            base: region,
            bytes: layout.size(),
            first_line: small(self.lines.len()),
            boosted: 0,
            layout,
            task_stacks,
        });
        // Pages of zeros are taken from the system when they are touched; growing keeps them so.
        let lines = vec![0; self.lines.len() + layout.size().div_ceil(LINE_BYTES)];
        let before = std::mem::replace(&mut self.lines, lines);
        self.lines[..before.len()].copy_from_slice(&before);
        self.vms.len() - 1
    }

    pub(crate) fn add_vcpu(&mut self, new: NewVcpu) {
        let number = u32::try_from(self.vcpus.len()).unwrap_or(u32::MAX);
        self.may_migrate |= new.allowed.len() > 1;
        let is_noise = new.vm.is_none();
        let (vm, own) = new.vm.unwrap_or((0, 0));
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        // Where many may be, they begin one after the other.
        let cpu = new.allowed[own % new.allowed.len()];
        self.requested.push((0, false));
        self.programs.push(new.program.map(Box::new));
        self.vcpus.push(Vcpu {
            lowest_stack: new.lowest_stack,
            vm: small(vm),
            number: small(own),
            area: new.area,
            allowed: new.allowed,
            state: State::Away,
            doing: if is_noise {
                Doing::Computed { left: Ps::MAX / 2 }
            } else {
                Doing::Nothing
            },
            cpu,
            arranged: 0,
            ran_on: cpu,
            is_guest: !is_noise,
            spin_left: 0,
            yielder: ptr::null(),
            line_changed: false,
            kicked: false,
            waking: false,
            halted_at: 0,
            poll: 0,
            ple_window: self.times.ple_window_ns,
            ple_left: self.times.ple_window_ns,
            paused_at: 0,
            since: self.now,
            ran: 0,
            queued: 0,
            vruntime: 0,
            deadline: 0,
            voluntary: 0,
            involuntary: 0,
            exits: Exits::default(),
            switches: Vec::new(),
            steps: Vec::new(),
            away_since: self.now,
            sections: 0,
            wakes: 0,
        });
        self.make_runnable(number);
    }

    /// The executing vCPU has begun.
    pub(crate) fn begins(&mut self, yielder: *const Yielder<(), ()>) -> usize {
        let v = &mut self.vcpus[self.vcpu as usize];
        v.yielder = yielder;
        v.area
    }

    pub(crate) fn says(&mut self, what: Said) {
        let v = &self.vcpus[self.vcpu as usize];
        self.outcomes.push(Outcome {
            vm: v.vm as usize,
            vcpu: v.number as usize,
            what,
        });
    }

    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    pub(crate) fn now(&self) -> Ps {
        self.now
    }

    pub(crate) fn number_of(&self, vm: usize, vcpu: usize) -> u32 {
        self.vms[vm].vcpus.0 + u32::try_from(vcpu).unwrap_or(u32::MAX)
    }

    pub(crate) fn vcpu_stats(&self, vcpu: u32) -> VcpuStats {
        self.vcpus[vcpu as usize].stats(self.now)
    }

    pub(crate) fn is_halted(&self, vcpu: u32) -> bool {
        let v = &self.vcpus[vcpu as usize];
        v.state == State::Halted || v.doing == Doing::Polls
    }

    pub(crate) fn take_switches(&mut self, vcpu: u32) -> Vec<Switch> {
        std::mem::take(&mut self.vcpus[vcpu as usize].switches)
    }

    pub(crate) fn take_steps(&mut self, vcpu: u32) -> Vec<(u64, HostStep)> {
        std::mem::take(&mut self.vcpus[vcpu as usize].steps)
    }

    pub(crate) fn cpu_times(&self) -> Vec<(u64, u64)> {
        let times = self.cpus.iter().map(|cpu| cpu.times(self.now));
        times.map(|(busy, idle)| (busy / NS, idle / NS)).collect()
    }

    pub(crate) fn stats(&self) -> EngineStats {
        self.stats
    }

    /// Ends all programs where they are.
    #[allow(unsafe_code)] // What is on their stacks is not dropped.
    pub(crate) fn forget_programs(&mut self) {
        for program in self.programs.iter_mut().flatten() {
            // SAFETY: nothing on the stack of a program is referred to from outside it: workloads
            // own nothing but numbers and references into the region.
            unsafe { program.force_reset() };
        }
    }

    /// See [`crate::Simulation::is_stuck`].
    pub(crate) fn is_stuck(&self, vm: usize) -> bool {
        let (first, count) = self.vms[vm].vcpus;
        let mut wanted = false;
        for vcpu in first..first + count {
            let v = &self.vcpus[vcpu as usize];
            let for_good = match v.state {
                State::Done => continue,
                State::Halted => !v.waking,
                State::Running | State::Queued => {
                    matches!(v.doing, Doing::Spins { left: Ps::MAX, .. }) && !v.line_changed
                }
                State::Away => false,
            };
            if !for_good {
                return false;
            }
            let area = area_of(v.area);
            wanted |=
                area.task.load(Relaxed) == Task::Working as u32 && area.finished.load(Relaxed) == 0;
        }
        wanted
    }

    /// What a vCPU is doing, for a person.
    pub(crate) fn describe(&self, vcpu: u32) -> String {
        let v = &self.vcpus[vcpu as usize];
        let cpu = v.cpu;
        match (v.state, v.doing) {
            (State::Done, _) => "ended".to_owned(),
            (State::Halted, _) => format!("halted, off CPU {cpu}"),
            (State::Running, Doing::Polls) => format!("halted, CPU {cpu} polls for it"),
            (State::Away, _) => "held off its CPU".to_owned(),
            (State::Running, Doing::Spins { line, .. }) => {
                format!("spins on {} on CPU {cpu}", self.name_of(line))
            }
            (State::Running, Doing::WaitsForLine) => {
                let line = self.requested[vcpu as usize].0;
                format!("waits on CPU {cpu} for the line of {}", self.name_of(line))
            }
            (State::Running, _) => format!("runs on CPU {cpu}"),
            (State::Queued, Doing::Spins { line, .. }) => {
                format!("spins on {}, waits for CPU {cpu}", self.name_of(line))
            }
            (State::Queued, _) => format!("waits for CPU {cpu}"),
        }
    }

    /// What is on a line.
    fn name_of(&self, line: u32) -> String {
        let of = |vm: &&Vm| line >= vm.first_line;
        let Some(vm) = self.vms.iter().rev().find(of) else {
            return "memory".to_owned();
        };
        let offset = (line - vm.first_line) as usize * LINE_BYTES;
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
