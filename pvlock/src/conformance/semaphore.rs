//! What a reader-writer lock must do that can be downgraded, and whose waiters can be killed.
//!
//! | step      | what must hold                                                                  |
//! |-----------|---------------------------------------------------------------------------------|
//! | let in    | readers that wait get in once the writer has become a reader                      |
//! | downgrade | no writer gets in between                                                         |
//! | killed    | who waits for a held lock and is killed gives up; the free lock shows no trace     |
//! | any time  | whoever is killed when, no wake-up is lost, and nothing that the lock guards        |

use super::{Called, Outcome, Suite};
use crate::atomic::Watch;
use crate::{Downgrade, KillableRw, Platform};
use core::sync::atomic::Ordering::Relaxed;

/// Tasks that get in beside a writer that becomes a reader: a lock wakes no more at once.
const LET_IN: u32 = 256;

/// How tasks are killed on this machine: see [`Platform::killed`].
#[derive(Clone, Copy, Debug)]
pub struct Killing {
    /// Kills that task, and wakes it.
    pub kill: fn(u32),
    /// Lets the executing task live on.
    pub revive: fn(),
}

impl<L: Downgrade + KillableRw> Called<'_, L> {
    #[inline(never)]
    fn downgrade(&self) {
        self.0.downgrade();
    }

    /// For reading if `read`.
    #[inline(never)]
    fn killable(&self, read: bool) -> bool {
        if read {
            self.0.read_killable()
        } else {
            self.0.write_killable()
        }
    }
}

impl<P: Platform, L: Downgrade + KillableRw> Suite<'_, P, L> {
    /// What such a lock must do beyond [`shared`](Self::shared).
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive).
    pub fn semaphore(&mut self, killing: Killing) -> Outcome {
        self.let_in()?;
        let downgraded = self.downgrades()?;
        for round in 0..self.rounds.min(8) {
            self.killed(killing, round)?;
        }
        let survived = self.killed_at_any_time(killing)?;
        self.complete_sum(downgraded + survived)?;
        self.free()?;
        self.no_node_in_use()
    }

    /// Tasks inside at the same time, after one of them has written.
    fn let_in(&mut self) -> Outcome {
        let lock = Called(self.sites[0].lock);
        let reads = P::task() < LET_IN;
        if P::task() == 0 {
            lock.write();
        }
        self.meet();
        if P::task() == 0 {
            // Others come to wait meanwhile, if they are quick.
            self.dwell(0);
            lock.downgrade();
        } else if reads {
            lock.read();
        }
        self.meet();
        self.require(0, !lock.try_write(), "no writer gets in beside readers")?;
        if reads {
            self.among_readers()?;
        }
        self.meet();
        if reads {
            lock.read_unlock();
        }
        self.meet();
        self.free()?;
        self.meet();
        Ok(())
    }

    /// Returns how often this task has written.
    fn downgrades(&mut self) -> Result<u32, super::Breach> {
        let (lock, guarded) = (Called(self.sites[0].lock), self.sites[0].guarded);
        let mut writes = 0;
        for round in 0..self.rounds {
            if (round + P::task()).is_multiple_of(3) {
                lock.write();
                self.alone(0)?;
                let left = guarded.first.load(Relaxed);
                lock.downgrade();
                self.among_readers()?;
                let found = guarded.first.load(Relaxed);
                self.require(0, found == left, "no writer gets in at a downgrade")?;
                writes += 1;
            } else {
                lock.read();
                self.among_readers()?;
            }
            lock.read_unlock();
        }
        self.meet();
        Ok(writes)
    }

    /// Task 0 holds the lock; all others wait for it, and are killed.
    fn killed(&mut self, killing: Killing, round: u32) -> Outcome {
        let lock = Called(self.sites[0].lock);
        let by_reader = round % 4 >= 2;
        if P::task() == 0 {
            lock.write();
            if by_reader {
                lock.downgrade();
            }
        }
        self.meet();
        if P::task() == 0 {
            // Of half the rounds: let them wait and sleep first.
            if round.is_multiple_of(2) {
                (0..8).for_each(|_| self.dwell(0));
            }
            (1..self.tasks).for_each(killing.kill);
        } else {
            // A reader may join one, unless a writer waits.
            let read = !by_reader && (P::task() + round).is_multiple_of(2);
            let taken = lock.killable(read);
            self.require(0, !taken, "a killed waiter does not get a held lock")?;
            (killing.revive)();
        }
        self.meet();
        if P::task() == 0 {
            if by_reader {
                lock.read_unlock();
            } else {
                lock.write_unlock();
            }
            self.free()?;
            self.require(0, lock.try_write(), "killed waiters leave a lock usable")?;
            lock.write_unlock();
        }
        self.meet();
        Ok(())
    }

    /// Returns how often this task has written.
    fn killed_at_any_time(&mut self, killing: Killing) -> Result<u32, super::Breach> {
        let lock = Called(self.sites[0].lock);
        let mut writes = 0;
        for round in 0..self.rounds {
            if round % 3 == 1 {
                (killing.kill)((P::task() + 1 + round) % self.tasks);
            }
            let read = (round + P::task()) % 3 == 1;
            if !lock.killable(read) {
                (killing.revive)();
            } else if read {
                self.among_readers()?;
                lock.read_unlock();
            } else {
                self.alone(0)?;
                lock.write_unlock();
                writes += 1;
            }
        }
        self.meet();
        (killing.revive)();
        Ok(writes)
    }

    fn free(&self) -> Outcome {
        let free = !self.sites[0].lock.is_locked();
        self.require(0, free, "every lock is free at the end")
    }
}
