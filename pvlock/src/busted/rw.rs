//! `busted-rw`: a reader-writer lock that now and then lets a reader in beside a writer.
//!
//! The first word is that of [`crate::rwlock`], but readers also stand back for writers that wait, so that
//! there are writers to be let in beside. One in 16 looks of a waiting reader that find a writer inside
//! ends its wait. A check of readers against writers must catch it; one that only looks at writers cannot.

use crate::atomic::{Atomic, ConstZero, Watch};
use crate::event::LockEvent;
use crate::rwlock::{FREE, MAX_READERS, READER, WRITER};
use crate::trace::{How, TraceEvent};
use crate::{Platform, RawRwLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One in so many looks that find a writer inside ends the wait all the same.
const RECKLESS: u32 = 16;

/// The lock that now and then mixes readers and writers.
#[repr(C)]
pub struct RawBustedRw<P: Platform> {
    word: P::U32,
    /// Writers that wait.
    writers: P::U32,
    /// Looks that have found a writer inside.
    looks: P::U32,
}

impl<P: Platform> RawBustedRw<P> {
    /// `0` -> writer.
    fn claim_write(&self) -> bool {
        // Acquire pairs with the Release in both unlocks.
        self.word
            .compare_exchange(FREE, WRITER, Acquire, Relaxed)
            .is_ok()
    }
}

impl<P: Platform> RawRwLock for RawBustedRw<P> {
    fn new() -> Self {
        Self {
            word: P::U32::new(FREE),
            writers: P::U32::new(0),
            looks: P::U32::new(0),
        }
    }

    fn read(&self) {
        if self.writers.load(Relaxed) == 0 && self.try_read() {
            return;
        }
        P::count(LockEvent::Contended, 1);
        loop {
            P::relax();
            let written = self.word.load(Relaxed) & WRITER != 0;
            let looks = || self.looks.fetch_add(1, Relaxed).wrapping_add(1);
            if written && looks().is_multiple_of(RECKLESS) {
                // The mistake.
                self.word.fetch_add(READER, Acquire);
                return;
            }
            if self.writers.load(Relaxed) == 0 && self.try_read() {
                return;
            }
        }
    }

    fn try_read(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word < MAX_READERS {
            // Acquire pairs with the Release in write_unlock().
            match self
                .word
                .compare_exchange(word, word + READER, Acquire, Relaxed)
            {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    fn read_unlock(&self) {
        // Release pairs with the Acquire of the writer that finds no reader left.
        self.word.fetch_add(READER.wrapping_neg(), Release);
    }

    fn write(&self) {
        P::trace(self, TraceEvent::Start);
        if self.claim_write() {
            P::trace(self, TraceEvent::Acquired(How::Fast));
            return;
        }
        P::count(LockEvent::Contended, 1);
        self.writers.fetch_add(1, Relaxed);
        while !self.claim_write() {
            P::spin_until(&self.word, Relaxed, |word| word == FREE);
        }
        self.writers.fetch_add(u32::MAX, Relaxed);
        P::trace(self, TraceEvent::Acquired(How::Stolen));
    }

    fn try_write(&self) -> bool {
        let claimed = self.claim_write();
        if claimed {
            P::trace(self, TraceEvent::Acquired(How::Fast));
        }
        claimed
    }

    fn write_unlock(&self) {
        P::trace(self, TraceEvent::Release);
        // There may be readers beside the writer. Release pairs with the Acquire of whoever comes next.
        self.word.fetch_and(!WRITER, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

impl<P: Platform> ConstZero for RawBustedRw<P>
where
    P::U32: ConstZero,
{
    const ZERO: Self = Self {
        word: P::U32::ZERO,
        writers: P::U32::ZERO,
        looks: P::U32::ZERO,
    };
}
