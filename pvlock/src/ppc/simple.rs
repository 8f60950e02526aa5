//! `ppc-spinlock`: test-and-set with the holder's name, whose waiters yield to it.
//!
//! | bits | field  | meaning                     |
//! |------|--------|-----------------------------|
//! | 31   | held   | somebody holds it           |
//! | 0-15 | holder | the holder's CPU            |
//!
//! ```text
//! 0 --lock--> held|cpu --unlock--> 0
//! ```
//!
//! No queue and no order. What sets it apart from `tas` is what waiters do while the holder is
//! descheduled: they offer it their time, so that it runs, and releases, sooner. [`super`] says when.
//!
//! # Orderings
//! | step                 | ordering | pairs with                      |
//! |----------------------|----------|---------------------------------|
//! | exchange of the word | Acquire  | Release store of 0 in unlock     |
//! | wait for a free word | Relaxed  | nothing: the exchange acquires  |
//! | second look before a yield | Relaxed | nothing: a yield to the wrong vCPU is only futile |

use super::{LOOK_TURNS, seems_preempted, yield_to};
use crate::atomic::{Atomic, ConstZero, Watch};
use crate::event::LockEvent;
use crate::registry::low;
use crate::trace::{How, TraceEvent};
use crate::{Platform, RawLock};
use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Test-and-set with the holder's name; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawPpcSpinLock<P: Platform> {
    word: P::U32,
}

const FREE: u32 = 0;
const HELD: u32 = 1 << 31;
const HOLDER_MASK: u32 = 0xffff;

impl<P: Platform> RawPpcSpinLock<P> {
    #[cold]
    #[inline(never)]
    fn lock_slow(&self, mut seen: u32) {
        P::count(LockEvent::Contended, 1);
        // For this holder.
        let mut turns = 0;
        loop {
            if seen == FREE {
                match self.claim() {
                    Ok(()) => break,
                    Err(holder) => seen = holder,
                }
                turns = 0;
            }
            let holder = seen & HOLDER_MASK;
            // It may have released the lock just before it was descheduled, hence the second look.
            if seems_preempted::<P>(holder, turns) && self.word.load(Relaxed) == seen {
                P::count(LockEvent::PpcYieldOwner, 1);
                yield_to::<P, _>(self, holder);
                turns = 0;
            }
            let mut budget = LOOK_TURNS;
            // Relaxed: the exchange in claim() is the acquisition.
            let changed = P::spin_for(&self.word, Relaxed, &mut budget, |word| word != seen);
            match changed {
                Some(word) => {
                    seen = word;
                    turns = 0;
                }
                None => turns += LOOK_TURNS,
            }
        }
        P::trace(self, TraceEvent::Acquired(How::Stolen));
    }

    /// 0 -> held|cpu. Else the word found.
    #[inline(always)]
    fn claim(&self) -> Result<(), u32> {
        // Acquire pairs with the Release store in unlock().
        self.word
            .compare_exchange(FREE, HELD | P::cpu(), Acquire, Relaxed)
            .map(|_| ())
    }
}

impl<P: Platform> RawLock for RawPpcSpinLock<P> {
    fn new() -> Self {
        Self {
            word: P::U32::new(FREE),
        }
    }

    #[inline(always)]
    fn lock(&self) {
        P::trace(self, TraceEvent::Start);
        match self.claim() {
            Ok(()) => P::trace(self, TraceEvent::Acquired(How::Fast)),
            Err(seen) => self.lock_slow(seen),
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        let claimed = self.word.load(Relaxed) == FREE && self.claim().is_ok();
        if claimed {
            P::trace(self, TraceEvent::Acquired(How::Fast));
        }
        claimed
    }

    #[inline(always)]
    fn unlock(&self) {
        P::trace(self, TraceEvent::Release);
        // held|cpu -> 0. Release pairs with the Acquire exchange in claim().
        self.word.store(FREE, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

impl<P: Platform> ConstZero for RawPpcSpinLock<P>
where
    P::U32: ConstZero,
{
    const ZERO: Self = Self { word: P::U32::ZERO };
}

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match low(state) {
        FREE => f.write_str("free"),
        word => write!(f, "held by vCPU {}", word & HOLDER_MASK),
    }
}
