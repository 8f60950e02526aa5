//! Where the waiting went: each acquisition's wait, split by cause.
//!
//! An [`Accountant`] reads a merged trace once, event after event, and keeps what it needs of the
//! present alone, so a trace may have any length. A wait lasts from `Start` to `Acquired`, and each of
//! its instants has exactly one cause, a [`Part`]. The first line that applies decides:
//!
//! | the lock is ...                 | and ...                              | the cause is          |
//! |---------------------------------|--------------------------------------|-----------------------|
//! | held                            | its holder runs                      | holder running        |
//! | held                            | its holder does not run              | holder preempted, LHP |
//! | free, another waiter is next    | that one is kicked, and not up yet   | kick to run           |
//! | free, another waiter is next    | that one does not run                | next preempted, LWP   |
//! | free, another waiter is next    | that one runs                        | hand-over             |
//! | free, this waiter may take it   | it is kicked, and not up yet         | kick to run           |
//! | free, this waiter may take it   | it does not run                      | own preemption        |
//! | free, this waiter may take it   | it runs                              | hand-over             |
//! | not known to be held or free    |                                      | unattributed          |
//!
//! So a waiter's own absence counts only while it could have taken the lock: as long as another holds
//! it, or is before it, the waiter would not have got on by running.
//!
//! # Words
//! * *Held*: from `Acquired` to `Release`.
//! * *Runs*: on a host CPU, in the guest, not blocked and not held off on purpose. A vCPU that is out
//!   of the guest in the VMM does not run. Where a vCPU's switches were never seen, it is taken to be on
//!   a CPU unless blocked, and the account says so (`vcpus_without_switches`).
//! * *Kicked*: it halts and a kick has been sent. It is up when it enters the guest, or says `Woken`.
//!   A halted waiter that no one has kicked waits for the releaser's kick: that is hand-over.
//! * *Next*: see [`order`]. Everyone may take a lock that has no order, or whose order is not known. A
//!   waiter that has not queued yet may take a lock that can be stolen, as long as the head of the queue
//!   is not awake.
//!
//! # What a trace shows late
//! A vCPU may lose its CPU after it has taken the lock and before it could say `Acquired`, or after it
//! said `Release` and before it lets go or kicks. The lock then looks free while it is not. But a free
//! lock with somebody running who may take it is taken within a microsecond. So when it has been for
//! longer than [`QUIET_NS`] and there is a suspect - the releaser, not running since, or a waiter that
//! does not run and has no place in the queue or is through it - the rest counts as *holder preempted*.
//!
//! # How it stays cheap
//! Each lock has a clock for each state it can be in, of which one runs at a time. A
//! waiter remembers the clocks when it starts, and reads them again in the end: the cost of an event
//! does not grow with the number of waiters. Only where the cause depends on the waiter itself are the
//! clocks read in between, when its own state changes.
//!
//! The parts add up to the wait if the clocks are right. To check that, the wait is also taken from the
//! two time stamps alone; where they differ by more than 1 us and 1 %, `sum_violations` counts it.

mod clock;
mod episode;
mod lock;
pub mod order;
mod result;
mod step;
mod vcpu;
mod vm;

pub use episode::{Episode, EpisodeKind, Episodes};
pub use lock::QUIET_NS;
pub use result::{Account, Injected, KickToRun, Part, Parts, Tally, VmAccount};

use super::Event;
use peers::Kind;
use vm::VmTracker;

/// What the trace is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The VMs, by number.
    pub vms: Vec<VmSetup>,
    /// Whether the machine was simulated.
    pub simulated: bool,
}

/// A VM of a trace: its lock algorithm, and its numbers of vCPUs and locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "told above")]
pub struct VmSetup {
    pub lock: Kind,
    pub vcpus: usize,
    pub locks: usize,
}

/// Makes the account of a trace, event after event.
#[derive(Debug)]
pub struct Accountant {
    simulated: bool,
    vms: Vec<VmTracker>,
    first: Option<u64>,
    now: u64,
    events: u64,
    foreign_events: u64,
}

impl Accountant {
    /// For a trace of these VMs.
    pub fn new(setup: &Setup) -> Self {
        Self {
            simulated: setup.simulated,
            vms: setup.vms.iter().map(VmTracker::new).collect(),
            first: None,
            now: 0,
            events: 0,
            foreign_events: 0,
        }
    }

    /// Takes the next event into account.
    ///
    /// Events come sorted by time. Clocks of different CPUs may disagree a little, so one that is too
    /// early is taken to have happened at the time of the one before it.
    pub fn event(&mut self, event: &Event) {
        self.events += 1;
        self.now = self.now.max(event.at);
        self.first.get_or_insert(event.at);
        let vm = self.vms.get_mut(usize::from(event.place.vm));
        let known = vm.is_some_and(|vm| vm.event(event, self.now));
        self.foreign_events += u64::from(!known);
    }

    /// The account up to `end_ns`, or to the last event if that was later.
    pub fn finish(self, end_ns: u64) -> Account {
        let end = self.now.max(end_ns);
        let span_ns = end - self.first.unwrap_or(end);
        let vms = (0..).zip(self.vms);
        let vms = vms.map(|(number, vm)| vm.finish(number, end, end_ns, span_ns));
        Account {
            simulated: self.simulated,
            span_ns,
            events: self.events,
            foreign_events: self.foreign_events,
            vms: vms.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
