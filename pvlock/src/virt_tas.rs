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

use crate::atomic::{ConstZero, Watch};
use crate::event::LockEvent;
use crate::qspinlock::{LOCKED_LANE, UNLOCKED, WORD_LOCKED};
use crate::trace::{How, TraceEvent};
use crate::word::LockWord;
use crate::{Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Test-and-set on a queued spinlock's word; see the [module](self) documentation.
#[repr(transparent)]
pub struct RawVirtTas<P: Platform> {
    word: P::LockWord,
}

const FREE: u32 = 0;

impl<P: Platform> RawVirtTas<P> {
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

    /// (0,0,0) -> (0,0,1)
    #[inline(always)]
    fn claim(&self) -> bool {
        // Acquire pairs with the Release store in unlock().
        self.word
            .compare_exchange(FREE, WORD_LOCKED, Acquire, Relaxed)
            .is_ok()
    }
}

impl<P: Platform> RawLock for RawVirtTas<P> {
    fn new() -> Self {
        Self {
            word: P::LockWord::new(FREE),
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
        let claimed = self.word.load(Relaxed) == FREE && self.claim();
        if claimed {
            P::trace(self, TraceEvent::Acquired(How::Fast));
        }
        claimed
    }

    #[inline(always)]
    fn unlock(&self) {
        P::trace(self, TraceEvent::Release);
        // (0,0,1) -> (0,0,0). Release pairs with the Acquire exchange in claim().
        self.word.store_u8(LOCKED_LANE, UNLOCKED, Release);
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

impl<P: Platform> ConstZero for RawVirtTas<P>
where
    P::LockWord: ConstZero,
{
    const ZERO: Self = Self {
        word: P::LockWord::ZERO,
    };
}
