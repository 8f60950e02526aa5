//! `rwlock`: the unfair reader-writer spinlock.
//!
//! | bits | field   | meaning                                   |
//! |------|---------|-------------------------------------------|
//! | 0-30 | readers | how many hold it, [`MAX_READERS`] at most |
//! | 31   | writer  | a writer holds it                         |
//!
//! ```text
//!     0 --read--> 1 --read--> 2 ...      readers come as long as no writer holds it
//!     0 --write-> writer                 a writer needs a moment without any reader
//! ```
//!
//! A waiting writer leaves no sign of itself, so readers that follow each other closely enough keep
//! it out for ever: it starves. (This is what 64-bit ARM Linux used until 2017; the queued
//! reader-writer lock replaced it.)

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::qrwlock::too_many_readers;
use crate::registry::low;
use crate::tas::retry;
use crate::trace::How;
use crate::traced::{Held, TracedRw};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The unfair reader-writer lock; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawUnfairRwLock<P: Platform> {
    word: P::U32,
}

pub(crate) const FREE: u32 = 0;
pub(crate) const READER: u32 = 1;
pub(crate) const WRITER: u32 = 1 << 31;
/// With one more the word would look like a writer's. Then [`RawRwLock::read`](crate::RawRwLock::read) panics and
/// [`RawRwLock::try_read`](crate::RawRwLock::try_read) fails: only safe code that forgets guards can make so many.
pub const MAX_READERS: u32 = WRITER - 1;

impl<P: Platform> RawUnfairRwLock<P> {
    /// # Panics
    /// If there are as many readers as can be.
    #[cold]
    #[inline(never)]
    fn read_slow(&self) {
        P::count(LockEvent::Contended, 1);
        loop {
            // Relaxed: the exchange in claim_read() is the acquisition.
            let word = P::spin_until(&self.word, Relaxed, |word| word & WRITER == 0);
            if word == MAX_READERS {
                too_many_readers("rwlock");
            }
            if claim_read(&self.word) {
                return;
            }
        }
    }
}

/// `n` -> `n + 1`, trying again as often as other readers come and go meanwhile.
#[inline(always)]
pub(crate) fn claim_read<A: Atomic<u32>>(lock: &A) -> bool {
    let mut word = lock.load(Relaxed);
    // Neither a writer, nor as many readers as can be: one comparison.
    while word < MAX_READERS {
        // Acquire pairs with the Release store in release().
        match lock.compare_exchange(word, word + READER, Acquire, Relaxed) {
            Ok(_) => return true,
            Err(found) => word = found,
        }
    }
    false
}

impl<P: Platform> TracedRw for RawUnfairRwLock<P> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        if !claim_read(&self.word) {
            self.read_slow();
        }
    }

    #[inline(always)]
    fn try_shared(&self) -> bool {
        claim_read(&self.word)
    }

    #[inline(always)]
    fn release_shared(&self) {
        // Release pairs with the Acquire of the writer that finds no reader left.
        self.word.fetch_add(READER.wrapping_neg(), Release);
    }

    /// `0` -> writer.
    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release in both unlocks. (A reader's release is a read-modify-write,
        // so those of all readers before the last are part of the same release sequence.)
        let claimed = self.word.compare_exchange(FREE, WRITER, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        retry::<P, _>(&self.word, || self.fast().is_ok());
        self.held(How::Stolen)
    }

    #[inline(always)]
    fn release(&self) {
        // Release pairs with the Acquire of whoever comes next, reader or writer.
        self.word.store(FREE, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawUnfairRwLock: word: U32);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match low(state) {
        FREE => f.write_str("free"),
        WRITER => f.write_str("write-held"),
        word if word & WRITER == 0 => write!(f, "read-held by {word}"),
        word => write!(f, "write-held, and read-held by {}", word ^ WRITER),
    }
}
