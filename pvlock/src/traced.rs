//! What the author of a lock writes, around which its [trace](crate::trace) is put.
//!
//! A lock that implements [`Traced`] is a [`RawLock`], one that implements [`TracedRw`] a [`RawRwLock`].
//! The beginning of an acquisition, the fast path's success and the release are reported here. The slow
//! path knows best when it has the lock, and what it has to do after that, so it reports that itself, by
//! [`held`](Traced::held): nothing else makes the [`Held`] that it must return.

use crate::Platform;
use crate::raw::{Downgrade, KillableRw, RawLock, RawRwLock};
use crate::trace::{How, TraceEvent};

/// The lock has been acquired, and that has been reported.
#[derive(Debug)]
#[must_use = "a slow path returns it"]
pub struct Held(());

/// An acquisition: at once, or else by waiting, which may end without the lock where `H` can say so.
#[inline(always)]
fn acquire<P: Platform, L, Seen, H: From<Held>>(
    lock: &L,
    fast: impl FnOnce(&L) -> Result<(), Seen>,
    slow: impl FnOnce(&L, Seen) -> H,
) -> H {
    P::trace(lock, TraceEvent::Start);
    match fast(lock) {
        Ok(()) => report::<P, L>(lock, How::Fast).into(),
        Err(seen) => slow(lock, seen),
    }
}

/// A try, which reports nothing unless it succeeds.
#[inline(always)]
fn attempt<P: Platform, L>(lock: &L, claimed: bool) -> bool {
    if claimed {
        let _: Held = report::<P, L>(lock, How::Fast);
    }
    claimed
}

#[inline(always)]
fn report<P: Platform, L>(lock: &L, how: How) -> Held {
    P::trace(lock, TraceEvent::Acquired(how));
    Held(())
}

/// A mutual-exclusion lock as its author writes it: [`RawLock`] without the trace. By default it is free.
pub trait Traced: Default + Send + Sync + 'static {
    /// The machine.
    type Platform: Platform;
    /// What a fast path that fails leaves to the slow one.
    type Seen;

    /// Acquires the lock if that needs no waiting.
    ///
    /// # Errors
    /// What has been seen instead, and [`slow`](Self::slow) must know.
    fn fast(&self) -> Result<(), Self::Seen>;

    /// Acquires the lock, waiting as long as it takes.
    fn slow(&self, seen: Self::Seen) -> Held;

    /// Acquires the lock if that needs no waiting, without a commitment to wait otherwise.
    #[inline(always)]
    fn try_fast(&self) -> bool {
        !self.in_use() && self.fast().is_ok()
    }

    /// Releases the lock, which this CPU holds.
    fn release(&self);

    /// Whether somebody holds or waits for the lock.
    fn in_use(&self) -> bool;

    /// Called by the slow path with the lock held.
    #[inline(always)]
    fn held(&self, how: How) -> Held {
        report::<Self::Platform, Self>(self, how)
    }
}

impl<L: Traced> RawLock for L {
    fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    fn lock(&self) {
        let _: Held = acquire::<L::Platform, _, _, _>(self, L::fast, L::slow);
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        attempt::<L::Platform, L>(self, self.try_fast())
    }

    #[inline(always)]
    fn unlock(&self) {
        L::Platform::trace(self, TraceEvent::Release);
        self.release();
    }

    fn is_locked(&self) -> bool {
        self.in_use()
    }
}

/// A reader-writer lock as its author writes it: [`RawRwLock`] without the trace, in which readers do not
/// appear. By default it is free.
pub trait TracedRw: Default + Send + Sync + 'static {
    /// The machine.
    type Platform: Platform;
    /// What the fast path of a writer that fails leaves to the slow one.
    type Seen;

    /// Acquires the lock for reading, waiting as long as it takes.
    fn shared(&self);

    /// Acquires the lock for reading if that needs no waiting.
    fn try_shared(&self) -> bool;

    /// Releases the lock, which this CPU holds for reading.
    fn release_shared(&self);

    /// Acquires the lock for writing if that needs no waiting.
    ///
    /// # Errors
    /// What has been seen instead, and [`slow`](Self::slow) must know.
    fn fast(&self) -> Result<(), Self::Seen>;

    /// Acquires the lock for writing, waiting as long as it takes.
    fn slow(&self, seen: Self::Seen) -> Held;

    /// Acquires the lock for writing if that needs no waiting, without a commitment to wait otherwise.
    #[inline(always)]
    fn try_fast(&self) -> bool {
        !self.in_use() && self.fast().is_ok()
    }

    /// Releases the lock, which this CPU holds for writing.
    fn release(&self);

    /// Whether somebody holds or waits for the lock.
    fn in_use(&self) -> bool;

    /// Called by the slow path with the lock held for writing.
    #[inline(always)]
    fn held(&self, how: How) -> Held {
        report::<Self::Platform, Self>(self, how)
    }
}

impl<L: TracedRw> RawRwLock for L {
    fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    fn read(&self) {
        self.shared();
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        self.try_shared()
    }

    #[inline(always)]
    fn read_unlock(&self) {
        self.release_shared();
    }

    #[inline(always)]
    fn write(&self) {
        let _: Held = acquire::<L::Platform, _, _, _>(self, L::fast, L::slow);
    }

    #[inline(always)]
    fn try_write(&self) -> bool {
        attempt::<L::Platform, L>(self, self.try_fast())
    }

    #[inline(always)]
    fn write_unlock(&self) {
        L::Platform::trace(self, TraceEvent::Release);
        self.release();
    }

    fn is_locked(&self) -> bool {
        self.in_use()
    }
}

/// A reader-writer semaphore as its author writes it: [`Downgrade`] and [`KillableRw`] without the trace.
pub trait TracedSem: TracedRw {
    /// As [`Downgrade::downgrade`].
    fn become_reader(&self);

    /// As [`KillableRw::read_killable`].
    fn shared_killable(&self) -> bool;

    /// As [`slow`](TracedRw::slow); `None` if the task was killed before it had the lock.
    fn slow_killable(&self, seen: Self::Seen) -> Option<Held>;
}

impl<L: TracedSem> Downgrade for L {
    fn downgrade(&self) {
        L::Platform::trace(self, TraceEvent::Release);
        self.become_reader();
    }
}

impl<L: TracedSem> KillableRw for L {
    fn read_killable(&self) -> bool {
        self.shared_killable()
    }

    fn write_killable(&self) -> bool {
        acquire::<L::Platform, _, _, Option<Held>>(self, L::fast, L::slow_killable).is_some()
    }
}
