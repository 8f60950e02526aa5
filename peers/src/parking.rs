//! The crate `parking_lot`: `RawMutex` and `RawRwLock`, which its own guards use.
#![allow(unsafe_code)] // Released without a guard.

use crate::{Exclude, Share};
use parking_lot::lock_api::{RawMutex as _, RawRwLock as _};
use parking_lot::{RawMutex, RawRwLock};

/// `parking_lot::Mutex`.
pub struct Mutex(RawMutex);

impl Default for Mutex {
    fn default() -> Self {
        Self(RawMutex::INIT)
    }
}

impl Exclude for Mutex {
    #[inline(always)]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() };
    }
}

/// `parking_lot::RwLock`.
pub struct RwLock(RawRwLock);

impl Default for RwLock {
    fn default() -> Self {
        Self(RawRwLock::INIT)
    }
}

impl Exclude for RwLock {
    #[inline(always)]
    fn lock(&self) {
        self.0.lock_exclusive();
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_lock_exclusive()
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller holds the lock for writing.
        unsafe { self.0.unlock_exclusive() };
    }
}

impl Share for RwLock {
    #[inline(always)]
    fn read(&self) {
        self.0.lock_shared();
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        self.0.try_lock_shared()
    }

    #[inline(always)]
    fn read_unlock(&self) {
        // SAFETY: the caller holds the lock for reading.
        unsafe { self.0.unlock_shared() };
    }
}
