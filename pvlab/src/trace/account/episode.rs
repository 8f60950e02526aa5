//! Times in which a lock was of no use because one vCPU did not run.

use super::result::add;
use serde::Serialize;

/// How many of the longest episodes and of the worst stalls are kept.
pub(super) const KEPT: usize = 10;
/// Whose absence stopped a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EpisodeKind {
    /// The holder's: lock-holder preemption.
    Lhp,
    /// The next waiter's: lock-waiter preemption.
    Lwp,
    /// The next waiter's, which had been kicked and was not up yet.
    Kick,
}

/// One such time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// Whose absence.
    pub kind: EpisodeKind,
    /// Number of the lock.
    pub lock: u16,
    /// The vCPU that did not run.
    pub vcpu: u16,
    /// When it began, ns since the trace began: when the vCPU was absent and somebody else waited.
    pub at_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// How long the vCPU had not run when it ended; for a kick, how long ago that was.
    pub off_ns: u64,
    /// How many others waited in the end.
    pub waiters: usize,
    /// The first 16 of them, ascending.
    pub who: Vec<u16>,
    /// What they waited in all.
    pub waited_ns: u64,
}

/// The episodes of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Episodes {
    /// How many.
    pub count: u64,
    /// How many per second of the trace.
    pub per_s: f64,
    /// Their total duration.
    pub total_ns: u64,
    /// The longest, the longest first.
    pub longest: Vec<Episode>,
}

impl Episodes {
    pub(super) fn set_rate(&mut self, span_ns: u64) {
        self.per_s = match span_ns {
            0 => 0.0,
            span => self.count as f64 * 1e9 / span as f64,
        };
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.per_s += other.per_s;
        add(&mut self.total_ns, other.total_ns);
        for episode in &other.longest {
            keep_worst(&mut self.longest, |e| e.duration_ns, episode);
        }
    }
}

/// Keeps `episode` if it is among the first by `measure`; earlier ones go first among equals.
pub(super) fn keep_worst(
    kept: &mut Vec<Episode>,
    measure: impl Fn(&Episode) -> u64,
    episode: &Episode,
) {
    if enters(kept, &measure, measure(episode)) {
        let key = |e: &Episode| (std::cmp::Reverse(measure(e)), e.at_ns);
        let place = kept.partition_point(|e| key(e) <= key(episode));
        kept.insert(place, episode.clone());
        kept.truncate(KEPT);
    }
}

/// Whether one of that measure could be kept.
pub(super) fn enters(kept: &[Episode], measure: impl Fn(&Episode) -> u64, new: u64) -> bool {
    kept.len() < KEPT || kept.last().is_some_and(|last| measure(last) < new)
}
