//! What a torture test yielded.

use super::count::Tally;
use crate::record::Absence;
use crate::scenario::{Mix, Scenario};
use serde::Serialize;
use std::fmt;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub scenario: Scenario,
    /// Without [`Self::without_cpu`].
    pub measured_s: f64,
    pub without_cpu: Vec<Absence>,
    pub interrupted: bool,
    /// The counts at the end of each statistics interval, and last those at the end of the test.
    pub intervals: Vec<Counts>,
    /// Each thread, writers first.
    pub threads: Vec<Thread>,
    pub contended: Option<u64>,
    /// Acquisitions for writing as counted by the threads, nested ones included.
    pub exclusive: u64,
    /// The same as counted, without atomicity, under the locks.
    pub entries: u64,
    /// vCPUs that were still waiting for the lock some time after the end, and were not waited for.
    pub given_up: Vec<usize>,
    pub pauses: Vec<Pause>,
    pub shuffles: usize,
    pub preempted_reported: bool,
    /// What was found when the lock was stuck.
    pub stuck: Option<String>,
}

/// The counts at one moment, since the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub at_s: f64,
    pub writes: Tally,
    /// If the lock has a read side.
    pub reads: Option<Tally>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pause {
    /// When it was asked for, s after the start.
    pub from_s: f64,
    /// When everybody was seen to pause, if ever.
    pub everybody_s: Option<f64>,
    /// Acquisitions made between that moment and the end of the pause.
    pub acquisitions: u64,
    /// When it was over.
    pub to_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// It takes the lock for writing, or exclusively.
    Writer,
    Reader,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Thread {
    pub role: Role,
    /// Among those of its role.
    pub number: usize,
    pub vcpu: usize,
    pub acquisitions: u64,
    /// How often it saw somebody else inside whom the lock should have kept out.
    pub violations: u64,
    /// Acquisitions beyond the limit.
    pub late: u64,
    /// Its longest wait, ns; includes one that was still going on at the end.
    pub longest_wait_ns: u64,
    pub starved: Option<Starved>,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (vCPU {})", self.role, self.number, self.vcpu)
    }
}

/// The longest time that a thread was kept waiting while all others got on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Starved {
    pub waited_s: f64,
    /// Acquisitions that others made meanwhile.
    pub others: u64,
    /// Whether it was still waiting at the end.
    pub still: bool,
}

impl Scenario {
    /// Threads that only read; the last.
    pub(crate) fn readers(&self) -> usize {
        match self.workload.mix {
            Mix::Readers(n) => n,
            Mix::Exclusive | Mix::ReadShare(_) => 0,
        }
    }

    pub(crate) fn writers(&self) -> usize {
        self.vcpus().saturating_sub(self.readers())
    }

    /// What vCPU `vcpu` does, and its number among those that do the same.
    pub(crate) fn role(&self, vcpu: usize) -> (Role, usize) {
        match vcpu.checked_sub(self.writers()) {
            None => (Role::Writer, vcpu),
            Some(number) => (Role::Reader, number),
        }
    }
}
