//! What a host does with a vCPU: the words in which every machine tells it.

use core::time::Duration;

/// What the host did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// It lets the vCPU enter the guest.
    Enter,
    /// The vCPU has left the guest.
    Exit(ExitReason),
    /// It blocks the halted vCPU.
    Blocked,
    /// The halted vCPU has been kicked and runs again.
    Unblocked,
    /// It has held the vCPU off its CPU, as asked, for so long, ns: the time it really took.
    Injected(u64),
}

impl HostStep {
    /// [`Self::Injected`], now over.
    pub fn injected(time: Duration) -> Self {
        Self::Injected(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Why a vCPU left the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It halts.
    Halt,
    /// It yields.
    Yield,
    /// It has something to say.
    Log,
    /// It asked to be held off its CPU.
    Preempt,
    /// It has ended.
    End,
    /// A signal.
    Signal,
    /// Anything else.
    Other,
    /// It has spun for too long (a pause-loop exit), and yields to another.
    Pause,
    /// It asked for a memory barrier on every vCPU.
    Barrier,
}

impl ExitReason {
    /// Every reason. Its place stands for it in traces, so new ones come last.
    pub const ALL: [Self; 9] = [
        Self::Halt,
        Self::Yield,
        Self::Log,
        Self::Preempt,
        Self::End,
        Self::Signal,
        Self::Other,
        Self::Pause,
        Self::Barrier,
    ];

    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Halt => "halt",
            Self::Yield => "yield",
            Self::Log => "log",
            Self::Preempt => "preempt",
            Self::End => "end",
            Self::Signal => "signal",
            Self::Other => "other",
            Self::Pause => "pause",
            Self::Barrier => "barrier",
        }
    }
}

/// A switch of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, ns: on CLOCK_MONOTONIC_RAW, where that is the clock.
    pub at_ns: u64,
    /// The host CPU.
    pub cpu: u32,
    /// What happened.
    pub kind: SwitchKind,
}

/// What happened to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// It got the CPU.
    In,
    /// It gave the CPU up, to wait for something.
    Out,
    /// It lost the CPU though it wanted to go on.
    OutPreempted,
}
