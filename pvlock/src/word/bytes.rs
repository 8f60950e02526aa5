//! The lock word on x86-64 with real byte and half-word accesses.
//!
//! Every access, loads included, is inline assembly, so the compiler's memory model never sees two
//! atomic accesses of different sizes. Each block is a compiler barrier (no `nomem`), and x86-64
//! gives plain loads acquire and plain stores release semantics (AMD64 APM vol. 2, 7.2; Intel SDM
//! vol. 3A, 9.2); locked instructions are full barriers. So every ordering but a `SeqCst` store is
//! met by the plain form, and `SeqCst` stores use `xchg`.
#![allow(unsafe_code)] // Inline assembly: the accesses are what no atomic type can do.

use super::LockWord;
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
    fn byte(&self, lane: usize) -> *mut u8 {
        assert!(lane < 4);
        self.0.get().cast::<u8>().wrapping_add(lane)
    }

    #[inline(always)]
    fn half(&self, lane: usize) -> *mut u16 {
        assert!(lane < 2);
        self.0.get().cast::<u16>().wrapping_add(lane)
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
    fn store_u8(&self, lane: usize, value: u8, order: Ordering) {
        if order == Ordering::SeqCst {
            self.swap_u8(lane, value, order);
            return;
        }
        // SAFETY: writes one byte inside `self`.
        unsafe {
            asm!("mov byte ptr [{p}], {v}", p = in(reg) self.byte(lane), v = in(reg_byte) value,
                 options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn store_u16(&self, lane: usize, value: u16, order: Ordering) {
        if order == Ordering::SeqCst {
            self.swap_u16(lane, value, order);
            return;
        }
        // SAFETY: writes one aligned half-word inside `self`.
        unsafe {
            asm!("mov word ptr [{p}], {v:x}", p = in(reg) self.half(lane), v = in(reg) value,
                 options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn swap_u8(&self, lane: usize, value: u8, _order: Ordering) -> u8 {
        let old: u8;
        // SAFETY: exchanges one byte inside `self` (xchg with memory is always locked).
        unsafe {
            asm!("xchg byte ptr [{p}], {v}", p = in(reg) self.byte(lane),
                 v = inout(reg_byte) value => old, options(nostack, preserves_flags));
        }
        old
    }

    #[inline(always)]
    fn swap_u16(&self, lane: usize, value: u16, _order: Ordering) -> u16 {
        let old: u16;
        // SAFETY: exchanges one aligned half-word inside `self`.
        unsafe {
            asm!("xchg word ptr [{p}], {v:x}", p = in(reg) self.half(lane),
                 v = inout(reg) value => old, options(nostack, preserves_flags));
        }
        old
    }

    #[inline(always)]
    fn compare_exchange_u8(
        &self,
        lane: usize,
        current: u8,
        new: u8,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u8, u8> {
        let found: u8;
        // SAFETY: a locked compare-and-exchange of one byte inside `self`.
        unsafe {
            asm!("lock cmpxchg byte ptr [{p}], {n}", p = in(reg) self.byte(lane),
                 n = in(reg_byte) new, inlateout("al") current => found, options(nostack));
        }
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }

    #[inline(always)]
    fn compare_exchange_u16(
        &self,
        lane: usize,
        current: u16,
        new: u16,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u16, u16> {
        let found: u16;
        // SAFETY: a locked compare-and-exchange of one aligned half-word inside `self`.
        unsafe {
            asm!("lock cmpxchg word ptr [{p}], {n:x}", p = in(reg) self.half(lane),
                 n = in(reg) new, inlateout("ax") current => found, options(nostack));
        }
        if found == current {
            Ok(found)
        } else {
            Err(found)
        }
    }
}
