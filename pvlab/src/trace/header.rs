//! What a trace file says before its events and after them.

use super::{Event, Place, What};
use abi::ring::MAX_LOCKS;
use pvlock::TraceEvent;
use serde::{Deserialize, Serialize};

/// Kind and version of trace files, in the first line or packet of each.
pub const SCHEMA: &str = "pvlab.trace/1";

/// [`SCHEMA`] without its version.
pub(super) const SCHEMA_KIND: &str = "pvlab.trace/";

pub(super) const SCHEMA_VERSION: u32 = 1;

/// Most vCPUs of all VMs together. Bounds what a reader sets aside for them.
const MOST_VCPUS: usize = 1 << 16;

/// Most locks of all VMs together. Bounds what a reader sets aside for their accounts.
const MOST_LOCKS: usize = 1 << 16;

/// Most locks of all VMs together, each counted once for each vCPU of its VM. Bounds what a reader sets
/// aside for who waits for what.
const MOST_PLACES: usize = 1 << 24;

const MOST_KHZ: u64 = 100_000_000;

/// Everything about a trace that is known when it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// What was run. Not typed, so that traces of scenarios with later additions can be read.
    pub scenario: serde_json::Value,
    /// Where the vCPUs ran, for people.
    pub machine: String,
    /// Whether that was a simulated machine.
    pub simulated: bool,
    /// Whether `switch_in` and `switch_out` are recorded. If not, nothing tells whether a vCPU that
    /// does not halt is on a CPU.
    pub switches: bool,
    /// One for each VM.
    pub vms: Vec<VmHeader>,
    /// The clock.
    pub clock: ClockFit,
    /// What the reader of the trace should know, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A VM of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmHeader {
    /// Its lock's name.
    pub lock: String,
    /// How many of them it has.
    pub locks: usize,
    /// One for each vCPU: the host CPU it is pinned to, if it is.
    pub vcpus: Vec<Option<usize>>,
}

/// How TSC values became times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFit {
    /// Frequency of the TSC, kHz.
    pub khz: u64,
    /// The TSC when the trace began.
    pub tsc_start: u64,
    /// `CLOCK_MONOTONIC_RAW` when the trace began, ns.
    pub monotonic_raw_start_ns: u64,
    /// Largest distance of a sample from the fit, ns.
    pub residual_ns: u64,
}

/// Everything that is known only when a trace has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, in ns since the trace began.
    pub end_ns: u64,
    /// Events in the file. Counted by the writer.
    #[serde(default)]
    pub events: u64,
    /// Guest events that the trace's gaps lack. Counted by the writer.
    #[serde(default)]
    pub dropped: u64,
    /// Host switches that the kernel had no room for.
    #[serde(default)]
    pub lost_switches: u64,
    /// Largest distance of any sample of the run from the clock's fit, ns, if samples were taken.
    #[serde(default)]
    pub residual_ns: Option<u64>,
    /// What the reader of the trace should know, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum HeaderError {
    #[error("{whose} {count} {what}; at most {most} can be traced")]
    TooMany {
        whose: &'static str,
        count: usize,
        what: &'static str,
        most: usize,
    },
    #[error("VM {vm} has {locks} locks; at most {MAX_LOCKS} can be told apart in a trace")]
    TooManyLocks { vm: usize, locks: usize },
    #[error("its clock has {0} kHz; there are clocks of 1 to {MOST_KHZ} kHz")]
    NoClock(u64),
}

/// Why an event cannot be in a trace, at least not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum EventError {
    #[error("the header has no vCPU {} of VM {}", .0.vcpu, .0.vm)]
    NoVcpu(Place),
    #[error("the header has no lock {lock} of VM {vm}, which has {locks}")]
    NoLock { vm: u16, lock: u16, locks: usize },
    #[error("it names vCPU {target} of VM {vm}, which has {vcpus}")]
    NoTarget { vm: u16, target: u32, vcpus: usize },
    #[error("an event at {at} ns comes after one at {before} ns")]
    Order { at: u64, before: u64 },
}

/// How many vCPUs and locks each VM of a trace has.
#[derive(Clone, Debug)]
pub struct Sizes(Vec<(usize, usize)>);

impl Sizes {
    /// Those of that header.
    pub fn of(header: &Header) -> Self {
        let sizes = header.vms.iter().map(|vm| (vm.vcpus.len(), vm.locks));
        Self(sizes.collect())
    }

    /// Whether there is everything that the event is about.
    ///
    /// # Errors
    /// If something is not there.
    #[inline]
    pub fn check(&self, event: &Event) -> Result<(), EventError> {
        let Place { vm, vcpu } = event.place;
        let Some(&(vcpus, locks)) = self.0.get(usize::from(vm)) else {
            return Err(EventError::NoVcpu(event.place));
        };
        if usize::from(vcpu) >= vcpus {
            return Err(EventError::NoVcpu(event.place));
        }
        let What::Lock { lock, step } = event.what else {
            return Ok(());
        };
        if usize::from(lock) >= locks {
            return Err(EventError::NoLock { vm, lock, locks });
        }
        match step {
            TraceEvent::QueuedBehind(Some(target))
            | TraceEvent::Kick(target)
            | TraceEvent::Yield(target)
                if target as usize >= vcpus =>
            {
                Err(EventError::NoTarget { vm, target, vcpus })
            }
            _ => Ok(()),
        }
    }
}

/// What readers and writers of a trace check and count.
pub(super) struct Progress {
    sizes: Sizes,
    /// Time of the last event.
    pub(super) last: u64,
    pub(super) events: u64,
    /// Guest events that the gaps lack.
    pub(super) dropped: u64,
}

impl Progress {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            sizes: Sizes::of(header),
            last: 0,
            events: 0,
            dropped: 0,
        }
    }

    #[inline]
    pub(super) fn event(&mut self, event: &Event) -> Result<(), EventError> {
        self.sizes.check(event)?;
        let (at, before) = (event.at, self.last);
        if at < before {
            return Err(EventError::Order { at, before });
        }
        self.last = at;
        self.events += 1;
        if let What::Gap { dropped } = event.what {
            self.dropped = self.dropped.saturating_add(dropped);
        }
        Ok(())
    }

    /// The end with the counts, and not before the last event.
    pub(super) fn end(&self, end: End) -> End {
        End {
            end_ns: end.end_ns.max(self.last),
            events: self.events,
            dropped: self.dropped,
            ..end
        }
    }
}

impl Header {
    /// Whether readers and writers can use it.
    ///
    /// # Errors
    /// If it is of more than they can.
    pub fn check(&self) -> Result<(), HeaderError> {
        let sum = |of: fn(&VmHeader) -> usize| self.vms.iter().map(of).sum();
        let at_most = |most, whose, count, what| {
            let error = HeaderError::TooMany {
                whose,
                count,
                what,
                most,
            };
            if count > most { Err(error) } else { Ok(()) }
        };
        at_most(MOST_VCPUS, "it has", self.vms.len(), "VMs")?;
        at_most(MOST_VCPUS, "it has", sum(|vm| vm.vcpus.len()), "vCPUs")?;
        let mut locks = self.vms.iter().map(|vm| vm.locks).enumerate();
        if let Some((vm, locks)) = locks.find(|&(_, locks)| locks > MAX_LOCKS) {
            return Err(HeaderError::TooManyLocks { vm, locks });
        }
        let (whose, pairs) = ("its VMs have", "pairs of a vCPU and a lock");
        at_most(MOST_LOCKS, whose, sum(|vm| vm.locks), "locks together")?;
        let places = sum(|vm| vm.vcpus.len() * vm.locks);
        at_most(MOST_PLACES, whose, places, pairs)
    }

    /// Whether times can be made with its clock. That of a run which ended before it began is none.
    pub(super) fn check_clock(&self) -> Result<(), HeaderError> {
        match self.clock.khz {
            1..=MOST_KHZ => Ok(()),
            other => Err(HeaderError::NoClock(other)),
        }
    }

    /// The header as a line of JSON, with the schema before everything else.
    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: &'static str,
            #[serde(flatten)]
            header: &'a Header,
        }
        serde_json::to_string(&Line {
            schema: SCHEMA,
            header: self,
        })
    }
}
