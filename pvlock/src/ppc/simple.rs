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
use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::registry::low;
use crate::trace::How;
use crate::traced::{Held, Traced};
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

impl<P: Platform> Traced for RawPpcSpinLock<P> {
    type Platform = P;
    /// The word.
    type Seen = u32;

    /// 0 -> held|cpu. Else the word found.
    #[inline(always)]
    fn fast(&self) -> Result<(), u32> {
        // Acquire pairs with the Release store in release().
        let held = HELD | P::cpu();
        let claimed = self.word.compare_exchange(FREE, held, Acquire, Relaxed);
        claimed.map(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, mut seen: u32) -> Held {
        P::count(LockEvent::Contended, 1);
        // For this holder.
        let mut turns = 0;
        loop {
            if seen == FREE {
                match self.fast() {
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
            // Relaxed: the exchange in fast() is the acquisition.
            let changed = P::spin_for(&self.word, Relaxed, &mut budget, |word| word != seen);
            match changed {
                Some(word) => {
                    seen = word;
                    turns = 0;
                }
                None => turns += LOOK_TURNS,
            }
        }
        self.held(How::Stolen)
    }

    #[inline(always)]
    fn release(&self) {
        // held|cpu -> 0. Release pairs with the Acquire exchange in fast().
        self.word.store(FREE, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawPpcSpinLock: word: U32);

pub(crate) fn describe(state: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match low(state) {
        FREE => f.write_str("free"),
        word => write!(f, "held by vCPU {}", word & HOLDER_MASK),
    }
}
