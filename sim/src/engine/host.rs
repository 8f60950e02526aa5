//! What the hypervisor does for a vCPU that asks: halts, kicks, yields; and when it spins for too long.

use super::event::{NS, Ps, What};
use super::vcpu::{Doing, HostStep, State};
use super::{Engine, area_of};
use guest::abi::Counter;

/// Candidates of a pause-loop exit that may turn out to be useless.
const PLE_TRIES: usize = 3;

/// How a directed yield ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    /// The target waited for a CPU, and is next on it.
    Next,
    /// Futile: the target runs.
    WasRunning,
    /// Futile: the target is halted.
    WasHalted,
}

impl Yielded {
    /// What counts it, beside [`Counter::Yields`].
    pub(crate) const fn counters(self) -> &'static [Counter] {
        match self {
            Self::Next => &[],
            Self::WasRunning => &[Counter::FutileYields, Counter::YieldsToRunning],
            Self::WasHalted => &[Counter::FutileYields, Counter::YieldsToHalted],
        }
    }
}

impl Engine {
    pub(super) fn note_step(&mut self, vcpu: u32, step: HostStep) {
        let at_ns = self.now / NS;
        let v = &mut self.vcpus[vcpu as usize];
        match step {
            HostStep::ExitHalt => v.exits.halt += 1,
            HostStep::ExitYield => v.exits.yielded += 1,
            HostStep::ExitPreempt => v.exits.preempt += 1,
            HostStep::ExitPause => v.exits.pause += 1,
            _ => {}
        }
        if self.tracing {
            v.steps.push((at_ns, step));
        }
    }

    /// The executing vCPU, which has left the guest, halts, unless it has been kicked. False: it goes on.
    pub(crate) fn halt(&mut self) -> bool {
        let vcpu = self.vcpu;
        let now = self.now;
        let v = &mut self.vcpus[vcpu as usize];
        if std::mem::take(&mut v.kicked) {
            return false;
        }
        v.halted_at = now;
        let cpu = v.cpu;
        self.note_step(vcpu, HostStep::Blocked);
        let v = &mut self.vcpus[vcpu as usize];
        if v.poll > 0 && self.cpus[cpu as usize].queue.is_empty() {
            v.doing = Doing::Polls;
            v.arranged = self.events.push(now + v.poll, What::PollEnds, vcpu);
        } else {
            v.doing = Doing::Nothing;
            self.leaves = Some(State::Halted);
        }
        true
    }

    /// The CPU of a halted vCPU has polled in vain.
    pub(super) fn end_poll(&mut self, vcpu: u32) {
        let v = &mut self.vcpus[vcpu as usize];
        if v.doing == Doing::Polls {
            v.doing = Doing::Nothing;
            let cpu = v.cpu;
            self.give_up(cpu, State::Halted);
        }
    }

    /// Kicks `target` at this moment.
    pub(crate) fn kick(&mut self, target: u32) {
        let halted = self.is_halted(target);
        let v = &mut self.vcpus[target as usize];
        if v.state == State::Done || v.waking {
            return;
        }
        if !halted {
            v.kicked = true;
            return;
        }
        v.waking = true;
        v.wakes += 1;
        let (number, count) = (v.number, v.wakes);
        let late = self.rules.iter().find_map(|r| r.delays(number, count));
        // A CPU that polls sees the kick at once.
        let wakes = if v.doing == Doing::Polls {
            0
        } else {
            self.times.wake_ns
        };
        let at = self.now + wakes + late.unwrap_or(0) * NS;
        self.events.push(at, What::Wake, target);
    }

    /// A halted vCPU has been kicked, and can run.
    pub(super) fn wake(&mut self, vcpu: u32) {
        let v = &mut self.vcpus[vcpu as usize];
        v.waking = false;
        let polls = v.doing == Doing::Polls;
        let blocked = self.now - v.halted_at;
        self.adapt_poll(vcpu, blocked);
        self.note_step(vcpu, HostStep::Unblocked);
        if polls {
            self.note_step(vcpu, HostStep::Enter);
            let entry = self.times.entry_ns;
            self.arrange_step(vcpu, self.now + entry);
            return;
        }
        self.vcpus[vcpu as usize].doing = Doing::Nothing;
        self.make_runnable(vcpu);
    }

    /// How long to poll the next time: longer if that would have helped this time, shorter if the halt
    /// was too long for it (KVM documentation, halt-polling).
    fn adapt_poll(&mut self, vcpu: u32, blocked: Ps) {
        let times = &self.times;
        let v = &mut self.vcpus[vcpu as usize];
        let most = times.halt_poll_max_ns;
        if most == 0 || blocked <= v.poll {
            return;
        }
        if blocked > most {
            v.poll = match self.poll_shrink {
                0 => 0,
                shrink => v.poll * 1024 / shrink,
            };
            if v.poll < times.halt_poll_start_ns {
                v.poll = 0;
            }
        } else {
            let grown = v.poll * self.poll_grow / 1024;
            v.poll = grown.max(times.halt_poll_start_ns).min(most);
        }
    }

    /// The executing vCPU leaves its CPU for `ns`.
    pub(crate) fn stay_away(&mut self, ns: u64) {
        let vcpu = self.vcpu;
        let until = self.now + ns * NS;
        let v = &mut self.vcpus[vcpu as usize];
        v.doing = Doing::Nothing;
        v.away_since = self.now;
        self.events.push(until, What::Timer, vcpu);
        self.leaves = Some(State::Away);
    }

    pub(super) fn come_back(&mut self, vcpu: u32) {
        let away = self.now - self.vcpus[vcpu as usize].away_since;
        self.note_step(vcpu, HostStep::Injected(away / NS));
        self.make_runnable(vcpu);
    }

    /// The executing vCPU yields to `target`.
    pub(crate) fn yield_to(&mut self, target: u32) -> Yielded {
        let v = &self.vcpus[target as usize];
        match v.state {
            State::Running if v.doing != Doing::Polls => Yielded::WasRunning,
            State::Queued => {
                self.give_to(target);
                Yielded::Next
            }
            _ => Yielded::WasHalted,
        }
    }

    /// The executing, or a spinning, vCPU gives its time to `target`, which waits for a CPU.
    fn give_to(&mut self, target: u32) {
        self.favour(target, self.vcpu);
        self.reschedule(self.vcpus[self.vcpu as usize].cpu);
    }

    /// A vCPU has spun for as long as it may, or must leave the guest for it.
    pub(super) fn spin_ends(&mut self, vcpu: u32) {
        let Doing::Spins { since, left, .. } = self.vcpus[vcpu as usize].doing else {
            return;
        };
        let spun = self.now - since;
        self.spun(vcpu, spun, left);
        if self.ple && self.vcpus[vcpu as usize].ple_left == 0 {
            let done = self.pause_exit(vcpu);
            self.arrange_step(vcpu, done);
            // Whoever it has yielded to may be on this very CPU.
            let cpu = self.vcpus[vcpu as usize].cpu;
            if std::mem::take(&mut self.cpus[cpu as usize].resched) {
                self.reschedule(cpu);
            }
        } else {
            self.arrange_step(vcpu, self.now);
        }
    }

    /// A spinning vCPU leaves the guest, and yields to one that is preempted, if there is one. When it is
    /// back.
    pub(super) fn pause_exit(&mut self, vcpu: u32) -> Ps {
        self.note_step(vcpu, HostStep::ExitPause);
        let v = &mut self.vcpus[vcpu as usize];
        let longer = v.ple_window * self.ple_grow / 1024;
        v.ple_window = longer.min(self.times.ple_window_max_ns);
        v.ple_left = v.ple_window;
        let vm = v.vm as usize;
        let (first, count) = self.vms[vm].vcpus;
        let from = self.vms[vm].boosted + 1;
        let (mut tries, mut outcome) = (0, Yielded::WasHalted);
        for i in 0..count {
            let candidate = first + (from + i) % count;
            if candidate == vcpu {
                continue;
            }
            match self.vcpus[candidate as usize].state {
                State::Queued => {
                    self.vms[vm].boosted = candidate - first;
                    let own = self.vcpus[vcpu as usize].cpu;
                    self.favour(candidate, vcpu);
                    // Not before it is arranged when the vCPU goes on: the caller does that.
                    self.cpus[own as usize].resched = true;
                    outcome = Yielded::Next;
                    break;
                }
                State::Running => {
                    outcome = Yielded::WasRunning;
                    tries += 1;
                    if tries == PLE_TRIES {
                        break;
                    }
                }
                _ => {}
            }
        }
        let area = area_of(self.vcpus[vcpu as usize].area);
        area.count(Counter::Yields, 1);
        for &counter in outcome.counters() {
            area.count(counter, 1);
        }
        self.note_step(vcpu, HostStep::Enter);
        self.now + self.times.exit_ns + self.times.entry_ns
    }

    /// The executing vCPU has begun a critical section: it leaves its CPU, if a schedule says so. For how
    /// long, ns.
    pub(crate) fn section_begins(&mut self) -> Option<u64> {
        let v = &mut self.vcpus[self.vcpu as usize];
        v.sections += 1;
        let (number, count) = (v.number, v.sections);
        self.rules.iter().find_map(|r| r.deschedules(number, count))
    }
}
