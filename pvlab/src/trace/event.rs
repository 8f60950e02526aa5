//! One event of a merged trace.

use abi::{HostStep, SwitchKind};
use pvlock::TraceEvent;

/// Something that happened on a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in ns since the trace began.
    pub at: u64,
    /// Whose.
    pub place: Place,
    /// What.
    pub what: What,
}

/// A vCPU of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the VM.
    pub vm: u16,
    /// Number of its vCPU.
    pub vcpu: u16,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds say what their fields are")]
pub enum What {
    /// A step of an acquisition of lock number `lock` of the VM, as the guest saw it.
    Lock { lock: u16, step: TraceEvent },
    /// The vCPU's thread got host CPU `cpu`, or gave it up or lost it.
    Switch { cpu: u16, kind: SwitchKind },
    /// A step of the host. The vCPU is held off its CPU on purpose (`--preempt`) from that time on.
    Host(HostStep),
    /// So many guest events of this vCPU are missing here: its ring was full.
    Gap { dropped: u64 },
}
