//! The clocks of a lock: how long it has been in each state that a wait can have as its cause.

use super::result::{Part, Parts, add};

/// The states of a lock. In each, the cause of a waiter's wait is known without looking at other
/// waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    HolderRunning,
    HolderOff,
    /// Free; the next waiter is kicked and not up yet.
    NextKicked,
    /// Free; the next waiter does not run.
    NextOff,
    /// Free; the next waiter runs.
    NextRunning,
    /// As `NextKicked`, and a waiter without a place may take it.
    StealKicked,
    /// As `NextOff`, and a waiter without a place may take it.
    StealOff,
    /// As `NextRunning`, and a waiter without a place may take it.
    StealRunning,
    /// Free, and whoever waits may take it.
    Open,
    /// Not known to be held or free.
    #[default]
    Unknown,
}

impl Class {
    const ALL: [Self; 10] = [
        Self::HolderRunning,
        Self::HolderOff,
        Self::NextKicked,
        Self::NextOff,
        Self::NextRunning,
        Self::StealKicked,
        Self::StealOff,
        Self::StealRunning,
        Self::Open,
        Self::Unknown,
    ];

    /// The state of a free lock whose next waiter waits because of `next`.
    pub(super) fn free(next: Part, stealable: bool) -> Self {
        match (next, stealable) {
            (Part::KickToRun, false) => Self::NextKicked,
            (Part::KickToRun, true) => Self::StealKicked,
            (Part::OwnPreemption, false) => Self::NextOff,
            (Part::OwnPreemption, true) => Self::StealOff,
            (_, false) => Self::NextRunning,
            (_, true) => Self::StealRunning,
        }
    }

    /// Why a waiter waits that cannot take the lock now; `None` if all can.
    fn part(self) -> Option<Part> {
        match self {
            Self::HolderRunning => Some(Part::HolderRunning),
            Self::HolderOff => Some(Part::HolderPreempted),
            Self::NextKicked | Self::StealKicked => Some(Part::KickToRun),
            Self::NextOff | Self::StealOff => Some(Part::NextPreempted),
            Self::NextRunning | Self::StealRunning => Some(Part::HandOver),
            Self::Open => None,
            Self::Unknown => Some(Part::Unattributed),
        }
    }

    /// Whether a waiter without a place in the queue could take the lock.
    fn takes_unplaced(self) -> bool {
        matches!(
            self,
            Self::StealKicked | Self::StealOff | Self::StealRunning | Self::Open
        )
    }

    /// Whether the lock is free, and the next waiter does not run and has not just been kicked.
    pub(super) fn next_is_off(self) -> bool {
        matches!(self, Self::NextOff | Self::StealOff)
    }

    /// Whether the lock is free, and the next waiter is kicked and not up yet.
    pub(super) fn next_is_kicked(self) -> bool {
        matches!(self, Self::NextKicked | Self::StealKicked)
    }

    /// Whether the lock would be taken at once if it is as free as it looks.
    pub(super) fn next_runs(self) -> bool {
        matches!(self, Self::NextRunning | Self::StealRunning)
    }
}

/// How long a lock has been in each state, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks([u64; Class::ALL.len()]);

impl Clocks {
    pub(super) fn add(&mut self, class: Class, ns: u64) {
        add(&mut self.0[class as usize], ns);
    }

    /// Takes time from one clock and gives it to another.
    pub(super) fn shift(&mut self, from: Class, to: Class, ns: u64) {
        let clock = &mut self.0[from as usize];
        *clock = clock.saturating_sub(ns);
        self.add(to, ns);
    }

    pub(super) fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Adds what has passed since `earlier` to the parts of a waiter.
    ///
    /// `own` is its part while it could take the lock; `placed` whether it has a place in the queue.
    pub(super) fn add_since(&self, earlier: &Self, own: Part, placed: bool, parts: &mut Parts) {
        for class in Class::ALL {
            let ns = self.get(class).saturating_sub(earlier.get(class));
            let mine = class.takes_unplaced() && !placed;
            let other = class.part().filter(|_| !mine);
            parts.add(other.unwrap_or(own), ns);
        }
    }
}
