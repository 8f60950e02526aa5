//! What a peer must provide, and how that becomes a lock of ours.

use guest::Machine;
use pvlock::Platform;
use pvlock::trace::How;
use pvlock::traced::{Held, Traced, TracedRw};
use std::marker::PhantomData;

/// A lock of somebody else's, without guards. By default it is free; it is not moved once it is in use.
pub trait Exclude: Default + Send + Sync + 'static {
    /// Acquires the lock, waiting as long as it takes.
    fn lock(&self);

    /// Acquires the lock if that needs no waiting.
    fn try_lock(&self) -> bool;

    /// Releases the lock. Only the thread that holds it calls this.
    fn unlock(&self);
}

/// One that also lets readers share; the methods of [`Exclude`] are those of its write side.
pub trait Share: Exclude {
    /// Acquires the lock for reading, waiting as long as it takes.
    fn read(&self);

    /// Acquires the lock for reading if that needs no waiting.
    fn try_read(&self) -> bool;

    /// Releases the lock. Only a thread that holds it for reading calls this.
    fn read_unlock(&self);
}

/// A peer as a lock of machine `M`.
///
/// It is called as its own users call it. Only where steps are traced, an acquisition is tried first, as
/// nobody else knows whether it had to wait.
#[repr(transparent)]
pub struct Foreign<M, L> {
    lock: L,
    machine: PhantomData<fn() -> M>,
}

impl<M, L: Default> Default for Foreign<M, L> {
    fn default() -> Self {
        Self {
            lock: L::default(),
            machine: PhantomData,
        }
    }
}

impl<M: Machine, L: Exclude> Foreign<M, L> {
    #[inline(always)]
    fn at_once(&self) -> Result<(), ()> {
        if M::INSTRUMENTED {
            return self.lock.try_lock().then_some(()).ok_or(());
        }
        self.lock.lock();
        Ok(())
    }

    /// Nobody asks often: it is tried.
    fn is_in_use(&self) -> bool {
        let free = self.lock.try_lock();
        if free {
            self.lock.unlock();
        }
        !free
    }
}

impl<M: Machine + Platform, L: Exclude> Traced for Foreign<M, L> {
    type Platform = M;
    type Seen = ();

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        self.at_once()
    }

    fn slow(&self, (): ()) -> Held {
        self.lock.lock();
        Traced::held(self, How::Queue)
    }

    #[inline(always)]
    fn try_fast(&self) -> bool {
        self.lock.try_lock()
    }

    #[inline(always)]
    fn release(&self) {
        self.lock.unlock();
    }

    fn in_use(&self) -> bool {
        self.is_in_use()
    }
}

impl<M: Machine + Platform, L: Share> TracedRw for Foreign<M, L> {
    type Platform = M;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        self.lock.read();
    }

    #[inline(always)]
    fn try_shared(&self) -> bool {
        self.lock.try_read()
    }

    #[inline(always)]
    fn release_shared(&self) {
        self.lock.read_unlock();
    }

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        self.at_once()
    }

    fn slow(&self, (): ()) -> Held {
        self.lock.lock();
        TracedRw::held(self, How::Queue)
    }

    #[inline(always)]
    fn try_fast(&self) -> bool {
        self.lock.try_lock()
    }

    #[inline(always)]
    fn release(&self) {
        self.lock.unlock();
    }

    fn in_use(&self) -> bool {
        self.is_in_use()
    }
}
