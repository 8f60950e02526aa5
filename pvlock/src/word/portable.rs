//! The lock word on any 32-bit atomic: sub-word accesses become read-modify-writes of the whole.
#![allow(unsafe_code)] // That parts are kept apart is for the implementer to promise.

use super::{Field, LockWord};
use crate::atomic::{Atomic, ConstZero, Watch};
use core::sync::atomic::{AtomicU32, Ordering};

/// A lock word made of one 32-bit atomic `A`.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct PortableWord<A>(A);

/// The strongest failure ordering that goes with a read-modify-write of ordering `order`.
const fn load_part(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

/// What is done to a part of a lock word that is one atomic: by default by read-modify-writes of the whole.
///
/// # Safety
/// As [`LockWord`] says of parts: the others stay as they are.
pub unsafe trait Parts: Atomic<u32> {
    /// Exchanges a part. Retries while other parts of the word change under it.
    fn swap_part(&self, field: Field, value: u32, order: Ordering) -> u32 {
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            let new = field.put(seen, value);
            match self.compare_exchange(seen, new, order, load_part(order)) {
                Ok(old) => return field.get(old),
                Err(now) => seen = now,
            }
        }
    }

    /// Stores a part.
    fn store_part(&self, field: Field, value: u32, order: Ordering) {
        if value == 0 {
            // One read-modify-write that cannot fail: the unlock path of every byte-released lock.
            self.fetch_and(field.others(), order);
        } else {
            self.swap_part(field, value, order);
        }
    }

    /// Compare-and-exchange of a part. Likewise; fails only if the part itself differs.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn compare_exchange_part(
        &self,
        field: Field,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let mut seen = self.load(failure);
        loop {
            let found = field.get(seen);
            if found != current {
                return Err(found);
            }
            match self.compare_exchange(seen, field.put(seen, new), success, failure) {
                Ok(_) => return Ok(found),
                Err(now) => seen = now,
            }
        }
    }
}

// SAFETY: by default it is so.
unsafe impl Parts for AtomicU32 {}

impl<A: Atomic<u32>> Watch for PortableWord<A> {
    type Value = u32;

    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }
}

impl<A: ConstZero> ConstZero for PortableWord<A> {
    const ZERO: Self = Self(A::ZERO);
}

// SAFETY: each method is one successful read-modify-write of the whole word, which is atomic; of a part it
// writes back the others as it has found them.
unsafe impl<A: Parts> LockWord for PortableWord<A> {
    fn new(value: u32) -> Self {
        Self(A::new(value))
    }

    #[inline(always)]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }

    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }

    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32 {
        self.0.fetch_or(1 << bit, order)
    }

    #[inline(always)]
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32 {
        self.0.swap_part(field, value, order)
    }

    #[inline(always)]
    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        self.0.store_part(field, value, order);
    }

    #[inline(always)]
    fn compare_exchange_field(
        &self,
        field: Field,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0
            .compare_exchange_part(field, current, new, success, failure)
    }
}
