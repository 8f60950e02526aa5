//! `tas`: test-and-test-and-set.
//!
//! | word | meaning |
//! |------|---------|
//! | 0    | free    |
//! | 1    | held    |
//!
//! No queue: whoever sees the free word first wins, so a descheduled waiter delays nobody and may
//! itself wait for ever. Only holder preemption hurts.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::registry::low;
use crate::trace::How;
use crate::traced::{Held, Traced};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The test-and-test-and-set lock; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawTas<P: Platform> {
    word: P::U32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;

/// An acquisition that has to wait: waits for the word to be free and tries `claim`, until that succeeds.
pub(crate) fn retry<P: Platform, W: Watch<Value = u32>>(word: &W, claim: impl Fn() -> bool) {
    P::count(LockEvent::Contended, 1);
    loop {
        // Relaxed: the exchange in `claim` is the acquisition.
        P::spin_until(word, Relaxed, |word| word == FREE);
        if claim() {
            return;
        }
    }
}

impl<P: Platform> Traced for RawTas<P> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release store in release().
        let claimed = self.word.compare_exchange(FREE, HELD, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        retry::<P, _>(&self.word, || self.fast().is_ok());
        self.held(How::Stolen)
    }

    #[inline(always)]
    fn try_fast(&self) -> bool {
        self.fast().is_ok()
    }

    #[inline(always)]
    fn release(&self) {
        // Release pairs with the Acquire exchange in fast().
        self.word.store(FREE, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawTas: word: U32);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if low(state) == FREE { "free" } else { "held" })
}
