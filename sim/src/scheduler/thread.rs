//! A vCPU as the scheduler sees it: where it is and may be, and what it has had.

use crate::units::{NS, Ps};
use abi::{StealTime, Switch, SwitchKind};
use std::sync::atomic::Ordering::Relaxed;

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On its CPU.
    Running,
    /// It wants to run, and waits for its CPU.
    Queued,
    /// Halted, and off its CPU.
    Halted,
    /// Off its CPU for a time that was asked for.
    Away,
    /// It has ended.
    Done,
}

pub(super) struct Thread {
    /// Its VM, until it has ended; what is there beside the VMs has none.
    pub(super) vm: Option<u32>,
    /// CPUs that it may run on.
    pub(super) allowed: Box<[u32]>,
    pub(super) state: State,
    /// The CPU that it is on, or was last, or waits for.
    pub(super) cpu: u32,
    /// Where it ran last.
    pub(super) ran_on: u32,
    pub(super) switches: Vec<Switch>,
    /// Where its VM looks for its steal time.
    steal: Option<&'static StealTime>,
    /// When it got into its present state.
    since: Ps,
    ran: Ps,
    queued: Ps,
    voluntary: u64,
    involuntary: u64,
}

impl Thread {
    /// Number `own` of `vm`: where many may be, they begin one after the other.
    pub(super) fn new(
        vm: Option<u32>,
        own: usize,
        allowed: Box<[u32]>,
        steal: Option<&'static StealTime>,
        now: Ps,
    ) -> Self {
        let cpu = allowed[own % allowed.len()];
        Self {
            vm,
            allowed,
            state: State::Away,
            cpu,
            ran_on: cpu,
            switches: Vec::new(),
            steal,
            since: now,
            ran: 0,
            queued: 0,
            voluntary: 0,
            involuntary: 0,
        }
    }

    /// It gets into `state`: accounts for the time until now, and shows its VM its steal time, as KVM does.
    pub(super) fn set_state(&mut self, state: State, now: Ps) {
        let passed = now - self.since;
        match self.state {
            State::Running => self.ran += passed,
            State::Queued => self.queued += passed,
            State::Halted | State::Away | State::Done => {}
        }
        self.since = now;
        self.state = state;
        if let Some(steal) = self.steal {
            steal.steal_ns.store(self.queued / NS, Relaxed);
            steal.version.store(2, Relaxed);
            let preempted = state != State::Running;
            steal.preempted.store(preempted.into(), Relaxed);
        }
        if state == State::Done {
            self.vm = None;
        }
    }

    pub(super) fn note(&mut self, kind: SwitchKind, now: Ps, tracing: bool) {
        match kind {
            SwitchKind::In => {}
            SwitchKind::Out => self.voluntary += 1,
            SwitchKind::OutPreempted => self.involuntary += 1,
        }
        if tracing {
            self.switches.push(Switch {
                at_ns: now / NS,
                cpu: self.cpu,
                kind,
            });
        }
    }

    /// How long it has been on a CPU, and has waited for one, ns.
    pub(super) fn times(&self, now: Ps) -> (u64, u64) {
        let since = now.saturating_sub(self.since);
        let more = |state| if self.state == state { since } else { 0 };
        (
            (self.ran + more(State::Running)) / NS,
            (self.queued + more(State::Queued)) / NS,
        )
    }

    /// How often it gave a CPU up, and lost one.
    pub(super) fn switched(&self) -> (u64, u64) {
        (self.voluntary, self.involuntary)
    }
}
