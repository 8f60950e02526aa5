//! vCPUs use lines, wait for them, and spin on them.

use super::Engine;
use super::execution::Doing;
use crate::agenda::What;
use crate::scheduler::State;
use crate::units::Ps;

/// How a line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Load,
    Store,
    Modify,
}

impl Engine {
    /// Uses a line that this CPU has; false if it has to ask for it, or has to wait until nobody else
    /// does anything before.
    #[inline(always)]
    pub(crate) fn use_line(&mut self, line: u32, how: Use) -> bool {
        let state = self.coherence.line(line);
        let too_early = if state.in_flight() {
            self.turn.is_ahead_at_all()
        } else {
            self.turn.is_ahead()
        };
        let cpu = self.turn.cpu();
        let here = (cpu, self.turn.local());
        if too_early || !(self.coherence).can_use(line, state, here, how != Use::Load) {
            return false;
        }
        self.line_is_here(how);
        true
    }

    /// Accounts for using a line that this CPU has.
    #[inline(always)]
    pub(crate) fn line_is_here(&mut self, how: Use) {
        self.turn.charge_use(how == Use::Modify);
    }

    /// Asks for a line; the vCPU is to suspend itself.
    pub(crate) fn ask_for(&mut self, line: u32, how: Use) {
        self.synchronize();
        self.request(self.turn.vcpu(), self.turn.cpu(), line, how != Use::Load);
    }

    fn request(&mut self, vcpu: u32, cpu: u32, line: u32, write: bool) {
        self.execution(vcpu).doing = Doing::WaitsForLine;
        self.coherence
            .request((vcpu, cpu), line, write, &mut self.agenda);
    }

    /// The request of `vcpu` is granted; it goes on.
    pub(super) fn grant(&mut self, vcpu: u32) {
        let (line, written) = self.coherence.grant(vcpu);
        if written {
            self.wake_watchers(line);
        }
        self.coherence.send_requests(line, &mut self.agenda);
    }

    /// Those that spin on the line lose their copies, and will look at it again.
    fn wake_watchers(&mut self, line: u32) {
        let watchers = self.coherence.take_watchers(line);
        for &vcpu in &watchers {
            let execution = &mut self.executions[vcpu as usize];
            let Doing::Spins { since, left } = execution.doing else {
                continue;
            };
            if execution.spins_on != line {
                continue;
            }
            execution.line_changed = true;
            if self.scheduler.state(vcpu) != State::Running {
                // It will look again when it gets a CPU.
                continue;
            }
            let notices = if self.wait_on_line {
                0
            } else {
                self.agenda.chance.below(self.times.pause_ns)
            };
            self.spun(vcpu, since, left);
            self.computes_until(vcpu, self.agenda.now + notices, What::Notices);
        }
        self.coherence.put_back(line, watchers);
    }

    /// A spinning vCPU looks at its line again: now if its CPU has it, else when it has come. True if now.
    pub(super) fn looks_again(&mut self, vcpu: u32) -> bool {
        let line = self.execution(vcpu).spins_on;
        let cpu = self.scheduler.cpu_of(vcpu);
        let is_here = self.coherence.can_read(line, cpu);
        if !is_here {
            self.request(vcpu, cpu, line, false);
        }
        is_here
    }

    /// Whether a read-modify-write is a load and a conditional store.
    pub(crate) fn stores_conditionally(&self) -> bool {
        self.llsc
    }

    /// How often `line` has been taken for writing.
    pub(crate) fn writes(&mut self, line: u32) -> u32 {
        self.coherence.writes(line)
    }

    /// Whether the executing vCPU's CPU has a copy of `line`.
    pub(crate) fn has(&self, line: u32) -> bool {
        self.coherence.can_read(line, self.turn.cpu())
    }

    /// The vCPU is to spin until `line` changes, for `budget` at most; it is to suspend itself, unless
    /// the line has changed by now.
    pub(crate) fn spin(&mut self, line: u32, budget: Ps) -> bool {
        if !self.has(line) {
            return false;
        }
        self.synchronize();
        let (vcpu, now) = (self.turn.vcpu(), self.agenda.now);
        self.coherence.watch(line, vcpu);
        let longest = self.hypervisor.spins(vcpu, budget, now);
        let arranged = match longest {
            Ps::MAX => 0,
            _ => {
                let until = now.saturating_add(longest);
                self.agenda.arrange(until, What::SpinEnds, vcpu)
            }
        };
        let execution = self.execution(vcpu);
        execution.arranged = arranged;
        execution.spins_on = line;
        execution.line_changed = false;
        execution.doing = Doing::Spins {
            since: now,
            left: budget,
        };
        true
    }

    /// What is left of the budget of the last [`Self::spin`].
    pub(crate) fn spin_left(&self) -> Ps {
        self.executions[self.turn.vcpu() as usize].spin_left
    }

    /// One turn of a busy-wait loop of the vCPU's own. True if it has to leave the guest for it: it is to
    /// suspend itself before.
    #[inline(always)]
    pub(crate) fn pause(&mut self) -> bool {
        let before = self.turn.local();
        let pause = self.agenda.chance.jittered(self.times.pause_ns);
        self.turn.charge(pause);
        let vcpu = self.turn.vcpu();
        self.hypervisor.pauses(vcpu, before, self.turn.local())
    }

    /// A turn of a busy-wait loop that looks at a word.
    pub(crate) fn turn_of_wait(&self) -> Ps {
        (self.times.pause_ns + self.times.hit_ns).max(1)
    }
}
