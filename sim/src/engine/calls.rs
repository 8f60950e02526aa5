//! What programs ask of the machine. Each call is for the executing vCPU, and none suspends it: that is the
//! platform's part.

use super::event::{NS, Ps, What};
use super::vcpu::{Doing, HostStep};
use super::{Engine, LINE_BYTES, area_of};
use crate::simulation::STACK_RESERVE;
use corosensei::stack::Stack;
use std::sync::atomic::Ordering::Relaxed;

/// How a line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Load,
    Store,
    Modify,
}

/// What hypercalls cost.
#[derive(Clone, Copy)]
pub(crate) struct CallTimes {
    pub(crate) clock: Ps,
    pub(crate) exit: Ps,
    pub(crate) entry: Ps,
    pub(crate) kick: Ps,
    pub(crate) slack: Ps,
}

impl Engine {
    #[inline(always)]
    pub(crate) fn charge(&mut self, time: Ps) {
        self.local += time * self.factor / 1024;
    }

    /// The same for what has gone on beside something else that took `beside`.
    pub(crate) fn charge_beside(&mut self, time: Ps, beside: Ps) {
        self.local += (time * self.factor / 1024).saturating_sub(beside);
    }

    /// Whether the vCPU is so far ahead of the machine that it is to suspend itself; what it computes is
    /// accounted for then.
    #[inline(always)]
    pub(crate) fn is_ahead(&self) -> bool {
        self.local > self.limit
    }

    #[inline(always)]
    pub(crate) fn is_ahead_at_all(&self) -> bool {
        self.local > self.horizon
    }

    #[cold]
    pub(crate) fn computes(&mut self) {
        let (vcpu, local) = (self.vcpu, self.local);
        let v = &mut self.vcpus[vcpu as usize];
        v.doing = Doing::Computes { until: local };
        v.arranged = self.events.push(local, What::Step, vcpu);
    }

    #[inline(always)]
    pub(crate) fn line_at(&self, address: usize) -> u32 {
        let offset = address.wrapping_sub(self.base);
        assert!(offset < self.bytes, "an atomic outside the region");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the region has fewer lines"
        )]
        let line = (offset / LINE_BYTES) as u32;
        self.first_line + line
    }

    /// Uses a line that this CPU has; false if it has to ask for it, or has to wait until nobody else
    /// does anything before.
    #[inline(always)]
    pub(crate) fn use_line(&mut self, line: u32, how: Use) -> bool {
        let state = self.line(line);
        let limit = if state.in_flight() {
            self.horizon
        } else {
            self.limit
        };
        if self.local > limit {
            return false;
        }
        if !state.is_owned_by(self.cpu) {
            let Some(hot) = state.hot() else { return false };
            if !self.hot[hot].is_shared_by(self.cpu) {
                return false;
            }
            if how != Use::Load && !self.try_own(line, self.cpu) {
                return false;
            }
        }
        self.line_is_here(how);
        true
    }

    /// Asks for a line; the vCPU is to suspend itself.
    pub(crate) fn ask_for(&mut self, line: u32, how: Use) {
        self.now = self.local;
        self.request(line, how != Use::Load);
    }

    /// Accounts for using a line that this CPU has.
    #[inline(always)]
    pub(crate) fn line_is_here(&mut self, how: Use) {
        self.stats.operations += 1;
        self.local += match how {
            Use::Load | Use::Store => self.hit,
            Use::Modify => self.rmw,
        };
    }

    /// Whether the executing vCPU's CPU has a copy of `line`.
    pub(crate) fn has(&self, line: u32) -> bool {
        self.can_read(line, self.cpu)
    }

    /// The vCPU is to spin until `line` changes, for `budget` at most; it is to suspend itself, unless
    /// the line has changed by now.
    pub(crate) fn spin(&mut self, line: u32, budget: Ps) -> bool {
        if !self.can_read(line, self.cpu) {
            return false;
        }
        self.now = self.local;
        let (vcpu, now) = (self.vcpu, self.now);
        let hot = self.heat(line);
        let watchers = &mut self.hot[hot].watchers;
        if !watchers.contains(&vcpu) {
            watchers.push(vcpu);
        }
        let gap = self.times.ple_gap_ns;
        let v = &mut self.vcpus[vcpu as usize];
        v.arranged = 0;
        v.doing = Doing::Spins {
            line,
            since: now,
            left: budget,
        };
        v.line_changed = false;
        if now - v.paused_at > gap + self.times.pause_ns {
            v.ple_left = v.ple_window;
        }
        let until = if self.ple {
            budget.min(v.ple_left)
        } else {
            budget
        };
        if until != Ps::MAX {
            v.arranged = self
                .events
                .push(now.saturating_add(until), What::SpinEnds, vcpu);
        }
        true
    }

    /// What is left of the budget of the last [`Self::spin`].
    pub(crate) fn spin_left(&self) -> Ps {
        self.vcpus[self.vcpu as usize].spin_left
    }

    /// One turn of a busy-wait loop of the vCPU's own. True if it has to leave the guest for it: it is to
    /// suspend itself before.
    #[inline(always)]
    pub(crate) fn pause(&mut self) -> bool {
        let pause = self.times.pause_ns;
        let before = self.local;
        let pause = self.jittered(pause);
        self.charge(pause);
        if !self.ple {
            return false;
        }
        let (local, gap) = (self.local, self.times.ple_gap_ns);
        let v = &mut self.vcpus[self.vcpu as usize];
        if before - v.paused_at > gap {
            v.ple_left = v.ple_window;
        }
        v.ple_left = v.ple_left.saturating_sub(local - v.paused_at.max(before));
        v.paused_at = local;
        v.ple_left == 0
    }

    /// The vCPU leaves the guest as it pauses for too long.
    pub(crate) fn leave_for_pause(&mut self) {
        self.now = self.local;
        let back = self.pause_exit(self.vcpu);
        self.local = back;
    }

    /// The machine's clock is to be that of the vCPU, which nobody is before.
    pub(crate) fn synchronize(&mut self) {
        self.now = self.local;
    }

    pub(crate) fn local_ps(&self) -> Ps {
        self.local
    }

    pub(crate) fn clock_ns(&self) -> u64 {
        self.local / NS
    }

    pub(crate) fn times(&self) -> CallTimes {
        CallTimes {
            clock: self.times.clock_ns,
            exit: self.times.exit_ns,
            entry: self.times.entry_ns,
            kick: self.times.kick_ns,
            slack: self.times.timer_slack_ns,
        }
    }

    /// A full fence: what a read-modify-write takes.
    pub(crate) fn charge_modify(&mut self) {
        self.local += self.rmw;
    }

    /// A turn of a busy-wait loop that looks at a word.
    pub(crate) fn turn(&self) -> Ps {
        (self.times.pause_ns + self.times.hit_ns).max(1)
    }

    /// The number among all of vCPU `number` of the VM of the executing one.
    pub(crate) fn fellow(&self, number: u32) -> u32 {
        self.vms[self.vcpus[self.vcpu as usize].vm as usize].vcpus.0 + number
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn note_exit(&mut self, step: HostStep) {
        self.note_step(self.vcpu, step);
    }

    pub(crate) fn note_kick(&mut self) {
        self.vcpus[self.vcpu as usize].exits.kick += 1;
    }

    /// The NUMA node, which is the socket, of vCPU `number` of the VM of the executing one: where it may
    /// run, or ran last.
    pub(crate) fn socket_of(&self, number: u32) -> u32 {
        let vcpu = &self.vcpus[self.fellow(number) as usize];
        #[expect(clippy::cast_possible_truncation, reason = "a few")]
        let socket = self.topology.socket(vcpu.cpu) as u32;
        socket
    }

    /// Whether little is left of the stack that `at` is on: the executing vCPU's, or its present task's.
    pub(crate) fn stack_is_low(&self, at: usize) -> bool {
        let v = &self.vcpus[self.vcpu as usize];
        let stacks = &self.vms[v.vm as usize].task_stacks;
        // Asked whenever a vCPU waits: the region is looked at only if there is a choice.
        let other = if stacks.is_empty() {
            None
        } else {
            let queue = &area_of(v.area).run_queue;
            let own = queue.current.load(Relaxed) % queue.per_vcpu;
            let before = v.number as usize * (queue.per_vcpu as usize - 1);
            own.checked_sub(1).map(|place| before + place as usize)
        };
        let lowest = match other {
            None => v.lowest_stack,
            Some(place) => stacks.get(place).map_or(0, |stack| stack.limit().get()),
        };
        at < lowest + STACK_RESERVE
    }
}
