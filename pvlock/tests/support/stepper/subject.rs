//! Locks with and without a read side, as one thing to be driven.

use pvlock::{RawLock, RawRwLock};

/// What a program can do to a lock.
pub(super) trait Subject: 'static {
    fn new() -> Self;
    fn lock(&self);
    fn try_lock(&self) -> bool;
    fn unlock(&self);
    fn read(&self) {
        panic!("no read side")
    }
    fn try_read(&self) -> bool {
        panic!("no read side")
    }
    fn read_unlock(&self) {
        panic!("no read side")
    }
    fn is_locked(&self) -> bool;
}

/// A lock without a read side; nothing but the lock in memory.
#[repr(transparent)]
pub(super) struct Exclusive<L>(pub(super) L);

impl<L: RawLock> Subject for Exclusive<L> {
    fn new() -> Self {
        Self(L::new())
    }
    fn lock(&self) {
        self.0.lock();
    }
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }
    fn unlock(&self) {
        self.0.unlock();
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// A reader-writer lock; nothing but the lock in memory.
#[repr(transparent)]
pub(super) struct Shared<L>(pub(super) L);

impl<L: RawRwLock> Subject for Shared<L> {
    fn new() -> Self {
        Self(L::new())
    }
    fn lock(&self) {
        self.0.write();
    }
    fn try_lock(&self) -> bool {
        self.0.try_write()
    }
    fn unlock(&self) {
        self.0.write_unlock();
    }
    fn read(&self) {
        self.0.read();
    }
    fn try_read(&self) -> bool {
        self.0.try_read()
    }
    fn read_unlock(&self) {
        self.0.read_unlock();
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
