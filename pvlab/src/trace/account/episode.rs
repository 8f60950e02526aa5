//! Times in which a lock was of no use because one vCPU did not run.

use super::result::add;
use serde::Serialize;

/// How many of the longest episodes and of the worst stalls are kept.
pub(super) const KEPT: usize = 10;
/// How many vCPUs that waited are listed.
const LISTED: usize = 16;

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
fn enters(kept: &[Episode], measure: impl Fn(&Episode) -> u64, new: u64) -> bool {
    kept.len() < KEPT || kept.last().is_some_and(|last| measure(last) < new)
}

/// An episode that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) kind: EpisodeKind,
    pub(super) vcpu: u16,
    pub(super) at: u64,
    /// Since when the vCPU was absent.
    pub(super) off_since: u64,
    /// What the lock's waiters had waited in all when it began.
    pub(super) waited: u64,
    /// Whether the vCPU is itself one of the waiters.
    pub(super) waits: bool,
}

/// What is known at the end of an episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Close<'a> {
    pub(super) lock: u16,
    pub(super) now: u64,
    /// What the lock's waiters have waited in all.
    pub(super) waited: u64,
    pub(super) waiters: &'a [u16],
}

impl Open {
    /// Ends the episode, and keeps it among the longest and the worst if it is.
    pub(super) fn close(self, end: Close<'_>, episodes: &mut Episodes, stalls: &mut Vec<Episode>) {
        let duration = end.now - self.at;
        if duration == 0 {
            return;
        }
        episodes.count += 1;
        add(&mut episodes.total_ns, duration);
        let own = if self.waits { duration } else { 0 };
        let waited = end.waited.saturating_sub(self.waited).saturating_sub(own);
        // Most episodes are not worth the story.
        if !enters(&episodes.longest, |e| e.duration_ns, duration)
            && !enters(stalls, |e| e.waited_ns, waited)
        {
            return;
        }
        let mut who: Vec<u16> = end.waiters.to_vec();
        who.retain(|&vcpu| vcpu != self.vcpu);
        let waiters = who.len();
        who.sort_unstable();
        who.truncate(LISTED);
        let episode = Episode {
            kind: self.kind,
            lock: end.lock,
            vcpu: self.vcpu,
            at_ns: self.at,
            duration_ns: duration,
            off_ns: end.now.saturating_sub(self.off_since),
            waiters,
            who,
            waited_ns: waited,
        };
        keep_worst(&mut episodes.longest, |e| e.duration_ns, &episode);
        keep_worst(stalls, |e| e.waited_ns, &episode);
    }
}
