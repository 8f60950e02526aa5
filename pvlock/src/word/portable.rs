//! The lock word on any 32-bit atomic: sub-word accesses become read-modify-writes of the whole.

use super::{Field, LockWord};
use crate::atomic::{Atomic, ConstZero, Watch};
use core::sync::atomic::Ordering;

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
unsafe impl<A: Atomic<u32>> LockWord for PortableWord<A> {
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

    /// Retries while other parts of the word change under it.
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32 {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let new = field.put(seen, value);
            match self.0.compare_exchange(seen, new, order, load_part(order)) {
                Ok(old) => return field.get(old),
                Err(now) => seen = now,
            }
        }
    }

    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        if value == 0 {
            // One read-modify-write that cannot fail: the unlock path of every byte-released lock.
            self.0.fetch_and(field.others(), order);
        } else {
            self.swap_field(field, value, order);
        }
    }

    /// Likewise; fails only if the field itself differs.
    fn compare_exchange_field(
        &self,
        field: Field,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let mut seen = self.0.load(failure);
        loop {
            let found = field.get(seen);
            if found != current {
                return Err(found);
            }
            match self
                .0
                .compare_exchange(seen, field.put(seen, new), success, failure)
            {
                Ok(_) => return Ok(found),
                Err(now) => seen = now,
            }
        }
    }
}
