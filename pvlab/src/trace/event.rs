//! One event of a merged trace.

use pvlock::TraceEvent;

pub use abi::ExitReason;

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
pub enum What {
    /// A step of an acquisition of lock number `lock`, as the guest saw it.
    Lock {
        /// The lock's number in its VM.
        lock: u16,
        /// The step.
        step: TraceEvent,
    },
    /// The vCPU's thread got host CPU `cpu`.
    SwitchIn {
        /// The host CPU.
        cpu: u16,
    },
    /// The vCPU's thread lost its host CPU `cpu`: preempted, or because it blocked.
    SwitchOut {
        /// The host CPU.
        cpu: u16,
        /// It wanted to go on.
        preempted: bool,
    },
    /// The VMM lets the vCPU enter the guest.
    Enter,
    /// The vCPU left the guest.
    Exit(ExitReason),
    /// The VMM blocks the halted vCPU.
    Blocked,
    /// The halted vCPU's thread runs again: it was kicked.
    Unblocked,
    /// The vCPU is held off its CPU on purpose (`--preempt`), from now on.
    Injected {
        /// For how long it really was, ns.
        ns: u64,
    },
    /// Guest events of this vCPU are missing here: its ring was full.
    Gap {
        /// How many.
        dropped: u64,
    },
}
