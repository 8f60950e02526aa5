//! Schedules on demand: what is to happen to chosen vCPUs at chosen moments, to bring about one exact
//! interleaving.

use serde::{Deserialize, Serialize};

/// Something that is to happen, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// vCPU `vcpu` of each VM loses its CPU for `ns` when it has begun its critical section number
    /// `section`, counted from 1 in the order of its acquisitions.
    DescheduleHolder {
        /// The vCPU's number in its VM.
        vcpu: u32,
        /// Which of its critical sections.
        section: u64,
        /// For how long, ns.
        ns: u64,
    },
    /// When vCPU `vcpu` is woken from a halt for the `wake`th time, counted from 1, it takes `ns` longer.
    DelayWake {
        /// The vCPU's number in its VM.
        vcpu: u32,
        /// Which of its wake-ups.
        wake: u64,
        /// How much longer, ns.
        ns: u64,
    },
}

impl Rule {
    /// The vCPU that it is about.
    pub const fn vcpu(&self) -> u32 {
        match *self {
            Self::DescheduleHolder { vcpu, .. } | Self::DelayWake { vcpu, .. } => vcpu,
        }
    }

    /// For how long it takes that vCPU's CPU away in that critical section, ns, if it does.
    pub(crate) fn deschedules(&self, of_vcpu: u32, in_section: u64) -> Option<u64> {
        match *self {
            Self::DescheduleHolder { vcpu, section, ns } => {
                ((vcpu, section) == (of_vcpu, in_section)).then_some(ns)
            }
            Self::DelayWake { .. } => None,
        }
    }

    /// How much longer it makes that wake-up of that vCPU, ns, if it does.
    pub(crate) fn delays(&self, of_vcpu: u32, of_wake: u64) -> Option<u64> {
        match *self {
            Self::DelayWake { vcpu, wake, ns } => {
                ((vcpu, wake) == (of_vcpu, of_wake)).then_some(ns)
            }
            Self::DescheduleHolder { .. } => None,
        }
    }

    /// Which of its critical sections, or wake-ups, counted from 1.
    pub const fn number(&self) -> u64 {
        match *self {
            Self::DescheduleHolder { section, .. } => section,
            Self::DelayWake { wake, .. } => wake,
        }
    }

    /// For how long, ns.
    pub const fn ns(&self) -> u64 {
        match *self {
            Self::DescheduleHolder { ns, .. } | Self::DelayWake { ns, .. } => ns,
        }
    }
}
