//! What a reader-writer lock must do.

use super::{Called, Outcome, Suite};
use crate::atomic::{Atomic, Watch};
use crate::{Platform, RawRwLock};
use core::sync::atomic::Ordering::Relaxed;

impl<L: RawRwLock> Called<'_, L> {
    #[inline(never)]
    pub(super) fn read(&self) {
        self.0.read();
    }
    #[inline(never)]
    pub(super) fn try_read(&self) -> bool {
        self.0.try_read()
    }
    #[inline(never)]
    pub(super) fn read_unlock(&self) {
        self.0.read_unlock();
    }
    #[inline(never)]
    pub(super) fn write(&self) {
        self.0.write();
    }
    #[inline(never)]
    pub(super) fn try_write(&self) -> bool {
        self.0.try_write()
    }
    #[inline(never)]
    pub(super) fn write_unlock(&self) {
        self.0.write_unlock();
    }
}

impl<P: Platform, L: RawRwLock> Suite<'_, P, L> {
    /// What a reader-writer lock must do beyond [`exclusive`](Self::exclusive), which its write side
    /// passes as a lock of its own.
    ///
    /// # Errors
    /// As [`exclusive`](Self::exclusive).
    pub fn shared(&mut self) -> Outcome {
        self.rw_tries()?;
        self.meet();
        self.read_together()?;
        self.meet();
        let mut writes = 0;
        for round in 0..self.rounds {
            let lock = Called(self.sites[0].lock);
            if (round + P::task()).is_multiple_of(4) {
                if round % 3 != 2 || !lock.try_write() {
                    lock.write();
                }
                self.alone(0)?;
                lock.write_unlock();
                writes += 1;
            } else {
                if round % 3 != 2 || !lock.try_read() {
                    lock.read();
                }
                self.among_readers()?;
                lock.read_unlock();
            }
        }
        self.complete_sum(writes)?;
        let free = P::task() != 0 || !self.sites[0].lock.is_locked();
        self.require(0, free, "every lock is free at the end")?;
        self.meet();
        self.no_node_in_use()
    }

    #[inline(never)]
    fn rw_tries(&mut self) -> Outcome {
        let (lock, task, other) = (Called(self.sites[0].lock), P::task(), 1 % self.tasks);
        if task == 0 {
            self.require(0, !lock.0.is_locked(), "a new lock is free")?;
            self.require(0, lock.try_read(), "try_read takes a free lock")?;
            self.require(0, lock.0.is_locked(), "is_locked tells of a reader")?;
        }
        self.meet();
        if task == other {
            self.require(0, lock.try_read(), "try_read joins a reader")?;
            self.require(0, !lock.try_write(), "try_write does not join a reader")?;
            lock.read_unlock();
            self.require(
                0,
                lock.0.is_locked(),
                "one reader's release is not the other's",
            )?;
        }
        self.meet();
        if task == 0 {
            lock.read_unlock();
            self.require(0, !lock.0.is_locked(), "the last reader frees the lock")?;
            self.require(0, lock.try_write(), "try_write takes a free lock")?;
        }
        self.meet();
        if task == other {
            self.require(0, !lock.try_read(), "try_read does not join a writer")?;
            self.require(0, !lock.try_write(), "try_write does not join a writer")?;
            self.require(0, lock.0.is_locked(), "a try that fails leaves no trace")?;
        }
        self.meet();
        if task == 0 {
            lock.write_unlock();
            self.require(0, !lock.0.is_locked(), "the writer frees the lock")?;
        }
        Ok(())
    }

    /// All tasks inside at the same time: none leaves before all are in.
    fn read_together(&mut self) -> Outcome {
        let lock = Called(self.sites[0].lock);
        lock.read();
        self.meet();
        self.require(0, !lock.try_write(), "no writer gets in beside readers")?;
        self.among_readers()?;
        self.meet();
        lock.read_unlock();
        Ok(())
    }

    /// Inside with other readers at most.
    #[inline(never)]
    pub(super) fn among_readers(&self) -> Outcome {
        let guarded = self.sites[0].guarded;
        guarded.readers.fetch_add(1, Relaxed);
        let no_writer = guarded.owner.load(Relaxed) == 0;
        self.require(0, no_writer, "no writer is inside beside a reader")?;
        let first = guarded.first.load(Relaxed);
        self.dwell(first);
        let still = guarded.second.load(Relaxed) == first && guarded.owner.load(Relaxed) == 0;
        self.require(0, still, "nothing changes under a reader")?;
        guarded.readers.fetch_add(u32::MAX, Relaxed);
        Ok(())
    }
}
