//! The lock word on any 32-bit atomic: sub-word accesses become read-modify-writes of the whole.

use super::LockWord;
use crate::atomic::{Atomic, ConstZero, Watch};
use core::sync::atomic::Ordering;

/// A lock word made of one 32-bit atomic `A`.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct PortableWord<A>(A);

/// A byte or half of a 32-bit word, by its lane.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    shift: u32,
    mask: u32,
}

impl Field {
    /// Byte `lane`, counted from the least significant.
    pub const fn u8(lane: usize) -> Self {
        const BYTES: [u32; 4] = [0, 8, 16, 24];
        Self {
            shift: BYTES[lane],
            mask: 0xff << BYTES[lane],
        }
    }

    /// Half `lane`, likewise.
    pub const fn u16(lane: usize) -> Self {
        const HALVES: [u32; 2] = [0, 16];
        Self {
            shift: HALVES[lane],
            mask: 0xffff << HALVES[lane],
        }
    }

    /// Its value in `word`.
    pub const fn get(self, word: u32) -> u32 {
        (word & self.mask) >> self.shift
    }

    /// The word with `value`, which fits, in its place.
    pub const fn put(self, word: u32, value: u32) -> u32 {
        (word & !self.mask) | (value << self.shift)
    }
}

/// The strongest failure ordering that goes with a read-modify-write of ordering `order`.
const fn load_part(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

impl<A: Atomic<u32>> PortableWord<A> {
    /// Exchanges a field, retrying while other parts of the word change under it.
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
            self.0.fetch_and(!field.mask, order);
        } else {
            self.swap_field(field, value, order);
        }
    }

    /// Compare-and-exchange of a field; fails only if the field itself differs.
    fn cas_field(
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

// The casts narrow values that `Field::get` has already masked to the field's width.
#[expect(clippy::cast_possible_truncation)]
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

    fn store_u8(&self, lane: usize, value: u8, order: Ordering) {
        self.store_field(Field::u8(lane), value.into(), order);
    }

    fn store_u16(&self, lane: usize, value: u16, order: Ordering) {
        self.store_field(Field::u16(lane), value.into(), order);
    }

    fn swap_u8(&self, lane: usize, value: u8, order: Ordering) -> u8 {
        self.swap_field(Field::u8(lane), value.into(), order) as u8
    }

    fn swap_u16(&self, lane: usize, value: u16, order: Ordering) -> u16 {
        self.swap_field(Field::u16(lane), value.into(), order) as u16
    }

    fn compare_exchange_u8(
        &self,
        lane: usize,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        self.cas_field(
            Field::u8(lane),
            current.into(),
            new.into(),
            success,
            failure,
        )
        .map(|v| v as u8)
        .map_err(|v| v as u8)
    }

    fn compare_exchange_u16(
        &self,
        lane: usize,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        self.cas_field(
            Field::u16(lane),
            current.into(),
            new.into(),
            success,
            failure,
        )
        .map(|v| v as u16)
        .map_err(|v| v as u16)
    }
}
