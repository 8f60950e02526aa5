//! A lock's operations as function pointers, for callers that learn the lock only at run time: see
//! [`LockKind::operations`](crate::LockKind::operations).
#![allow(unsafe_code)] // Behind the pointers the lock has no type.

use crate::RawLock;

/// What can be done with a lock of one type that its caller does not know. C's calling convention,
/// so that hand-written code can call too.
///
/// # Safety
/// The pointer that `init` is given is valid for writing such a lock, and aligned for it. The others
/// are given a pointer to a lock that `init` has made.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// Makes an unlocked lock.
    pub init: unsafe extern "C-unwind" fn(*mut ()),
    /// [`RawLock::lock`].
    pub lock: unsafe extern "C-unwind" fn(*const ()),
    /// [`RawLock::try_lock`].
    pub try_lock: unsafe extern "C-unwind" fn(*const ()) -> bool,
    /// [`RawLock::unlock`].
    pub unlock: unsafe extern "C-unwind" fn(*const ()),
    /// [`RawLock::is_locked`].
    pub is_locked: unsafe extern "C-unwind" fn(*const ()) -> bool,
}

impl Operations {
    /// Those of `L`.
    pub const fn of<L: RawLock>() -> Self {
        Self {
            init: init::<L>,
            lock: lock::<L>,
            try_lock: try_lock::<L>,
            unlock: unlock::<L>,
            is_locked: is_locked::<L>,
        }
    }
}

unsafe extern "C-unwind" fn init<L: RawLock>(to: *mut ()) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<L>().write(L::new()) };
}

unsafe extern "C-unwind" fn lock<L: RawLock>(lock: *const ()) {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.lock();
}

unsafe extern "C-unwind" fn try_lock<L: RawLock>(lock: *const ()) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.try_lock()
}

unsafe extern "C-unwind" fn unlock<L: RawLock>(lock: *const ()) {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.unlock();
}

unsafe extern "C-unwind" fn is_locked<L: RawLock>(lock: *const ()) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*lock.cast::<L>() }.is_locked()
}
