//! Calls that the VMM redirects before the image runs, and what they may be made to call.

use super::kvm::Kvm;
use abi::patch::{CallTarget, operation};
use core::arch::asm;
use pvlock::LockKind;

/// Calls `$operation` of the lock at `$lock`, and records the call in the section of call sites.
///
/// The section is marked to be kept ("R"), as no code refers to it.
macro_rules! call {
    ($lock:expr, $operation:expr) => {
        asm!(
            "2: call {unpatched}",
            ".pushsection .pvlab.sites, \"aR\", @progbits",
            ".quad 2b",
            ".quad {unpatched}",
            ".quad {operation}",
            ".popsection",
            unpatched = sym unpatched,
            operation = const $operation,
            in("rdi") $lock,
            clobber_abi("C"),
        )
    };
}

/// Locks `lock`.
///
/// # Safety
/// As [`guest::Machine::patched_lock`].
#[inline(always)]
pub(super) unsafe fn lock<const TRACE: bool>(lock: *const ()) {
    // SAFETY: the call follows C's convention, the stack is aligned for one, and the function called
    // is for such a lock.
    unsafe {
        if TRACE {
            call!(lock, operation::LOCK + operation::INSTRUMENTED);
        } else {
            call!(lock, operation::LOCK);
        }
    }
}

/// Unlocks `lock`.
///
/// # Safety
/// As [`guest::Machine::patched_unlock`].
#[inline(always)]
pub(super) unsafe fn unlock<const TRACE: bool>(lock: *const ()) {
    // SAFETY: as in lock().
    unsafe {
        if TRACE {
            call!(lock, operation::UNLOCK + operation::INSTRUMENTED);
        } else {
            call!(lock, operation::UNLOCK);
        }
    }
}

/// What all calls call until they are patched.
extern "C-unwind" fn unpatched(_: *const ()) {
    panic!("a call was not patched");
}

const TARGETS_LEN: usize = LockKind::ALL.len() * operation::COUNT as usize;

/// Every function that a call may be made to call.
#[used]
#[unsafe(link_section = ".pvlab.targets")]
static TARGETS: [CallTarget; TARGETS_LEN] = targets();

const fn targets() -> [CallTarget; TARGETS_LEN] {
    let mut targets = [CallTarget {
        kind: 0,
        operation: 0,
        function: unpatched,
    }; TARGETS_LEN];
    let mut i = 0;
    while i < TARGETS_LEN {
        let kind = LockKind::ALL[i / operation::COUNT as usize];
        let operation = i as u64 % operation::COUNT;
        let operations = if operation & operation::INSTRUMENTED != 0 {
            kind.operations::<Kvm<true>>()
        } else {
            kind.operations::<Kvm<false>>()
        };
        let function = if operation & operation::UNLOCK != 0 {
            operations.unlock
        } else {
            operations.lock
        };
        targets[i] = CallTarget {
            kind: kind.id() as u64,
            operation,
            function,
        };
        i += 1;
    }
    targets
}

/// Refers to the targets: the linker drops what no code refers to.
pub(super) fn keep() {
    core::hint::black_box(&TARGETS);
}
