//! Atomics and lock words each access to which is a step of the machine.

use super::MACHINE;
use pvlock::atomic::{Atomic, Watch};
use pvlock::word::{Field, LockWord, Parts};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The scheduling point before every access. No-op while the checker looks at the memory.
fn point(doing: &'static str) {
    let machine =
        MACHINE.with_borrow(|m| m.as_ref().filter(|m| m.running.get().is_some()).cloned());
    if let Some(machine) = machine {
        machine.suspend(doing);
    }
}

/// Performs an access as one step, and enters its result in the trace.
fn step<T>(doing: &'static str, access: impl FnOnce() -> T, result: impl Fn(&T) -> u64) -> T {
    point(doing);
    let value = access();
    MACHINE.with_borrow(|m| {
        if let Some(machine) = m.as_ref().filter(|m| m.running.get().is_some()) {
            machine.note(result(&value) ^ (doing.len() as u64) << 56);
        }
    });
    value
}

fn either<T: Copy + Into<u64>>(result: &Result<T, T>) -> u64 {
    match *result {
        Ok(v) => v.into(),
        Err(v) => !v.into(),
    }
}

macro_rules! stepped_atomic {
    ($name:ident, $atomic:ty, $value:ty) => {
        /// An atomic each access to which is a step.
        #[repr(transparent)]
        pub(crate) struct $name(pub(super) $atomic);

        impl Watch for $name {
            type Value = $value;
            fn load(&self, order: Ordering) -> $value {
                step("load", || self.0.load(order), |&v| v.into())
            }
        }

        #[allow(unsafe_code)] // For the promise below.
        // SAFETY: each is that of the atomic within, which is the step.
        unsafe impl Atomic<$value> for $name {
            fn new(value: $value) -> Self {
                Self(<$atomic>::new(value))
            }
            fn store(&self, value: $value, order: Ordering) {
                step("store", || self.0.store(value, order), |()| value.into());
            }
            fn swap(&self, value: $value, order: Ordering) -> $value {
                step("swap", || self.0.swap(value, order), |&v| v.into())
            }
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let cas = || self.0.compare_exchange(current, new, success, failure);
                step("compare", cas, either)
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step("add", || self.0.fetch_add(value, order), |&v| v.into())
            }
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                step("or", || self.0.fetch_or(value, order), |&v| v.into())
            }
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                step("and", || self.0.fetch_and(value, order), |&v| v.into())
            }
        }
    };
}

stepped_atomic!(U32, AtomicU32, u32);
stepped_atomic!(U64, AtomicU64, u64);

#[allow(unsafe_code)] // For the promise.
// SAFETY: by default.
unsafe impl Parts for U32 {}

/// A lock word each access to which is one step, whatever it is made of.
#[repr(transparent)]
pub(crate) struct Stepped<W>(W);

impl<W: LockWord> Watch for Stepped<W> {
    type Value = u32;
    fn load(&self, order: Ordering) -> u32 {
        step("word load", || self.0.load(order), |&v| v.into())
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: each method is that of the word within, which is the step.
unsafe impl<W: LockWord> LockWord for Stepped<W> {
    fn new(value: u32) -> Self {
        Self(W::new(value))
    }
    fn compare_exchange(&self, old: u32, new: u32, s: Ordering, f: Ordering) -> Result<u32, u32> {
        step(
            "word compare",
            || self.0.compare_exchange(old, new, s, f),
            either,
        )
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        step("word add", || self.0.fetch_add(value, order), |&v| v.into())
    }
    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32 {
        step(
            "word set bit",
            || self.0.fetch_set_bit(bit, order),
            |&v| v.into(),
        )
    }
    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        let store = || self.0.store_field(field, value, order);
        step("word store", store, |()| value.into());
    }
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32 {
        let swap = || self.0.swap_field(field, value, order);
        step("word swap", swap, |&v| v.into())
    }
    fn compare_exchange_field(
        &self,
        field: Field,
        old: u32,
        new: u32,
        s: Ordering,
        f: Ordering,
    ) -> Result<u32, u32> {
        let cas = || self.0.compare_exchange_field(field, old, new, s, f);
        step("word compare part", cas, either)
    }
}
