//! `busted-starve`: a test-and-set lock that never gives itself to CPU 0 while another CPU wants it.
//!
//! It excludes, and loses nothing: only a look at who gets it, or at the longest wait, can catch it, and
//! must call it starvation, not failure. CPU 0 gets the lock once the others have stopped, so that a run
//! can end.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::trace::How;
use crate::traced::{Held, Traced};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many times in a row CPU 0 must find that nobody else has come. Long enough to outlast what the
/// others do between two acquisitions.
const QUIET_LOOKS: u32 = 1 << 12;

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The lock that starves CPU 0.
#[repr(C)]
pub struct RawBustedStarve<P: Platform> {
    word: P::U32,
    /// Acquisitions begun by other CPUs, and completed by them: equal if none of them waits.
    wanted: P::U32,
    got: P::U32,
}

impl<P: Platform> RawBustedStarve<P> {
    fn claim(&self) -> bool {
        // Acquire pairs with the Release store in release().
        self.word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }

    /// Waits until for a while nobody else has come. False if nobody has come at all.
    fn let_others_go_first(&self) -> bool {
        let mut wanted = self.wanted.load(Relaxed);
        let mut quiet = 0;
        let mut starved = false;
        while quiet < QUIET_LOOKS {
            P::relax();
            let now = self.wanted.load(Relaxed);
            let waits = self.got.load(Relaxed) != now;
            if waits || now != wanted || self.word.load(Relaxed) == HELD {
                quiet = 0;
                starved = true;
            } else {
                quiet += 1;
            }
            wanted = now;
        }
        starved
    }
}

impl<P: Platform> Traced for RawBustedStarve<P> {
    type Platform = P;
    type Seen = ();

    /// Nobody gets it at once.
    fn fast(&self) -> Result<(), ()> {
        Err(())
    }

    fn slow(&self, (): ()) -> Held {
        let starves = P::cpu() == 0;
        let mut waits = if starves {
            // The mistake.
            self.let_others_go_first()
        } else {
            self.wanted.fetch_add(1, Relaxed);
            false
        };
        while !self.claim() {
            waits = true;
            P::spin_until(&self.word, Relaxed, |word| word == FREE);
        }
        if !starves {
            self.got.fetch_add(1, Relaxed);
        }
        P::count(LockEvent::Contended, waits.into());
        self.held(if waits { How::Stolen } else { How::Fast })
    }

    fn try_fast(&self) -> bool {
        P::cpu() != 0 && self.claim()
    }

    fn release(&self) {
        // Release pairs with the Acquire in claim().
        self.word.store(FREE, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawBustedStarve: word: U32, wanted: U32, got: U32);
