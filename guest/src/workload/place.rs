//! Objects in lock slots: locks and what tests need, of types that only the workload knows.
#![allow(unsafe_code)] // A slot is a piece of shared memory.

use abi::{LOCK_BYTES, LockSlot};

/// Puts `object` into `slot`.
pub(super) fn place<T>(slot: &LockSlot, object: T) {
    const { assert!(size_of::<T>() <= LOCK_BYTES && align_of::<T>() <= align_of::<LockSlot>()) };
    // SAFETY: the space is large and aligned enough (above), made of atomics, hence writable through
    // a shared reference, and no other vCPU looks at it before the host ends PREPARE.
    unsafe { slot.lock_bytes().cast::<T>().cast_mut().write(object) };
}

/// The object in `slot`.
#[inline(always)]
pub(super) fn placed<T: Sync>(slot: &LockSlot) -> &T {
    // SAFETY: vCPU 0 has put a `T` there (place(), the same type for the same parameters) before any vCPU
    // left start(), and nothing else is ever put there.
    unsafe { &*slot.lock_bytes().cast::<T>() }
}
