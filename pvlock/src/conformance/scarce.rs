//! A lock beside others whose holders keep their queue nodes.

use super::{Called, Outcome, Suite};
use crate::percpu::MAX_NODES;
use crate::{Platform, RawLock, RawMcs};

/// Most sections of each task between two meetings: the last ones have nobody coming behind them.
const SECTIONS: u32 = 8;

/// As many locks as a CPU has nodes, each of whose holders keeps one.
pub struct Kept<P: Platform>([RawMcs<P>; MAX_NODES]);

impl<P: Platform> Default for Kept<P> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| RawMcs::new()))
    }
}

impl<P: Platform, L: RawLock> Suite<'_, P, L> {
    /// What any lock must do on CPUs that have no queue node left: every other task holds as many
    /// [`RawMcs`] locks as its CPU has nodes while it takes this one. Each CPU must execute one task. Two tasks
    /// share one of `kept`, and more if there are not enough.
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive).
    pub fn scarce(&mut self, kept: &[&Kept<P>]) -> Outcome {
        let mine = &kept[P::task() as usize / 2 % kept.len()].0;
        let lock = Called(self.sites[0].lock);
        for round in 0..self.rounds {
            self.meet();
            let keeps = (round + P::task()).is_multiple_of(2);
            let kept = if keeps { &mine[..] } else { &[] };
            kept.iter().for_each(RawLock::lock);
            for _ in 0..self.rounds.min(SECTIONS) {
                lock.lock();
                self.alone(0)?;
                lock.unlock();
            }
            kept.iter().for_each(RawLock::unlock);
        }
        self.meet();
        let free = !lock.0.is_locked();
        self.require(0, free, "every lock is free at the end")?;
        self.no_node_in_use()
    }
}
