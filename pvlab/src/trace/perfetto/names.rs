//! Names that packets refer to by number. The numbers are part of the format.

use super::proto::interned::{
    DEBUG_ANNOTATION_NAMES, DEBUG_ANNOTATION_STRING_VALUES, EVENT_CATEGORIES, EVENT_NAMES, IID,
    NAME,
};
use super::wire::Message;
use crate::trace::Place;
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
            pub(super) const ALL: &[(Self, &str)] = &[$((Self::$variant, $text),)*];

            /// Its number.
            pub(super) const fn iid(self) -> u8 {
                self as u8
            }
        }
    };
}

impl Arg {
    /// Its name.
    pub(super) fn text(self) -> &'static str {
        Self::ALL[usize::from(self.iid()) - 1].1
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

/// How a step is drawn on its vCPU's track of locks, or of the VMM.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A slice begins.
    Begin,
    /// What the vCPU did about the lock ends, and a slice begins.
    Turn,
    /// A slice begins within the one that the lock has.
    Halt,
    /// That slice, or the VMM's, ends, with an instant.
    End,
    /// The slice of a held lock ends, which is the step.
    Release,
    Instant,
}

/// How a step is drawn, and of which name the slice or instant is.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    pub(super) shape: Shape,
    pub(super) name: Name,
    /// The slice in which a vCPU must have been before whose first step it is, if that is certain.
    pub(super) before: Option<Name>,
}

impl Drawn {
    /// A step of an acquisition.
    pub(super) const fn of(step: TraceEvent) -> Self {
        use Shape::{Begin, End, Halt, Instant, Release, Turn};
        let (shape, name, before) = match step {
            TraceEvent::Start => (Begin, Name::Spinning, None),
            TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) => {
                (Turn, Name::Queued, Some(Name::Spinning))
            }
            TraceEvent::Head => (Turn, Name::Head, Some(Name::Queued)),
            TraceEvent::HaltQueued => (Halt, Name::HaltedQueued, Some(Name::Queued)),
            TraceEvent::HaltHead => (Halt, Name::HaltedHead, Some(Name::Head)),
            TraceEvent::Woken => (End, Name::Woken, Some(Name::Halted)),
            TraceEvent::Spurious => (Instant, Name::Spurious, Some(Name::Queued)),
            TraceEvent::Acquired(How::Queue) => (Turn, Name::Holding, Some(Name::Queued)),
            TraceEvent::Acquired(How::Pending) => (Turn, Name::Holding, Some(Name::Head)),
            TraceEvent::Acquired(How::Fast | How::Stolen) => (Turn, Name::Holding, None),
            TraceEvent::Release => (Release, Name::Holding, Some(Name::Holding)),
            TraceEvent::Kick(_) => (Instant, Name::Kick, None),
            TraceEvent::Yield(_) => (Instant, Name::Yield, None),
        };
        Self::new(shape, name, before)
    }

    /// A step of the host.
    pub(super) const fn of_host(step: HostStep) -> Self {
        let (shape, name, before) = match step {
            HostStep::Enter => (Shape::Begin, Name::InGuest, None),
            HostStep::Exit(_) => (Shape::End, Name::Exit, Some(Name::InGuest)),
            HostStep::Blocked => (Shape::Begin, Name::Blocked, None),
            HostStep::Unblocked => (Shape::End, Name::Unblocked, Some(Name::Blocked)),
            HostStep::Injected(_) => (Shape::Instant, Name::Injected, None),
        };
        Self::new(shape, name, before)
    }

    const fn new(shape: Shape, name: Name, before: Option<Name>) -> Self {
        Self {
            shape,
            name,
            before,
        }
    }
}

/// Numbers of the values of [`Arg::How`] and [`Arg::Reason`] begin here.
pub(super) const FIRST_HOW: u8 = 1;
pub(super) const FIRST_REASON: u8 = 16;

/// What has the number `iid`, if those of `all` count from `first`.
pub(super) fn numbered<T: Copy>(all: &[T], first: u8, iid: u64) -> Option<T> {
    let place = usize::try_from(iid.checked_sub(first.into())?).ok()?;
    all.get(place).copied()
}

/// Numbers of the vCPUs' names, as slices of host CPUs, begin here.
pub(super) const FIRST_VCPU: u64 = 64;

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
    let hows = (FIRST_HOW..).zip(How::ALL.map(How::name));
    let reasons = (FIRST_REASON..).zip(ExitReason::ALL.map(ExitReason::name));
    for (iid, text) in hows.chain(reasons) {
        data = data.message(DEBUG_ANNOTATION_STRING_VALUES, &entry(iid.into(), text));
    }
    data
}

/// `InternedData` with the name of one vCPU.
pub(super) fn interned_vcpu(number: u64, Place { vm, vcpu }: Place) -> Message {
    let name = format!("VM {vm} vCPU {vcpu}");
    Message::new().message(EVENT_NAMES, &entry(FIRST_VCPU + number, &name))
}

fn entry(iid: u64, text: &str) -> Message {
    Message::new().uint(IID, iid).bytes(NAME, text)
}
