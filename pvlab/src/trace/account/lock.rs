//! A lock: who holds it, who waits, and in which state it has been for how long.

use super::clock::{Class, Clocks};
use super::episode::{Episode, EpisodeKind, enters, keep_worst};
use super::order::Order;
use super::result::{Tally, add};

/// How long a lock can look free, while somebody runs who may take it, until that is not believed any
/// more, ns. Such a hand-over takes well under 1 us, and a vCPU is away for at least 100 us.
pub const QUIET_NS: u64 = 20_000;

/// How many vCPUs that waited are listed.
const LISTED: usize = 16;

/// A vCPU whose absence stops a lock, and in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) kind: EpisodeKind,
    pub(super) vcpu: u16,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) missed: Missed,
    at: u64,
    /// Since when the vCPU was absent.
    off_since: u64,
    /// What the lock's waiters had waited in all when it began.
    waited: u64,
    /// Whether the vCPU is itself one of the waiters.
    waits: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    /// A waiter without a place can take it past the queue.
    pub(super) steals: bool,
    pub(super) holder: Option<u16>,
    /// Whether `holder` can be relied on.
    pub(super) known: bool,
    /// The vCPU that released it last, as long as that one has done nothing else.
    pub(super) releaser: Option<u16>,
    pub(super) releases: u64,
    pub(super) order: Order,
    pub(super) waiters: Vec<u16>,
    /// The state since `since`, which is not yet on the clocks.
    pub(super) class: Class,
    /// The next waiter, if the lock is free.
    pub(super) next: Option<u16>,
    pub(super) since: u64,
    /// Since when the lock should have been taken.
    pub(super) quiet_since: u64,
    /// The vCPU that is suspected of holding the lock, which looks free.
    pub(super) suspect: Option<u16>,
    pub(super) clocks: Clocks,
    /// What all waiters together have waited, ns.
    pub(super) waited: u64,
    pub(super) episode: Option<Open>,
    pub(super) tally: Tally,
}

impl Lock {
    pub(super) fn new(steals: bool, vcpus: usize) -> Self {
        Self {
            steals,
            order: Order::new(vcpus),
            ..Self::default()
        }
    }

    pub(super) fn waiter_count(&self) -> u64 {
        self.waiters.len() as u64
    }

    pub(super) fn miss(&mut self, missed: Missed, at: u64, off_since: u64, waited: u64) {
        self.episode = Some(Open {
            missed,
            at,
            off_since,
            waited,
            waits: self.waiters.contains(&missed.vcpu),
        });
    }

    /// Ends the episode, if there is one, and keeps it among the longest and the worst if it is.
    pub(super) fn close_episode(&mut self, number: u16, now: u64) {
        let Some(open) = self.episode.take() else {
            return;
        };
        let duration = now - open.at;
        if duration == 0 {
            return;
        }
        let Missed { kind, vcpu } = open.missed;
        let tally = &mut self.tally;
        let episodes = match kind {
            EpisodeKind::Lhp => &mut tally.lhp,
            EpisodeKind::Lwp => &mut tally.lwp,
            EpisodeKind::Kick => &mut tally.kick,
        };
        episodes.count += 1;
        add(&mut episodes.total_ns, duration);
        let own = if open.waits { duration } else { 0 };
        let waited_ns = self.waited.saturating_sub(open.waited).saturating_sub(own);
        // Most episodes are not worth the story.
        if !enters(&episodes.longest, |e| e.duration_ns, duration)
            && !enters(&tally.stalls, |e| e.waited_ns, waited_ns)
        {
            return;
        }
        let mut who = self.waiters.clone();
        who.retain(|&waiter| waiter != vcpu);
        let waiters = who.len();
        who.sort_unstable();
        who.truncate(LISTED);
        let episode = Episode {
            kind,
            lock: number,
            vcpu,
            at_ns: open.at,
            duration_ns: duration,
            off_ns: now.saturating_sub(open.off_since),
            waiters,
            who,
            waited_ns,
        };
        keep_worst(&mut episodes.longest, |e| e.duration_ns, &episode);
        keep_worst(&mut tally.stalls, |e| e.waited_ns, &episode);
    }
}
