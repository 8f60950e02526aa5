//! The memory routines that compiled code may call. String instructions, because a plain loop could
//! be compiled back into a call of the very function it is in.

use core::arch::asm;
use core::ffi::{c_int, c_void};

/// As C's memcpy.
///
/// # Safety
/// `n` bytes at `to` and `from` are valid, and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
    to
}

/// As C's memmove.
///
/// # Safety
/// `n` bytes at `to` and `from` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void {
    if to.addr().wrapping_sub(from.addr()) >= n {
        // SAFETY: `to` does not lie within the source, so copying upwards reads each byte first.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: the caller's promise; n > 0 here; the direction flag is restored.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _,
             inout("rdi") to.byte_add(n - 1) => _, inout("rsi") from.byte_add(n - 1) => _,
             options(nostack));
    }
    to
}

/// As C's memset.
///
/// # Safety
/// `n` bytes at `to` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut c_void, value: c_int, n: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("eax") value,
             options(nostack, preserves_flags));
    }
    to
}

/// As C's memcmp.
///
/// # Safety
/// `n` bytes at `a` and `b` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int {
    for i in 0..n {
        // SAFETY: the caller's promise; volatile, so that this loop stays a loop.
        let (x, y) = unsafe {
            (
                a.cast::<u8>().add(i).read_volatile(),
                b.cast::<u8>().add(i).read_volatile(),
            )
        };
        if x != y {
            return c_int::from(x) - c_int::from(y);
        }
    }
    0
}

/// Named by compiled core code for unwinding, which `panic = "abort"` never does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
