//! `virt-tas`: test-and-set on the word of a [`crate::qspinlock`].
//!
//! | bits | field  | meaning           |
//! |------|--------|-------------------|
//! | 0-7  | locked | 0 free, 1 held    |
//! | 8-31 |        | 0: nobody queues  |
//!
//! ```text
//! (0,0,0) --lock--> (0,0,1) --unlock--> (0,0,0)        (tail, pending, locked)
//! ```
//!
//! What a Linux guest on x86 gets whose hypervisor lets no vCPU halt for a lock: it cannot have the
//! paravirtual slow path, and a queue would be at the mercy of every waiter. So the lock keeps the
//! word, the fast path and the release of the native queued spinlock, and waiters retry instead of
//! queueing. As with `tas`, only a descheduled holder delays others, and a waiter may starve. Unlike
//! `tas`, the release stores a single byte.
//!
//! # Orderings
//! | step                 | ordering | pairs with                             |
//! |----------------------|----------|----------------------------------------|
//! | exchange of the word | Acquire  | Release of the locked byte in unlock    |
//! | wait for a free word | Relaxed  | nothing: the exchange acquires         |
//!
//! Linux's exchange here is a full barrier, as every locked instruction of x86 is. No more than
//! Acquire is needed.

use crate::Platform;
use crate::atomic::{Watch, zeroed};
use crate::qspinlock::{LOCKED_LANE, UNLOCKED, WORD_LOCKED};
use crate::trace::How;
use crate::traced::{Held, Traced};
use crate::word::LockWord;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Test-and-set on a queued spinlock's word; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawVirtTas<P: Platform> {
    word: P::LockWord,
}

const FREE: u32 = 0;

impl<P: Platform> Traced for RawVirtTas<P> {
    type Platform = P;
    type Seen = ();

    /// (0,0,0) -> (0,0,1)
    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release store in release().
        let claimed = self
            .word
            .compare_exchange(FREE, WORD_LOCKED, Acquire, Relaxed);
        claimed.map(drop).map_err(drop)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        crate::tas::retry::<P, _>(&self.word, || self.fast().is_ok());
        self.held(How::Stolen)
    }

    #[inline(always)]
    fn release(&self) {
        // (0,0,1) -> (0,0,0). Release pairs with the Acquire exchange in fast().
        self.word.store_u8(LOCKED_LANE, UNLOCKED, Release);
    }

    fn in_use(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

zeroed!(RawVirtTas: word: LockWord);
