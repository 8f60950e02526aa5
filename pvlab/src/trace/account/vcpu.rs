//! A vCPU: whether it runs, and what it acquires.

use super::clock::Clocks;
use super::result::{Part, Parts};
use crate::trace::What;
use abi::{HostStep, SwitchKind};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Waiting,
    Holding,
}

/// What is known of a waiter's place; each includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has none that is known.
    #[default]
    None,
    /// It is in the queue, or has a ticket, or is the pending waiter.
    Placed,
    /// It has said itself where it is.
    Located,
    /// It has said that it is next.
    Head,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Acquisition {
    pub(super) lock: u16,
    pub(super) stage: Stage,
    /// Its beginning was not seen: it takes its place among the waiters, but is not accounted.
    pub(super) phantom: bool,
    pub(super) standing: Standing,
    pub(super) ticket: Option<u16>,
    /// The time stamp of its start.
    pub(super) start: u64,
    /// Its index among the lock's waiters.
    pub(super) index: usize,
    /// The lock's clocks when its parts were brought up to date.
    pub(super) seen: Clocks,
    /// Of the time since, how long the lock waited for this one to run.
    pub(super) next_off: u64,
    pub(super) parts: Parts,
    /// It was woken to take the lock, and has not taken it yet.
    pub(super) woken_as_next: bool,
    /// Releases of the lock up to its last yield, if that may turn out futile.
    pub(super) yielded_at: Option<u64>,
}

impl Acquisition {
    /// Whether it has a place in the order.
    pub(super) fn is_placed(&self) -> bool {
        self.standing >= Standing::Placed
    }

    pub(super) fn is_head(&self) -> bool {
        self.standing == Standing::Head
    }

    pub(super) fn waits(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Brings the parts up to date; `own` was its part so far while it could take the lock.
    pub(super) fn settle(&mut self, clocks: &Clocks, own: Part) {
        clocks.add_since(&self.seen, own, self.is_placed(), &mut self.parts);
        self.parts
            .shift(Part::NextPreempted, Part::OwnPreemption, self.next_off);
        self.next_off = 0;
        self.seen = *clocks;
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Halt {
    pub(super) lock: u16,
    pub(super) kicked: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Presence {
    on_cpu: bool,
    in_guest: bool,
    blocked: bool,
    injected: bool,
}

impl Presence {
    fn runs(self) -> bool {
        self.on_cpu && self.in_guest && !self.blocked && !self.injected
    }

    /// What an event makes of it.
    fn after(mut self, what: &What) -> Self {
        match what {
            What::Switch { kind, .. } => self.on_cpu = *kind == SwitchKind::In,
            What::Host(HostStep::Enter) => {
                (self.in_guest, self.blocked, self.injected) = (true, false, false);
            }
            What::Host(HostStep::Exit(_)) => self.in_guest = false,
            What::Host(HostStep::Blocked) => self.blocked = true,
            What::Host(HostStep::Unblocked) => self.blocked = false,
            What::Host(HostStep::Injected(_)) => self.injected = true,
            // It was in the guest and did something; only its host CPU is another's to tell.
            What::Lock { .. } => self.injected = false,
            What::Gap { .. } => {}
        }
        self
    }
}

#[derive(Debug)]
pub(super) struct VcpuTracker {
    presence: Presence,
    pub(super) switches_seen: bool,
    /// Since when it has not run.
    off_since: u64,
    pub(super) halt: Option<Halt>,
    /// Kicked while it did not halt: the next halt ends at once.
    pub(super) kick_pending: bool,
    /// The lock it has released, as long as it has done nothing else.
    pub(super) releasing: Option<u16>,
    /// Some of its events are missing, and it has not begun anew since.
    pub(super) lost: bool,
    pub(super) acquisitions: Vec<Acquisition>,
}

impl VcpuTracker {
    pub(super) fn new() -> Self {
        Self {
            presence: Presence {
                on_cpu: true,
                in_guest: true,
                blocked: false,
                injected: false,
            },
            switches_seen: false,
            off_since: 0,
            halt: None,
            kick_pending: false,
            releasing: None,
            lost: false,
            acquisitions: Vec::with_capacity(4),
        }
    }

    pub(super) fn runs(&self) -> bool {
        self.presence.runs()
    }

    /// Whether it is held off its CPU on purpose.
    pub(super) fn injected(&self) -> bool {
        self.presence.injected
    }

    /// Why it waits for a lock that it could take.
    pub(super) fn own_part(&self) -> Part {
        match self.halt.map(|halt| halt.kicked) {
            Some(Some(_)) => Part::KickToRun,
            Some(None) => Part::HandOver,
            None if self.runs() => Part::HandOver,
            None => Part::OwnPreemption,
        }
    }

    /// Since when it has not run, or has been kicked without being up.
    pub(super) fn absent_since(&self) -> u64 {
        let kicked = self.halt.and_then(|halt| halt.kicked);
        kicked.unwrap_or(self.off_since)
    }

    pub(super) fn position(&self, lock: u16) -> Option<usize> {
        self.acquisitions.iter().position(|a| a.lock == lock)
    }

    pub(super) fn acquisition(&self, lock: u16) -> Option<&Acquisition> {
        self.acquisitions.iter().find(|a| a.lock == lock)
    }

    /// Whether `what` changes whether it runs.
    pub(super) fn is_changed_by(&self, what: &What) -> bool {
        let after = self.presence.after(what);
        after.runs() != self.runs() || after.injected != self.injected()
    }

    pub(super) fn apply(&mut self, what: &What, now: u64) {
        let ran = self.runs();
        self.presence = self.presence.after(what);
        self.switches_seen |= matches!(what, What::Switch { .. });
        if ran && !self.runs() {
            self.off_since = now;
        }
    }
}
