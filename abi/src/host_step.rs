//! What a host does with a vCPU: the words in which every machine tells it.

use core::time::Duration;

/// What a step tells beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDetail {
    /// Nothing.
    Nothing,
    /// Why the vCPU left the guest.
    Reason(ExitReason),
    /// How long something took, ns.
    LengthNs(u64),
}

pvlock::steps! {
    /// What the host did.
    pub enum HostStep, HostDetail {
        /// It lets the vCPU enter the guest.
        Enter, "enter";
        /// The vCPU has left the guest.
        Exit(Reason: ExitReason = ExitReason::Other), "exit";
        /// It blocks the halted vCPU.
        Blocked, "blocked";
        /// The halted vCPU has been kicked and runs again.
        Unblocked, "unblocked";
        /// It has held the vCPU off its CPU, as asked, for so long, ns: the time it really took.
        Injected(LengthNs: u64 = 0), "injected";
    }
}

impl HostStep {
    /// [`Self::Injected`], now over.
    pub fn injected(time: Duration) -> Self {
        Self::Injected(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The step as two words.
    pub fn words(self) -> [u64; 2] {
        let detail = match self.detail() {
            HostDetail::Nothing => 0,
            HostDetail::Reason(reason) => reason as u64,
            HostDetail::LengthNs(ns) => ns,
        };
        [self.number() as u64, detail]
    }

    /// The step that two words stand for, if they stand for one.
    pub fn from_words([kind, detail]: [u64; 2]) -> Option<Self> {
        let like = Self::ALL.get(usize::try_from(kind).ok()?)?;
        let detail = match like.detail() {
            HostDetail::Nothing => HostDetail::Nothing,
            HostDetail::Reason(_) => {
                HostDetail::Reason(*ExitReason::ALL.get(usize::try_from(detail).ok()?)?)
            }
            HostDetail::LengthNs(_) => HostDetail::LengthNs(detail),
        };
        Some(like.with(detail))
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

impl SwitchKind {
    /// Every kind. Its place stands for it.
    pub const ALL: [Self; 3] = [Self::In, Self::Out, Self::OutPreempted];

    /// The kind in which a thread gives its CPU up, or loses it.
    pub const fn out(preempted: bool) -> Self {
        if preempted {
            Self::OutPreempted
        } else {
            Self::Out
        }
    }
}

impl Switch {
    /// The switch as three words.
    pub fn words(self) -> [u64; 3] {
        [self.at_ns, self.cpu.into(), self.kind as u64]
    }

    /// The switch that three words stand for, if they stand for one.
    pub fn from_words([at_ns, cpu, kind]: [u64; 3]) -> Option<Self> {
        Some(Self {
            at_ns,
            cpu: cpu.try_into().ok()?,
            kind: *SwitchKind::ALL.get(usize::try_from(kind).ok()?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_and_switch_survives_its_words() {
        let mut steps = HostStep::ALL.to_vec();
        steps.extend(ExitReason::ALL.map(HostStep::Exit));
        steps.push(HostStep::Injected(u64::MAX));
        for step in steps {
            assert_eq!(HostStep::from_words(step.words()), Some(step));
        }
        assert_eq!(HostStep::from_words([5, 0]), None);
        assert_eq!(HostStep::from_words([1, 99]), None);
        for kind in SwitchKind::ALL {
            let switch = Switch {
                at_ns: u64::MAX,
                cpu: u32::MAX,
                kind,
            };
            assert_eq!(Switch::from_words(switch.words()), Some(switch));
        }
        assert_eq!(Switch::from_words([0, 0, 3]), None);
    }
}
