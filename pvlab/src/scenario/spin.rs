//! How long a paravirtual waiter spins before it halts.

use super::{Lock, whole_ns};
use peers::Kind;
use pvlock::LockKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Linux's `SPIN_THRESHOLD`.
const LINUX_TURNS: u32 = 1 << 15;

/// How long a paravirtual waiter spins before it halts. In JSON a number of turns, a number of nanoseconds with
/// its unit, or a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub enum SpinThreshold {
    /// As each lock has it: `auto` for `pv-next`, 32,768 turns for Linux's locks and all others.
    Own,
    /// So many turns of the loop, as in Linux. How long that is depends on the CPU.
    Turns(u32),
    /// For so long.
    Time(Duration),
    /// For as long as a halt takes that a kick ends, which is measured before the run: then a wait costs at most
    /// twice what it would have cost who knew its length before (competitive spinning: Karlin, Li, Manasse, Owicki, SOSP 1991).
    Auto,
}

impl SpinThreshold {
    /// That of `lock`.
    pub fn of(self, lock: Lock) -> Self {
        let next = [LockKind::PvNext, LockKind::QRwLockPvNext].map(Kind::Ours);
        match self {
            Self::Own if next.contains(&lock.kind) => Self::Auto,
            Self::Own => Self::Turns(LINUX_TURNS),
            given => given,
        }
    }

    /// Turns, if they are given, or are what a vCPU spins that is told nothing else.
    pub(crate) const fn turns(self) -> u32 {
        match self {
            Self::Turns(turns) => turns,
            _ => LINUX_TURNS,
        }
    }
}

impl fmt::Display for SpinThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Turns(turns) => write!(f, "{turns} turns"),
            Self::Time(time) => write!(f, "{}ns", whole_ns(*time)),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// What is no threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no threshold; write a number of turns (1 to 4294967295), a time such as 20us (at most 1s), or auto"
)]
pub struct NoThreshold(String);

impl FromStr for SpinThreshold {
    type Err = NoThreshold;

    fn from_str(text: &str) -> Result<Self, NoThreshold> {
        let no = || NoThreshold(text.to_owned());
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "own" => Ok(Self::Own),
            text => match text.parse() {
                Ok(0) => Err(no()),
                Ok(turns) => Ok(Self::Turns(turns)),
                Err(_) => {
                    let time = humantime::parse_duration(text).map_err(|_| no())?;
                    let possible = Duration::from_nanos(1)..=Duration::from_secs(1);
                    let possible = possible.contains(&time).then_some(Self::Time(time));
                    possible.ok_or_else(no)
                }
            },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Turns(u32),
    Word(String),
}

impl From<SpinThreshold> for Written {
    fn from(threshold: SpinThreshold) -> Self {
        match threshold {
            SpinThreshold::Turns(turns) => Self::Turns(turns),
            other => Self::Word(other.to_string()),
        }
    }
}

impl TryFrom<Written> for SpinThreshold {
    type Error = NoThreshold;

    fn try_from(written: Written) -> Result<Self, NoThreshold> {
        match written {
            Written::Turns(turns) => Ok(Self::Turns(turns)),
            Written::Word(word) => word.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_turns_times_or_auto() {
        let parsed = |text: &str| text.parse::<SpinThreshold>().ok();
        let us = Duration::from_micros;
        assert_eq!(parsed("1"), Some(SpinThreshold::Turns(1)));
        assert_eq!(parsed("20us"), Some(SpinThreshold::Time(us(20))));
        assert_eq!(parsed("auto"), Some(SpinThreshold::Auto));
        for wrong in "0||-1|4294967296|1x|0ns|2s|soon|1.5".split('|') {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn they_survive_json() {
        let time = SpinThreshold::Time(Duration::from_micros(20));
        for (threshold, written) in [
            (SpinThreshold::Own, "\"own\""),
            (SpinThreshold::Turns(7), "7"),
            (time, "\"20000ns\""),
            (SpinThreshold::Auto, "\"auto\""),
        ] {
            assert_eq!(serde_json::to_string(&threshold).unwrap(), written);
            let read: SpinThreshold = serde_json::from_str(written).unwrap();
            assert_eq!(read, threshold);
        }
        assert!(serde_json::from_str::<SpinThreshold>("\"2s\"").is_err());
    }

    #[test]
    fn only_pv_next_has_another_than_linux() {
        for kind in Kind::all() {
            let auto = SpinThreshold::Own.of(kind.into()) == SpinThreshold::Auto;
            assert_eq!(auto, kind.name().ends_with("pv-next"), "{kind}");
        }
    }
}
