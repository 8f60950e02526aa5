//! `tas`: test-and-test-and-set.
//!
//! | word | meaning |
//! |------|---------|
//! | 0    | free    |
//! | 1    | held    |
//!
//! No queue: whoever sees the free word first wins, so a descheduled waiter delays nobody and may
//! itself wait for ever. Only holder preemption hurts.

use crate::atomic::{Atomic, ConstZero, Watch};
use crate::event::LockEvent;
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::{Platform, RawLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The test-and-test-and-set lock; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawTas<P: Platform> {
    word: P::U32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;

impl<P: Platform> RawTas<P> {
    #[cold]
    #[inline(never)]
    fn lock_slow(&self) {
        P::count(LockEvent::Contended, 1);
        loop {
            // Relaxed: the exchange below is the acquisition.
            P::spin_until(&self.word, Relaxed, |word| word == FREE);
            if self.claim() {
                P::trace(self, TraceEvent::Acquired(How::Stolen));
                return;
            }
        }
    }

    #[inline(always)]
    fn claim(&self) -> bool {
        // Acquire pairs with the Release store in unlock().
        self.word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
    }
}

impl<P: Platform> RawLock for RawTas<P> {
    fn new() -> Self {
        Self {
            word: P::U32::new(FREE),
        }
    }

    #[inline(always)]
    fn lock(&self) {
        P::trace(self, TraceEvent::Start);
        if self.claim() {
            P::trace(self, TraceEvent::Acquired(How::Fast));
        } else {
            self.lock_slow();
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        let claimed = self.claim();
        if claimed {
            P::trace(self, TraceEvent::Acquired(How::Fast));
        }
        claimed
    }

    #[inline(always)]
    fn unlock(&self) {
        P::trace(self, TraceEvent::Release);
        // Release pairs with the Acquire exchange in claim().
        self.word.store(FREE, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

impl<P: Platform> ConstZero for RawTas<P>
where
    P::U32: ConstZero,
{
    const ZERO: Self = Self { word: P::U32::ZERO };
}

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if low(state) == FREE { "free" } else { "held" })
}
