//! What the VMM does with a vCPU, noted for a trace.

use crate::clock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One thing the VMM did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// When, on the host's TSC.
    pub ticks: u64,
    /// What.
    pub what: HostStep,
}

/// What the VMM did.
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
}

impl ExitReason {
    /// Every reason. Its place stands for it in traces, so new ones come last.
    pub const ALL: [Self; 8] = [
        Self::Halt,
        Self::Yield,
        Self::Log,
        Self::Preempt,
        Self::End,
        Self::Signal,
        Self::Other,
        Self::Pause,
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
        }
    }
}

/// The notes of one vCPU. Off, noting costs a load.
///
/// A lock is enough: the vCPU's thread notes only when it is out of the guest, and the reader comes by
/// some twenty times a second.
#[derive(Debug, Default)]
pub struct HostTrace {
    on: AtomicBool,
    events: Mutex<Vec<HostEvent>>,
}

impl HostTrace {
    /// Notes that take place only if `on`.
    pub fn new(on: bool) -> Self {
        Self {
            on: AtomicBool::new(on),
            events: Mutex::default(),
        }
    }

    /// Notes `what`, now.
    #[inline]
    pub fn note(&self, what: HostStep) {
        if self.on.load(Ordering::Relaxed) {
            let event = HostEvent {
                ticks: clock::now(),
                what,
            };
            self.events
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .push(event);
        }
    }

    /// Takes away what has been noted.
    pub fn take(&self) -> Vec<HostEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(|e| e.into_inner()))
    }
}
