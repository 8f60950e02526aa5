//! What a trace file says before its events and after them.

use super::{Event, Place, What};
use abi::ring::MAX_LOCKS;
use pvlock::TraceEvent;
use serde::{Deserialize, Serialize};

/// Kind and version of trace files, in the first line or packet of each.
pub const SCHEMA: &str = "pvlab.trace/1";

/// [`SCHEMA`] without its version.
pub(super) const SCHEMA_KIND: &str = "pvlab.trace/";

/// The version in [`SCHEMA`].
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Most vCPUs of all VMs together. Bounds what a reader sets aside for them.
const MOST_VCPUS: usize = 1 << 16;

/// Most locks of all VMs together. Bounds what a reader sets aside for their accounts.
const MOST_LOCKS: usize = 1 << 16;

/// Most locks of all VMs together, each counted once for each vCPU of its VM. Bounds what a reader sets
/// aside for who waits for what.
const MOST_PLACES: usize = 1 << 24;

/// Fastest clock, kHz.
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
pub enum HeaderError {
    /// Too many vCPUs.
    #[error("it has {0} vCPUs; at most {MOST_VCPUS} can be traced")]
    TooManyVcpus(usize),
    /// Too many VMs.
    #[error("it has {0} VMs; at most {MOST_VCPUS} can be traced")]
    TooManyVms(usize),
    /// Too many locks.
    #[error("VM {vm} has {locks} locks; at most {MAX_LOCKS} can be told apart in a trace")]
    TooManyLocks {
        /// The VM.
        vm: usize,
        /// Its locks.
        locks: usize,
    },
    /// Too many locks in all.
    #[error("its VMs have {0} locks together; at most {MOST_LOCKS} can be traced")]
    TooManyLocksInAll(usize),
    /// Too many locks for so many vCPUs.
    #[error("its VMs have {0} pairs of a vCPU and a lock; at most {MOST_PLACES} can be traced")]
    TooManyPlaces(usize),
    /// A clock that is none.
    #[error("its clock has {0} kHz; there are clocks of 1 to {MOST_KHZ} kHz")]
    NoClock(u64),
}

/// What an event is about that there is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// Whose it is.
    #[error("the header has no vCPU {} of VM {}", .0.vcpu, .0.vm)]
    Vcpu(Place),
    /// The lock.
    #[error("the header has no lock {lock} of VM {vm}, which has {locks}")]
    Lock {
        /// The VM.
        vm: u16,
        /// The lock.
        lock: u16,
        /// How many there are.
        locks: usize,
    },
    /// Another vCPU.
    #[error("it names vCPU {target} of VM {vm}, which has {vcpus}")]
    Target {
        /// The VM.
        vm: u16,
        /// The vCPU named.
        target: u32,
        /// How many there are.
        vcpus: usize,
    },
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
    pub fn check(&self, event: &Event) -> Result<(), Lack> {
        let Place { vm, vcpu } = event.place;
        let Some(&(vcpus, locks)) = self.0.get(usize::from(vm)) else {
            return Err(Lack::Vcpu(event.place));
        };
        if usize::from(vcpu) >= vcpus {
            return Err(Lack::Vcpu(event.place));
        }
        let What::Lock { lock, step } = event.what else {
            return Ok(());
        };
        if usize::from(lock) >= locks {
            return Err(Lack::Lock { vm, lock, locks });
        }
        match step {
            TraceEvent::QueuedBehind(Some(target))
            | TraceEvent::Kick(target)
            | TraceEvent::Yield(target)
                if target as usize >= vcpus =>
            {
                Err(Lack::Target { vm, target, vcpus })
            }
            _ => Ok(()),
        }
    }
}

impl Header {
    /// Whether readers and writers can use it.
    ///
    /// # Errors
    /// If it is of more than they can.
    pub fn check(&self) -> Result<(), HeaderError> {
        let vcpus = self.vms.iter().map(|vm| vm.vcpus.len()).sum();
        let numbered = || self.vms.iter().enumerate();
        let locks = || self.vms.iter().map(|vm| vm.locks).sum();
        let places = || self.vms.iter().map(|vm| vm.vcpus.len() * vm.locks).sum();
        if self.vms.len() > MOST_VCPUS {
            Err(HeaderError::TooManyVms(self.vms.len()))
        } else if vcpus > MOST_VCPUS {
            Err(HeaderError::TooManyVcpus(vcpus))
        } else if let Some((vm, spec)) = numbered().find(|(_, spec)| spec.locks > MAX_LOCKS) {
            let locks = spec.locks;
            Err(HeaderError::TooManyLocks { vm, locks })
        } else if locks() > MOST_LOCKS {
            Err(HeaderError::TooManyLocksInAll(locks()))
        } else if places() > MOST_PLACES {
            Err(HeaderError::TooManyPlaces(places()))
        } else {
            Ok(())
        }
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
