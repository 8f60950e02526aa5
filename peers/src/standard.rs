//! Rust's standard library: `std::sync::Mutex` and `RwLock`.
#![allow(unsafe_code)] // Guards are kept until the lock is released.

use crate::{Exclude, Share};
use std::cell::{RefCell, UnsafeCell};
use std::mem::{MaybeUninit, transmute};
use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// A guard in the lock that it holds: std has no other way to release. Whoever holds the lock stores it, and
/// takes it out again; one word or two in the lock's own line.
struct Keeper<G>(UnsafeCell<MaybeUninit<G>>);

// SAFETY: only the thread that holds the lock touches the guard, and one thread hands it to the next by
// releasing and acquiring the lock.
unsafe impl<G> Sync for Keeper<G> {}
// SAFETY: as above; a lock that is moved is not held, so there is no guard.
unsafe impl<G> Send for Keeper<G> {}

impl<G> Default for Keeper<G> {
    fn default() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }
}

impl<G> Keeper<G> {
    /// # Safety
    /// The caller holds the lock by `guard`.
    #[inline(always)]
    unsafe fn keep(&self, guard: G) {
        // SAFETY: as the caller holds the lock, nobody else is here.
        unsafe { (*self.0.get()).write(guard) };
    }

    /// # Safety
    /// The caller holds the lock, by the guard that it has kept here.
    #[inline(always)]
    unsafe fn release(&self) {
        // SAFETY: kept by this thread, and nobody else is here until the guard is dropped, which comes after
        // it has been taken out.
        drop(unsafe { (*self.0.get()).assume_init_read() });
    }
}

/// `std::sync::Mutex`.
#[derive(Default)]
pub struct Mutex {
    lock: std::sync::Mutex<()>,
    guard: Keeper<MutexGuard<'static, ()>>,
}

impl Mutex {
    #[inline(always)]
    fn keep(&self, guard: MutexGuard<'_, ()>) {
        // SAFETY: a lock that is held stays where it is, and the guard goes before it.
        unsafe {
            self.guard
                .keep(transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(
                    guard,
                ))
        };
    }
}

impl Exclude for Mutex {
    #[inline(always)]
    fn lock(&self) {
        self.keep(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        match self.lock.try_lock() {
            Ok(guard) => self.keep(guard),
            Err(TryLockError::Poisoned(poisoned)) => self.keep(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller holds the lock, by lock() or try_lock().
        unsafe { self.guard.release() };
    }
}

/// `std::sync::RwLock`.
#[derive(Default)]
pub struct RwLock {
    lock: std::sync::RwLock<()>,
    guard: Keeper<RwLockWriteGuard<'static, ()>>,
}

thread_local! {
    /// The guards by which this thread reads, with the addresses of their locks.
    static READING: RefCell<Vec<(usize, RwLockReadGuard<'static, ()>)>> = const { RefCell::new(Vec::new()) };
}

impl RwLock {
    #[inline(always)]
    fn keep(&self, guard: RwLockWriteGuard<'_, ()>) {
        // SAFETY: as of Mutex::keep().
        unsafe {
            self.guard.keep(transmute::<
                RwLockWriteGuard<'_, ()>,
                RwLockWriteGuard<'static, ()>,
            >(guard))
        };
    }

    #[inline(always)]
    fn keep_reader(&self, guard: RwLockReadGuard<'_, ()>) {
        // SAFETY: as of Mutex::keep().
        let guard =
            unsafe { transmute::<RwLockReadGuard<'_, ()>, RwLockReadGuard<'static, ()>>(guard) };
        READING.with_borrow_mut(|reading| reading.push((std::ptr::from_ref(self).addr(), guard)));
    }
}

impl Exclude for RwLock {
    #[inline(always)]
    fn lock(&self) {
        self.keep(self.lock.write().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        match self.lock.try_write() {
            Ok(guard) => self.keep(guard),
            Err(TryLockError::Poisoned(poisoned)) => self.keep(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller holds the lock for writing, by lock() or try_lock().
        unsafe { self.guard.release() };
    }
}

impl Share for RwLock {
    #[inline(always)]
    fn read(&self) {
        self.keep_reader(self.lock.read().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        match self.lock.try_read() {
            Ok(guard) => self.keep_reader(guard),
            Err(TryLockError::Poisoned(poisoned)) => self.keep_reader(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    #[inline(always)]
    fn read_unlock(&self) {
        let this = std::ptr::from_ref(self).addr();
        READING.with_borrow_mut(|reading| {
            let at = reading.iter().rposition(|(lock, _)| *lock == this);
            // Dropped, which releases.
            drop(reading.swap_remove(at.expect("this thread reads")));
        });
    }
}
