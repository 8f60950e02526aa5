//! The lock word on x86-64 with real byte and half-word accesses.
//!
//! Every access, loads included, is inline assembly, so the compiler's memory model never sees two
//! atomic accesses of different sizes. Each block is a compiler barrier (no `nomem`), and x86-64
//! gives plain loads acquire and plain stores release semantics (AMD64 APM vol. 2, 7.2; Intel SDM
//! vol. 3A, 9.2); locked instructions are full barriers. So every ordering but a `SeqCst` store is
//! met by the plain form, and `SeqCst` stores use `xchg`.
#![allow(unsafe_code)] // Inline assembly: the accesses are what no atomic type can do.

use super::{Field, LockWord};
use crate::atomic::{ConstZero, Watch};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

/// A lock word accessed by bytes, halves and as a whole.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct ByteWord(UnsafeCell<u32>);

// SAFETY: all access goes through single atomic instructions on naturally aligned memory.
unsafe impl Sync for ByteWord {}

impl ByteWord {
    #[inline(always)]
    fn at(&self, field: Field) -> *mut u8 {
        self.0.get().cast::<u8>().wrapping_add(field.offset())
    }
}

impl Watch for ByteWord {
    type Value = u32;

    #[inline(always)]
    fn load(&self, _order: Ordering) -> u32 {
        let value: u32;
        // SAFETY: reads four aligned bytes that live as long as `self`.
        unsafe {
            asm!("mov {v:e}, dword ptr [{p}]", p = in(reg) self.0.get(), v = lateout(reg) value,
                 options(nostack, preserves_flags));
        }
        value
    }
}

impl ConstZero for ByteWord {
    const ZERO: Self = Self(UnsafeCell::new(0));
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a field's value is as wide as the field"
)]
// SAFETY: one instruction each, of the width said, and locked where it reads and writes; for the orderings
// see the module.
unsafe impl LockWord for ByteWord {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[inline(always)]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u32, u32> {
        let found: u32;
        // SAFETY: a locked compare-and-exchange of four aligned bytes inside `self`.
        unsafe {
            asm!("lock cmpxchg dword ptr [{p}], {n:e}", p = in(reg) self.0.get(), n = in(reg) new,
                 inlateout("eax") current => found, options(nostack));
        }
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }

    #[inline(always)]
    fn fetch_add(&self, value: u32, _order: Ordering) -> u32 {
        let old: u32;
        // SAFETY: a locked add of four aligned bytes inside `self`.
        unsafe {
            asm!("lock xadd dword ptr [{p}], {v:e}", p = in(reg) self.0.get(),
                 v = inlateout(reg) value => old, options(nostack));
        }
        old
    }

    #[inline(always)]
    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32 {
        let carry: u8;
        // SAFETY: a locked bit-test-and-set inside `self`; `bit & 31` keeps the register form of
        // the bit offset from reaching beyond these four bytes.
        unsafe {
            asm!("lock bts dword ptr [{p}], {b:e}", "setc {c}", p = in(reg) self.0.get(),
                 b = in(reg) bit & 31, c = out(reg_byte) carry, options(nostack));
        }
        (self.load(order) & !(1 << bit)) | (u32::from(carry) << bit)
    }

    #[inline(always)]
    fn load_field(&self, field: Field, order: Ordering) -> u32 {
        if !field.is_byte() {
            return field.get(self.load(order));
        }
        let value: u32;
        // A byte of its own: a load of the whole word would wait for a byte's store before it to leave the store
        // buffer (no forwarding from a part).
        // SAFETY: reads one byte inside `self`.
        unsafe {
            asm!("movzx {v:e}, byte ptr [{p}]", p = in(reg) self.at(field), v = lateout(reg) value,
                 options(nostack, preserves_flags));
        }
        value
    }

    #[inline(always)]
    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        if order == Ordering::SeqCst {
            self.swap_field(field, value, order);
        } else if field.is_byte() {
            // SAFETY: writes one byte inside `self`.
            unsafe {
                asm!("mov byte ptr [{p}], {v}", p = in(reg) self.at(field),
                     v = in(reg_byte) value as u8, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: writes one aligned half-word inside `self`.
            unsafe {
                asm!("mov word ptr [{p}], {v:x}", p = in(reg) self.at(field),
                     v = in(reg) value as u16, options(nostack, preserves_flags));
            }
        }
    }

    #[inline(always)]
    fn swap_field(&self, field: Field, value: u32, _order: Ordering) -> u32 {
        if field.is_byte() {
            let old: u8;
            // SAFETY: exchanges one byte inside `self` (xchg with memory is always locked).
            unsafe {
                asm!("xchg byte ptr [{p}], {v}", p = in(reg) self.at(field),
                     v = inout(reg_byte) value as u8 => old, options(nostack, preserves_flags));
            }
            old.into()
        } else {
            let old: u16;
            // SAFETY: exchanges one aligned half-word inside `self`.
            unsafe {
                asm!("xchg word ptr [{p}], {v:x}", p = in(reg) self.at(field),
                     v = inout(reg) value as u16 => old, options(nostack, preserves_flags));
            }
            old.into()
        }
    }

    #[inline(always)]
    fn compare_exchange_field(
        &self,
        field: Field,
        current: u32,
        new: u32,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u32, u32> {
        let found = if field.is_byte() {
            let found: u8;
            // SAFETY: a locked compare-and-exchange of one byte inside `self`.
            unsafe {
                asm!("lock cmpxchg byte ptr [{p}], {n}", p = in(reg) self.at(field),
                     n = in(reg_byte) new as u8, inlateout("al") current as u8 => found,
                     options(nostack));
            }
            u32::from(found)
        } else {
            let found: u16;
            // SAFETY: a locked compare-and-exchange of one aligned half-word inside `self`.
            unsafe {
                asm!("lock cmpxchg word ptr [{p}], {n:x}", p = in(reg) self.at(field),
                     n = in(reg) new as u16, inlateout("ax") current as u16 => found,
                     options(nostack));
            }
            u32::from(found)
        };
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }
}
