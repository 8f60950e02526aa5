//! How long the work is, and what data it touches.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A length of work, to the picosecond. In JSON a number of ns, which may have a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkTime {
    ps: u64,
}

impl WorkTime {
    /// None.
    pub const ZERO: Self = Self { ps: 0 };
    /// The longest: an hour.
    pub const MOST: Self = Self::from_ps(3600 * 1_000_000_000_000);

    /// That many ps.
    pub const fn from_ps(ps: u64) -> Self {
        Self { ps }
    }

    /// That many ns.
    pub const fn from_ns(ns: u64) -> Self {
        Self {
            ps: ns.saturating_mul(1000),
        }
    }

    /// In ps.
    pub const fn ps(self) -> u64 {
        self.ps
    }

    /// In ns.
    pub fn ns(self) -> f64 {
        self.ps as f64 / 1e3
    }

    /// Whole ns, and so many ps.
    pub const fn parts(self) -> (u64, u64) {
        (self.ps / 1000, self.ps % 1000)
    }

    /// In whole ns, at least as long.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.ps.div_ceil(1000))
    }
}

impl fmt::Display for WorkTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.ns())
    }
}

impl Serialize for WorkTime {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.parts() {
            (ns, 0) => ns.serialize(s),
            _ => self.ns().serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for WorkTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let ns = f64::deserialize(d)?;
        if !(ns.is_finite() && ns >= 0.0) {
            let wrong = format_args!("a length of work is 0 ns or more, not {ns}");
            return Err(serde::de::Error::custom(wrong));
        }
        // More than there can be is the most: how long it may be, limits of scenarios say.
        Ok(Self::from_ps(whole(ns * 1e3)))
    }
}

/// The nearest number that is whole and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats stop at the ends"
)]
pub(crate) fn whole(x: f64) -> u64 {
    x.round() as u64
}

/// How the lengths of work outside the critical section are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// All alike.
    #[default]
    Fixed,
    /// Exponentially.
    Exp,
}

impl Spread {
    /// Whether there is nothing to say of it.
    pub fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// Where the data lies that a critical section touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// 128 bytes away from the lock.
    #[default]
    OwnLine,
    /// In the lock's own line, behind the lock.
    SameLine,
    /// There is none, and exclusion is not checked.
    None,
}

impl Data {
    /// As the guest has it.
    pub const fn of_guest(self) -> abi::Data {
        match self {
            Self::OwnLine => abi::Data::OwnLine,
            Self::SameLine => abi::Data::SameLine,
            Self::None => abi::Data::None,
        }
    }

    /// Whether exclusion is checked.
    pub fn is_checked(self) -> bool {
        self != Self::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Work;

    #[test]
    fn whole_nanoseconds_are_whole_numbers_and_fractions_survive() {
        for (ps, json) in [(0, "0"), (130_000, "130"), (4_200, "4.2"), (1, "0.001")] {
            let time = WorkTime::from_ps(ps);
            assert_eq!(serde_json::to_string(&time).unwrap(), json);
            assert_eq!(serde_json::from_str::<WorkTime>(json).unwrap(), time);
        }
        for bad in ["-1", "1e999", "\"130\"", "null"] {
            assert!(serde_json::from_str::<WorkTime>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn scenarios_of_before_are_still_read() {
        let before = r#"{"critical_ns": 130, "outside_ns": 1000, "locks": 1}"#;
        let workload: Work = serde_json::from_str(before).unwrap();
        assert_eq!(workload.critical, WorkTime::from_ns(130));
        assert_eq!(workload.outside_spread, Spread::Fixed);
        assert_eq!(workload.data, Data::OwnLine);
        let again = serde_json::to_value(workload).unwrap();
        assert_eq!(again["critical_ns"], 130);
        assert_eq!(again["outside_ns"], 1000);
        let random = Work {
            outside_spread: Spread::Exp,
            data: Data::None,
            ..workload
        };
        let text = serde_json::to_string(&random).unwrap();
        assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), random);
    }
}
