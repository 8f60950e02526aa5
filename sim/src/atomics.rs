//! Atomics of the simulated machine: native in layout, so that what shares a line really does, and charged
//! for.
//!
//! Programs take turns on one thread, so a value is read and written by plain (relaxed) accesses, and
//! every order is sequentially consistent. Bugs of memory order are not found here; the model checkers
//! are for that.

use crate::engine::Use;
use crate::executing::access;
use pvlock::atomic::{Atomic, ConstZero, Watch};
use pvlock::word::{Field, Parts};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const RELAXED: Ordering = Ordering::Relaxed;

macro_rules! atomic {
    ($(#[$doc:meta])+ $name:ident, $native:ty, $value:ty) => {
        $(#[$doc])+
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name($native);

        impl $name {
            #[inline(always)]
            fn used(&self, how: Use) -> &$native {
                access(ptr::from_ref(self).addr(), how);
                &self.0
            }

            #[inline(always)]
            fn modify(&self, new: impl FnOnce($value) -> $value) -> $value {
                let cell = self.used(Use::Modify);
                let old = cell.load(RELAXED);
                cell.store(new(old), RELAXED);
                old
            }
        }

        impl Watch for $name {
            type Value = $value;

            #[inline(always)]
            fn load(&self, _order: Ordering) -> $value {
                self.used(Use::Load).load(RELAXED)
            }
        }

        #[allow(unsafe_code)] // For the promise below.
        // SAFETY: programs take turns on one thread, and none is suspended between the load and the store of
        // `modify`: each method is one step, in one order for all.
        unsafe impl Atomic<$value> for $name {
            fn new(value: $value) -> Self {
                Self(<$native>::new(value))
            }

            #[inline(always)]
            fn store(&self, value: $value, _order: Ordering) {
                self.used(Use::Store).store(value, RELAXED);
            }

            #[inline(always)]
            fn swap(&self, value: $value, _order: Ordering) -> $value {
                self.modify(|_| value)
            }

            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                let old = self.modify(|old| if old == current { new } else { old });
                if old == current { Ok(old) } else { Err(old) }
            }

            #[inline(always)]
            fn fetch_add(&self, value: $value, _order: Ordering) -> $value {
                self.modify(|old| old.wrapping_add(value))
            }

            #[inline(always)]
            fn fetch_or(&self, value: $value, _order: Ordering) -> $value {
                self.modify(|old| old | value)
            }

            #[inline(always)]
            fn fetch_and(&self, value: $value, _order: Ordering) -> $value {
                self.modify(|old| old & value)
            }
        }

        impl ConstZero for $name {
            const ZERO: Self = Self(<$native>::new(0));
        }
    };
}

atomic!(
    /// A 32-bit atomic.
    U32, AtomicU32, u32
);
atomic!(
    /// A 64-bit atomic.
    U64, AtomicU64, u64
);

#[allow(unsafe_code)] // For the promise below.
// SAFETY: as above; parts are put into the word as it is at that moment.
unsafe impl Parts for U32 {
    fn store_part(&self, field: Field, value: u32, _order: Ordering) {
        let cell = self.used(Use::Store);
        cell.store(field.put(cell.load(RELAXED), value), RELAXED);
    }

    fn swap_part(&self, field: Field, value: u32, _order: Ordering) -> u32 {
        field.get(self.modify(|word| field.put(word, value)))
    }

    fn compare_exchange_part(
        &self,
        field: Field,
        current: u32,
        new: u32,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u32, u32> {
        let old = self.modify(|word| {
            if field.get(word) == current {
                field.put(word, new)
            } else {
                word
            }
        });
        let old = field.get(old);
        if old == current { Ok(old) } else { Err(old) }
    }
}
