//! `ticket`: first come, first served by number.
//!
//! | bits  | field   | meaning                       |
//! |-------|---------|-------------------------------|
//! | 0-15  | serving | the ticket that may hold      |
//! | 16-31 | next    | the ticket the next comer gets |
//!
//! Free when both are equal. Source: the ticket lock of Mellor-Crummey and Scott, "Algorithms for
//! scalable synchronization on shared-memory multiprocessors" (TOCS 1991). Strictly fair, hence at
//! the mercy of every waiter: if the one whose turn it is has been descheduled, all wait for it.
//!
//! With 2^16 tickets out the two would be equal, and a held lock look free. So many waiters there are not:
//! one for each context of each CPU at most (and a lock that was forgotten while held gives out no more
//! than those). A ticket that is [`MAX_WAITERS`] or more behind is given back nevertheless, and its taker
//! panics: half of the numbers is left to those that have taken one and not yet looked.

use crate::Platform;
use crate::atomic::{Watch, zeroed};
use crate::event::LockEvent;
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::traced::{Held, Traced};
use crate::word::LockWord;
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The ticket lock; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawTicket<P: Platform> {
    word: P::LockWord,
}

/// More are refused.
pub const MAX_WAITERS: u16 = 1 << 15;

const NEXT_SHIFT: u32 = 16;
const ONE_TICKET: u32 = 1 << NEXT_SHIFT;
/// The half-word lane of `serving`.
const SERVING: usize = 0;

const fn serving(word: u32) -> u16 {
    (word & 0xffff) as u16
}

const fn next(word: u32) -> u16 {
    (word >> NEXT_SHIFT) as u16
}

impl<P: Platform> RawTicket<P> {
    /// Gives back the ticket `mine`. False if it was served meanwhile.
    #[cold]
    fn give_back(&self, mine: u16) -> bool {
        loop {
            // Acquire, both, as in slow().
            let word = self.word.load(Acquire);
            if serving(word) == mine {
                return false;
            }
            // (mine+1, s) -> (mine, s). Those behind us give back first.
            let last = next(word) == mine.wrapping_add(1);
            let less = word.wrapping_sub(ONE_TICKET);
            if last
                && self
                    .word
                    .compare_exchange(word, less, Acquire, Relaxed)
                    .is_ok()
            {
                return true;
            }
            P::relax();
        }
    }
}

impl<P: Platform> Traced for RawTicket<P> {
    type Platform = P;
    /// The word that our ticket has been taken from.
    type Seen = u32;

    #[inline(always)]
    fn fast(&self) -> Result<(), u32> {
        // Acquire pairs with the Release store in release(), for when the ticket is served at once.
        let word = self.word.fetch_add(ONE_TICKET, Acquire);
        if next(word) == serving(word) {
            Ok(())
        } else {
            Err(word)
        }
    }

    /// # Panics
    /// If more wait than can be.
    #[cold]
    #[inline(never)]
    fn slow(&self, word: u32) -> Held {
        let mine = next(word);
        if mine.wrapping_sub(serving(word)) >= MAX_WAITERS && self.give_back(mine) {
            panic!("ticket: {MAX_WAITERS} waiters, more than there can be CPUs");
        }
        P::count(LockEvent::Contended, 1);
        P::trace(self, TraceEvent::QueuedWithTicket(mine));
        // Acquire pairs with the Release store in release().
        P::spin_until(&self.word, Acquire, |word| serving(word) == mine);
        self.held(How::Queue)
    }

    fn try_fast(&self) -> bool {
        let word = self.word.load(Relaxed);
        next(word) == serving(word)
            && self
                .word
                // Acquire pairs with the Release store in release().
                .compare_exchange(word, word.wrapping_add(ONE_TICKET), Acquire, Relaxed)
                .is_ok()
    }

    #[inline(always)]
    fn release(&self) {
        // Only the holder writes `serving`, so load and store need not be one step.
        let mine = serving(self.word.load(Relaxed));
        // Release pairs with the Acquire loads of the next holder.
        self.word.store_u16(SERVING, mine.wrapping_add(1), Release);
    }

    fn in_use(&self) -> bool {
        let word = self.word.load(Relaxed);
        next(word) != serving(word)
    }
}

zeroed!(RawTicket: word: LockWord);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let word = low(state);
    let (next, serving) = (next(word), serving(word));
    match next.wrapping_sub(serving) {
        0 => f.write_str("free")?,
        n => write!(f, "held, {} waiting", n - 1)?,
    }
    write!(f, " (next {next}, serving {serving})")
}
