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
pub use portable::{Field, PortableWord};

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

    /// Stores byte `lane`.
    fn store_u8(&self, lane: usize, value: u8, order: Ordering);

    /// Stores half-word `lane`.
    fn store_u16(&self, lane: usize, value: u16, order: Ordering);

    /// Exchanges byte `lane`; returns the previous byte.
    fn swap_u8(&self, lane: usize, value: u8, order: Ordering) -> u8;

    /// Exchanges half-word `lane`; returns the previous half-word.
    fn swap_u16(&self, lane: usize, value: u16, order: Ordering) -> u16;

    /// Compare-and-exchange of byte `lane` alone: other bytes may change meanwhile.
    ///
    /// # Errors
    /// The byte found, if it was not `current`.
    fn compare_exchange_u8(
        &self,
        lane: usize,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8>;

    /// Compare-and-exchange of half-word `lane` alone.
    ///
    /// # Errors
    /// The half-word found, if it was not `current`.
    fn compare_exchange_u16(
        &self,
        lane: usize,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16>;
}
