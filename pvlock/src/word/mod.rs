//! Lock words: one 32-bit word that is also accessed by its bytes and halves.
//!
//! Releasing a queued spinlock with a one-byte store is what makes it cheap, but in Rust's memory
//! model atomic accesses of different sizes to the same memory race. Hence two implementations:
//!
//! * [`PortableWord`] turns every sub-word access into a 32-bit read-modify-write. It works on any
//!   architecture, in a simulator and under a model checker.
//! * [`ByteWord`] (x86-64) makes the real byte and half-word accesses in inline assembly, which the
//!   memory model does not look into.
//!
//! `tests/word.rs` holds both to one specification.
#![allow(unsafe_code)] // That it is atomic is for the implementer to promise.

#[cfg(target_arch = "x86_64")]
mod bytes;
mod portable;

use crate::atomic::Watch;
use core::sync::atomic::Ordering;

#[cfg(target_arch = "x86_64")]
pub use bytes::ByteWord;
pub use portable::{Parts, PortableWord};

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

    /// Whether it is a byte, not a half.
    pub const fn is_byte(self) -> bool {
        self.mask >> self.shift == 0xff
    }

    /// Its place, in bytes from the least significant.
    pub const fn offset(self) -> usize {
        self.shift as usize / 8
    }

    /// All bits of the word but its own.
    const fn others(self) -> u32 {
        !self.mask
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

/// Accesses of [`LockWord`] to the parts of one width, by lanes.
macro_rules! by_lane {
    ($part:ident, $what:literal, $store:ident, $swap:ident, $compare_exchange:ident) => {
        #[doc = concat!("Stores ", $what, " `lane`.")]
        #[inline(always)]
        fn $store(&self, lane: usize, value: $part, order: Ordering) {
            self.store_field(Field::$part(lane), value.into(), order);
        }

        #[doc = concat!("Exchanges ", $what, " `lane`; returns the previous one.")]
        #[inline(always)]
        fn $swap(&self, lane: usize, value: $part, order: Ordering) -> $part {
            self.swap_field(Field::$part(lane), value.into(), order) as $part
        }

        #[doc = concat!("Compare-and-exchange of ", $what, " `lane` alone.")]
        ///
        /// # Errors
        #[doc = concat!("The ", $what, " found, if it was not `current`.")]
        #[inline(always)]
        fn $compare_exchange(
            &self,
            lane: usize,
            current: $part,
            new: $part,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$part, $part> {
            let (field, current, new) = (Field::$part(lane), current.into(), new.into());
            self.compare_exchange_field(field, current, new, success, failure)
                .map(|found| found as $part)
                .map_err(|found| found as $part)
        }
    };
}

/// A 32-bit lock word with sub-word accesses.
///
/// *Lane* numbers count from the least significant end: byte lanes 0 to 3, half-word lanes 0 and 1.
/// A lane out of range panics (in const-folded use it cannot happen).
///
/// # Safety
/// As of [`Atomic`](crate::atomic::Atomic), for a `u32`: each method does what it says, and no more, to the
/// one value, as one step with the ordering given or a stronger one; so does [`Watch::load`]. A store
/// or an exchange of a part leaves the others as they are, whoever changes them meanwhile, and is part of
/// the release sequence of whatever the word was released with before. If the word is
/// [`ConstZero`](crate::atomic::ConstZero), it is zero as `new(0)` is.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a field's value is as wide as the field"
)]
pub unsafe trait LockWord: Watch<Value = u32> {
    /// A new word holding `value`.
    fn new(value: u32) -> Self;

    /// Compare-and-exchange of the whole word.
    ///
    /// # Errors
    /// The word found, if it was not `current`.
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;

    /// Wrapping add to the whole word; returns the previous word.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;

    /// Sets bit number `bit` (0 to 31); returns the word with that bit as it was before.
    ///
    /// The other bits are those of the word either just before or some time after the update: an
    /// x86-64 bit-test-and-set is one atomic operation on the bit, followed by a load of the rest.
    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32;

    /// Stores a field. Its `value` fits, here and below.
    fn store_field(&self, field: Field, value: u32, order: Ordering);

    /// Exchanges a field; returns its previous value.
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32;

    /// Compare-and-exchange of a field alone: the others may change meanwhile.
    ///
    /// # Errors
    /// The field's value, if it was not `current`.
    fn compare_exchange_field(
        &self,
        field: Field,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;

    /// Loads a field, and perhaps the rest of the word with it.
    fn load_field(&self, field: Field, order: Ordering) -> u32 {
        field.get(self.load(order))
    }

    /// Loads byte `lane`.
    #[inline(always)]
    fn load_u8(&self, lane: usize, order: Ordering) -> u8 {
        self.load_field(Field::u8(lane), order) as u8
    }

    by_lane! { u8, "byte", store_u8, swap_u8, compare_exchange_u8 }
    by_lane! { u16, "half-word", store_u16, swap_u16, compare_exchange_u16 }
}
