//! `busted-rw`: a reader-writer lock that now and then lets a reader in beside a writer.
//!
//! The first word is that of [`crate::rwlock`], but readers also stand back for writers that wait, so that
//! there are writers to be let in beside. One in 16 looks of a waiting reader that find a writer inside
//! ends its wait. A check of readers against writers must catch it; one that only looks at writers cannot.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::rwlock::{FREE, READER, WRITER, claim_read};
use crate::trace::How;
use crate::traced::{Held, TracedRw};
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

impl<P: Platform> TracedRw for RawBustedRw<P> {
    type Platform = P;
    type Seen = ();

    fn shared(&self) {
        if self.writers.load(Relaxed) == 0 && self.try_shared() {
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
            if self.writers.load(Relaxed) == 0 && self.try_shared() {
                return;
            }
        }
    }

    fn try_shared(&self) -> bool {
        claim_read(&self.word)
    }

    fn release_shared(&self) {
        // Release pairs with the Acquire of the writer that finds no reader left.
        self.word.fetch_add(READER.wrapping_neg(), Release);
    }

    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release in both unlocks.
        let claimed = self.word.compare_exchange(FREE, WRITER, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    fn slow(&self, (): ()) -> Held {
        P::count(LockEvent::Contended, 1);
        self.writers.fetch_add(1, Relaxed);
        while self.fast().is_err() {
            P::spin_until(&self.word, Relaxed, |word| word == FREE);
        }
        self.writers.fetch_add(u32::MAX, Relaxed);
        self.held(How::Stolen)
    }

    fn try_fast(&self) -> bool {
        self.fast().is_ok()
    }

    fn release(&self) {
        // There may be readers beside the writer. Release pairs with the Acquire of whoever comes next.
        self.word.fetch_and(!WRITER, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawBustedRw: word: U32, writers: U32, looks: U32);
