//! From one task's stack to another's.
#![allow(unsafe_code)] // Context switches are made of registers.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Registers that a function must preserve (System V ABI for x86-64): rbx, rbp, r12 to r15. MXCSR and
/// the x87 control word, too, but no task changes them.
const SAVED: u64 = 6;

/// A stack on which `entry` is called when it is switched to; returns its stack pointer.
pub(super) fn prepare(stack_top: u64, entry: extern "C" fn() -> !) -> u64 {
    // As after a call, the stack pointer is 8 modulo 16 where a function begins: a word that stands for
    // the return address of `entry`, which never returns, then what `swap` pops.
    let top = stack_top & !15;
    let words = [entry as usize as u64, 0];
    let at = top - 8 * words.len() as u64;
    for (i, word) in words.into_iter().enumerate() {
        store(at + 8 * i as u64, word);
    }
    let sp = at - 8 * SAVED;
    (0..SAVED).for_each(|i| store(sp + 8 * i, 0));
    sp
}

fn store(address: u64, word: u64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "usize is 64 bits wide on x86-64"
    )]
    let place = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
    // SAFETY: inside a stack that the host has set aside for a task that has not begun.
    unsafe { place.write(word) };
}

/// Saves the state of this task at `from`, and goes on with the one saved at `to`.
#[inline(always)]
pub(super) fn to(from: &AtomicU64, to: &AtomicU64) {
    let next = to.load(Relaxed);
    // SAFETY: `next` was saved by `swap` or made by prepare(), on a stack that is in use by no one else:
    // a task is switched to only by the vCPU that owns it, and not while it runs.
    unsafe { swap(from.as_ptr(), next) };
}

/// Pushes what must be preserved, stores the stack pointer, takes the other, pops.
#[unsafe(naked)]
unsafe extern "C" fn swap(save: *mut u64, load: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
