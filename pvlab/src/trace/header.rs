//! What a trace file says before its events and after them.

use super::Place;
use serde::{Deserialize, Serialize};

/// Kind and version of trace files, in the first line or packet of each.
pub const SCHEMA: &str = "pvlab.trace/1";

/// [`SCHEMA`] without its version.
pub(super) const SCHEMA_KIND: &str = "pvlab.trace/";

/// The version in [`SCHEMA`].
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Most vCPUs of all VMs together. Bounds what a reader sets aside for them.
const MOST_VCPUS: usize = 1 << 16;

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
}

impl Header {
    /// Whether readers and writers can use it.
    ///
    /// # Errors
    /// If it is of more than they can.
    pub fn check(&self) -> Result<(), HeaderError> {
        let vcpus = self.vms.iter().map(|vm| vm.vcpus.len()).sum();
        if self.vms.len() > MOST_VCPUS {
            Err(HeaderError::TooManyVms(self.vms.len()))
        } else if vcpus > MOST_VCPUS {
            Err(HeaderError::TooManyVcpus(vcpus))
        } else {
            Ok(())
        }
    }

    /// Whether it has such a vCPU.
    pub fn has(&self, place: Place) -> bool {
        self.vms
            .get(usize::from(place.vm))
            .is_some_and(|vm| usize::from(place.vcpu) < vm.vcpus.len())
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
