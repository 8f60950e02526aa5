//! vCPUs leave the guest: they halt, kick, yield, or spin for too long.

use super::Engine;
use super::execution::Doing;
use crate::agenda::What;
use crate::hypervisor::{Halt, Yielded};
use crate::scheduler::State;
use crate::units::{NS, Ps};
use abi::{Counter, HostStep};

impl Engine {
    /// The executing vCPU leaves the guest for `step`, or enters it.
    pub(crate) fn note(&mut self, step: HostStep) {
        self.hypervisor
            .note(self.turn.vcpu(), step, self.agenda.now);
    }

    pub(super) fn polls(&self, vcpu: u32) -> bool {
        self.executions[vcpu as usize].doing == Doing::Polls
    }

    pub(crate) fn is_halted(&self, vcpu: u32) -> bool {
        self.scheduler.state(vcpu) == State::Halted || self.polls(vcpu)
    }

    /// The executing vCPU, which has left the guest, halts, unless it has been kicked. False: it goes on.
    pub(crate) fn halt(&mut self) -> bool {
        let vcpu = self.turn.vcpu();
        let is_wanted = self.scheduler.is_wanted(self.turn.cpu());
        match self.hypervisor.halt(vcpu, is_wanted, self.agenda.now) {
            Halt::Kicked => return false,
            Halt::Polls(until) => {
                let arranged = self.agenda.arrange(until, What::PollEnds, vcpu);
                let execution = self.execution(vcpu);
                execution.doing = Doing::Polls;
                execution.arranged = arranged;
            }
            Halt::Blocks => self.leave_for(State::Halted),
        }
        true
    }

    /// The executing vCPU leaves its CPU once it suspends itself.
    fn leave_for(&mut self, state: State) {
        let vcpu = self.turn.vcpu();
        self.execution(vcpu).doing = Doing::Nothing;
        self.turn.leave_for(state);
    }

    /// The CPU of a halted vCPU has polled in vain.
    pub(super) fn end_poll(&mut self, vcpu: u32) {
        if self.polls(vcpu) {
            self.execution(vcpu).doing = Doing::Nothing;
            self.give_up(self.scheduler.cpu_of(vcpu), State::Halted);
        }
    }

    /// Kicks `target` at this moment.
    pub(crate) fn kick(&mut self, target: u32) {
        if self.scheduler.state(target) == State::Done {
            return;
        }
        let (is_halted, polls) = (self.is_halted(target), self.polls(target));
        let now = self.agenda.now;
        if let Some(at) = self.hypervisor.kick(target, is_halted, polls, now) {
            self.agenda.arrange(at, What::Wake, target);
        }
    }

    /// The executing vCPU kicks vCPU `number` of its VM.
    pub(crate) fn kick_fellow(&mut self, number: u32) {
        self.kick(self.fellow(number));
        self.hypervisor.note_kick(self.turn.vcpu());
    }

    /// A halted vCPU has been kicked, and can run.
    pub(super) fn wake(&mut self, vcpu: u32) {
        let now = self.agenda.now;
        self.hypervisor.wakes(vcpu, now);
        if self.polls(vcpu) {
            self.hypervisor.note(vcpu, HostStep::Enter, now);
            self.arrange_step(vcpu, now + self.times.entry_ns);
        } else {
            self.execution(vcpu).doing = Doing::Nothing;
            self.make_runnable(vcpu);
        }
    }

    /// The executing vCPU leaves its CPU for `ns`.
    pub(crate) fn stay_away(&mut self, ns: u64) {
        let (vcpu, now) = (self.turn.vcpu(), self.agenda.now);
        self.hypervisor.goes_away(vcpu, now);
        self.agenda.arrange(now + ns * NS, What::Timer, vcpu);
        self.leave_for(State::Away);
    }

    pub(super) fn come_back(&mut self, vcpu: u32) {
        self.hypervisor.comes_back(vcpu, self.agenda.now);
        self.make_runnable(vcpu);
    }

    /// The executing vCPU interrupts all others of its VM that run, each of which leaves the guest and enters
    /// it again. One that spins loses nothing by it, and one that waits for a line takes it meanwhile.
    pub(crate) fn barrier(&mut self) {
        let own = self.turn.vcpu();
        let vm = self.executions[own as usize].vm as usize;
        let takes = self.times.exit_ns + self.times.entry_ns;
        for vcpu in self.tenants[vm].vcpus.clone().filter(|&vcpu| vcpu != own) {
            if self.scheduler.state(vcpu) != State::Running {
                continue;
            }
            if let Doing::Computes { until } = self.execution(vcpu).doing {
                self.arrange_step(vcpu, until + takes);
            }
        }
    }

    /// The executing vCPU yields to vCPU `number` of its VM.
    pub(crate) fn yield_to(&mut self, number: u32) -> Yielded {
        let target = self.fellow(number);
        match self.scheduler.state(target) {
            State::Running if !self.polls(target) => Yielded::WasRunning,
            State::Queued => {
                self.favour(target, self.turn.vcpu());
                self.reschedule(self.turn.cpu());
                Yielded::Next
            }
            _ => Yielded::WasHalted,
        }
    }

    /// A vCPU has spun for as long as it may, or must leave the guest for it.
    pub(super) fn spin_ends(&mut self, vcpu: u32) {
        let Doing::Spins { since, left } = self.execution(vcpu).doing else {
            return;
        };
        self.spun(vcpu, since, left);
        if !self.hypervisor.has_spun_out(vcpu) {
            self.arrange_step(vcpu, self.agenda.now);
            return;
        }
        let done = self.pause_exit(vcpu);
        self.arrange_step(vcpu, done);
        // The one that it has yielded to may be on this very CPU.
        let cpu = self.scheduler.cpu_of(vcpu);
        if self.scheduler.is_due(cpu) {
            self.scheduler.set_due(cpu, false);
            self.reschedule(cpu);
        }
    }

    /// Accounts for what was spun since `since`; `left` was to be spun at most.
    pub(super) fn spun(&mut self, vcpu: u32, since: Ps, left: Ps) {
        let now = self.agenda.now;
        self.execution(vcpu).spin_left = left.saturating_sub(now - since);
        self.hypervisor.spun(vcpu, now - since, now);
    }

    /// The executing vCPU leaves the guest as it pauses for too long.
    pub(crate) fn leave_for_pause(&mut self) {
        self.synchronize();
        let back = self.pause_exit(self.turn.vcpu());
        self.turn.set_local(back);
    }

    /// A spinning vCPU leaves the guest, and yields to one that is preempted, if there is one. When it is
    /// back.
    fn pause_exit(&mut self, vcpu: u32) -> Ps {
        let now = self.agenda.now;
        let vm = self.executions[vcpu as usize].vm as usize;
        let all = self.tenants[vm].vcpus.clone();
        let state = |vcpu| self.scheduler.state(vcpu);
        let (target, yielded) = self.hypervisor.pause_exit(vcpu, vm, all, now, state);
        if let Some(target) = target {
            self.favour(target, vcpu);
            // Not before it is arranged when the vCPU goes on: the caller does that.
            let cpu = self.scheduler.cpu_of(vcpu);
            self.scheduler.set_due(cpu, true);
        }
        let area = self.executions[vcpu as usize].area();
        area.count(Counter::Yields, 1);
        for &counter in yielded.counters() {
            area.count(counter, 1);
        }
        self.hypervisor.note(vcpu, HostStep::Enter, now);
        now + self.times.exit_ns + self.times.entry_ns
    }

    /// The executing vCPU has begun a critical section: it leaves its CPU, if a schedule says so. For how
    /// long, ns.
    pub(crate) fn section_begins(&mut self) -> Option<u64> {
        self.hypervisor.section_begins(self.turn.vcpu())
    }
}
