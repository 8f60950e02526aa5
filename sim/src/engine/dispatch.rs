//! vCPUs get CPUs, and lose them.

use super::Engine;
use super::execution::Doing;
use crate::scheduler::State;

impl Engine {
    /// `vcpu` can run, and waits for a CPU.
    pub(super) fn make_runnable(&mut self, vcpu: u32) {
        let now = self.agenda.now;
        let cpu = self.scheduler.make_runnable(vcpu, now);
        self.waits_for(cpu, |e| e.scheduler.preempts(vcpu, cpu, now));
    }

    /// A vCPU has begun to wait for `cpu`: whether it takes that from another that runs is asked if one does.
    fn waits_for(&mut self, cpu: u32, preempts: impl FnOnce(&Self) -> bool) {
        match self.scheduler.current(cpu) {
            None => self.scheduler.rouse(cpu, &mut self.agenda),
            Some(current) if self.polls(current) => self.end_poll(current),
            Some(_) if preempts(self) => self.reschedule(cpu),
            Some(_) => self.scheduler.arrange_tick(cpu, &mut self.agenda),
        }
    }

    /// The vCPU on `cpu` goes back into the queue, and the first of the queue gets the CPU: now, or as
    /// soon as it does not wait for a line any more.
    pub(super) fn reschedule(&mut self, cpu: u32) {
        let Some(current) = self.scheduler.current(cpu) else {
            self.scheduler.rouse(cpu, &mut self.agenda);
            return;
        };
        let executes = self.turn.is_of(current);
        let masked = self.is_masked(current);
        if executes && !masked {
            self.turn.hurry();
        }
        if executes || masked || self.execution(current).doing == Doing::WaitsForLine {
            self.scheduler.set_due(cpu, true);
        } else if let Some(vcpu) = self.scheduler.preempt(cpu, &mut self.agenda) {
            self.has_left(vcpu, cpu);
        }
    }

    /// The vCPU on `cpu` gives it up.
    pub(super) fn give_up(&mut self, cpu: u32, state: State) {
        if let Some(vcpu) = self.scheduler.give_up(cpu, state, self.agenda.now) {
            self.has_left(vcpu, cpu);
        }
    }

    /// `vcpu` is not on `cpu` any more, which others may have.
    fn has_left(&mut self, vcpu: u32, cpu: u32) {
        let now = self.agenda.now;
        self.execution(vcpu).suspend(now);
        self.schedule(cpu);
    }

    /// The program of `vcpu`, which is on `cpu`, has ended.
    pub(super) fn end(&mut self, vcpu: u32, cpu: u32) {
        let execution = self.execution(vcpu);
        execution.program = None;
        execution.doing = Doing::Nothing;
        self.give_up(cpu, State::Done);
    }

    /// An idle `cpu` is given to one that waits, if one does.
    fn schedule(&mut self, cpu: u32) {
        let now = self.agenda.now;
        let Some((vcpu, mut start)) = self.scheduler.put_on(cpu, now) else {
            return;
        };
        self.hypervisor.enters(vcpu, now);
        let entry = self.times.entry_ns;
        let execution = self.execution(vcpu);
        if execution.program.is_some() {
            start += entry;
        }
        match execution.doing {
            Doing::Computed { left } => start = start.saturating_add(left),
            Doing::Spins { left, .. } => execution.spin_left = left,
            _ => {}
        }
        self.arrange_step(vcpu, start);
        self.scheduler.arrange_tick(cpu, &mut self.agenda);
    }

    pub(super) fn tick(&mut self, cpu: u32) {
        if let Some(is_over) = self.scheduler.tick(cpu, self.agenda.now) {
            if is_over {
                self.reschedule(cpu);
            }
            self.scheduler.arrange_tick(cpu, &mut self.agenda);
        }
    }

    pub(super) fn cpu_awake(&mut self, cpu: u32) {
        if self.scheduler.awakes(cpu) {
            self.schedule(cpu);
        }
    }

    /// Spreads waiting vCPUs over the CPUs.
    pub(super) fn balance(&mut self) {
        self.scheduler.arrange_balance(&mut self.agenda);
        for _ in 0..self.topology.cpus() {
            let Some(cpu) = self.scheduler.even_out() else {
                return;
            };
            self.waits_for(cpu, |_| false);
        }
    }

    /// `vcpu` is to be the next on its CPU, which it waits for, as `yielder` has yielded to it.
    pub(super) fn favour(&mut self, vcpu: u32, yielder: u32) {
        if let Some(cpu) = self.scheduler.favour(vcpu, yielder) {
            self.reschedule(cpu);
        }
    }
}
