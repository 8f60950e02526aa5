//! Names that packets refer to by number. The numbers are part of the format.

use super::proto::interned::{
    DEBUG_ANNOTATION_NAMES, DEBUG_ANNOTATION_STRING_VALUES, EVENT_CATEGORIES, EVENT_NAMES, IID,
    NAME,
};
use super::wire::Message;
use crate::trace::header::SCHEMA;
use abi::{ExitReason, HostStep};
use pvlock::trace::{How, TraceEvent};

/// Declares an enum of names and the list of all. Numbers count from 1.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $iid:literal $text:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum $name {
            $($variant = $iid,)*
        }

        impl $name {
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $text),)*];

            /// Its number.
            pub(super) const fn iid(self) -> u8 {
                self as u8
            }
        }
    };
}

impl Name {
    /// The one with that number.
    pub(super) fn from_iid(iid: u64) -> Option<Self> {
        let place = usize::try_from(iid.checked_sub(1)?).ok()?;
        Self::ALL.get(place).map(|&(name, _)| name)
    }
}

names! {
    /// Names of slices and instants.
    Name {
        Trace = 1 SCHEMA, End = 2 "end of trace",
        // Of a vCPU's locks.
        Spinning = 3 "spinning", Queued = 4 "queued", Head = 5 "head",
        HaltedQueued = 6 "halted, queued", HaltedHead = 7 "halted, head",
        Woken = 8 "woken", Spurious = 9 "spurious wake", Holding = 10 "holding",
        Kick = 11 "kick", Yield = 12 "yield", Gap = 13 "gap",
        // Of its state.
        Running = 14 "running", Preempted = 15 "preempted", Halted = 16 "halted",
        OffCpu = 17 "off CPU", Runnable = 18 "running or runnable",
        // Of its VMM.
        InGuest = 19 "in guest", Exit = 20 "exit", Blocked = 21 "blocked",
        Unblocked = 22 "unblocked", Injected = 23 "held off CPU",
    }
}

names! {
    /// Categories.
    Category {
        Lock = 1 "lock", Host = 2 "host", Vmm = 3 "vmm", Trace = 4 "trace",
    }
}

names! {
    /// Names of annotations.
    Arg {
        // Of the trace's begin and end, and of steps of locks.
        Header = 1 "header", End = 2 "end",
        Lock = 3 "lock", How = 4 "how", Behind = 5 "behind", Ticket = 6 "ticket", Target = 7 "target",
        // Of switches, steps of the host, gaps, and what stands for no event.
        Cpu = 8 "cpu", Reason = 9 "reason", LengthNs = 10 "length_ns",
        Dropped = 11 "dropped", Derived = 12 "derived",
    }
}

/// How a step of an acquisition is drawn on its vCPU's track of locks.
#[derive(Clone, Copy)]
pub(super) enum Drawn {
    /// A slice begins.
    Begin(Name),
    /// What the vCPU did about the lock ends, and this slice begins.
    Turn(Name),
    /// A slice begins within the one that the lock has.
    Halt(Name),
    /// That slice ends, with an instant.
    Wake(Name),
    /// The slice of a held lock ends, which is the step.
    Release,
    /// An instant.
    Instant(Name),
}

impl Drawn {
    /// How `step` is drawn; and the slice in which a vCPU must have been before whose first step it is,
    /// if that is certain.
    pub(super) const fn of(step: TraceEvent) -> (Self, Option<Name>) {
        match step {
            TraceEvent::Start => (Self::Begin(Name::Spinning), None),
            TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) => {
                (Self::Turn(Name::Queued), Some(Name::Spinning))
            }
            TraceEvent::Head => (Self::Turn(Name::Head), Some(Name::Queued)),
            TraceEvent::HaltQueued => (Self::Halt(Name::HaltedQueued), Some(Name::Queued)),
            TraceEvent::HaltHead => (Self::Halt(Name::HaltedHead), Some(Name::Head)),
            TraceEvent::Woken => (Self::Wake(Name::Woken), Some(Name::Halted)),
            TraceEvent::Spurious => (Self::Instant(Name::Spurious), Some(Name::Queued)),
            TraceEvent::Acquired(how) => {
                let before = match how {
                    How::Queue => Some(Name::Queued),
                    How::Pending => Some(Name::Head),
                    How::Fast | How::Stolen => None,
                };
                (Self::Turn(Name::Holding), before)
            }
            TraceEvent::Release => (Self::Release, Some(Name::Holding)),
            TraceEvent::Kick(_) => (Self::Instant(Name::Kick), None),
            TraceEvent::Yield(_) => (Self::Instant(Name::Yield), None),
        }
    }

    /// The name by which the step is found again.
    pub(super) const fn name(self) -> Option<Name> {
        match self {
            Self::Begin(name)
            | Self::Turn(name)
            | Self::Halt(name)
            | Self::Wake(name)
            | Self::Instant(name) => Some(name),
            Self::Release => None,
        }
    }
}

/// How a step of the host is drawn on its vCPU's track of the VMM.
#[derive(Clone, Copy)]
pub(super) enum HostDrawn {
    /// A slice begins.
    Begin(Name),
    /// The slice of the first name ends, with an instant of the second.
    End(Name, Name),
    /// An instant.
    Instant(Name),
}

impl HostDrawn {
    /// How `step` is drawn.
    pub(super) const fn of(step: HostStep) -> Self {
        match step {
            HostStep::Enter => Self::Begin(Name::InGuest),
            HostStep::Exit(_) => Self::End(Name::InGuest, Name::Exit),
            HostStep::Blocked => Self::Begin(Name::Blocked),
            HostStep::Unblocked => Self::End(Name::Blocked, Name::Unblocked),
            HostStep::Injected(_) => Self::Instant(Name::Injected),
        }
    }

    /// The name by which the step is found again.
    pub(super) const fn name(self) -> Name {
        match self {
            Self::Begin(name) | Self::End(_, name) | Self::Instant(name) => name,
        }
    }
}

/// Numbers of the values of [`Arg::How`] and [`Arg::Reason`] begin here.
const FIRST_HOW: u8 = 1;
const FIRST_REASON: u8 = 16;

/// Numbers of the vCPUs' names, as slices of host CPUs, begin here.
pub(super) const FIRST_VCPU: u64 = 64;

/// The number of the way's name.
pub(super) const fn how_iid(how: How) -> u8 {
    FIRST_HOW + how as u8
}

/// The way whose name has that number.
pub(super) fn how_from_iid(iid: u64) -> Option<How> {
    How::ALL
        .into_iter()
        .find(|&how| u64::from(how_iid(how)) == iid)
}

/// The number of the reason's name.
pub(super) const fn reason_iid(reason: ExitReason) -> u8 {
    FIRST_REASON + reason as u8
}

/// The reason whose name has that number.
pub(super) fn reason_from_iid(iid: u64) -> Option<ExitReason> {
    ExitReason::ALL
        .into_iter()
        .find(|&reason| u64::from(reason_iid(reason)) == iid)
}

/// `InternedData` with all names but those of vCPUs.
pub(super) fn interned() -> Message {
    let mut data = Message::new();
    // The first of all is the schema, by which readers know the trace.
    for &(name, text) in Name::ALL {
        data = data.message(EVENT_NAMES, &entry(name.iid().into(), text));
    }
    for &(category, text) in Category::ALL {
        data = data.message(EVENT_CATEGORIES, &entry(category.iid().into(), text));
    }
    for &(arg, text) in Arg::ALL {
        data = data.message(DEBUG_ANNOTATION_NAMES, &entry(arg.iid().into(), text));
    }
    let hows = How::ALL.map(|how| (how_iid(how), how.name()));
    let reasons = ExitReason::ALL.map(|reason| (reason_iid(reason), reason.name()));
    for (iid, text) in hows.into_iter().chain(reasons) {
        data = data.message(DEBUG_ANNOTATION_STRING_VALUES, &entry(iid.into(), text));
    }
    data
}

/// `InternedData` with the name of one vCPU.
pub(super) fn interned_vcpu(number: u64, vm: usize, vcpu: usize) -> Message {
    let name = format!("VM {vm} vCPU {vcpu}");
    Message::new().message(EVENT_NAMES, &entry(FIRST_VCPU + number, &name))
}

fn entry(iid: u64, text: &str) -> Message {
    Message::new().uint(IID, iid).bytes(NAME, text)
}
