//! The ways in which a workload reaches its lock: see [`Dispatch`].
//!
//! A workload is generic over [`RawLock`]. Compiled in, it gets the lock's own type; else `Called`,
//! a lock that passes each call on:
//!
//! ```text
//! direct    the lock's fast path is inlined where it is used
//! pointer   call through a table in memory, read at each call, as a hypervisor's table of operations
//! patched   call of a fixed address that the host has written into the code before it ran
//! ```
#![allow(unsafe_code)] // What is called has no type.

use crate::Machine;
use crate::machine::Lock as _;
use abi::{Dispatch, LOCK_BYTES};
use core::marker::PhantomData;
use core::mem::transmute;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use pvlock::{LockVisitor, RawLock};

/// Calls the function in `$word` of this vCPU's table with the address of a lock.
macro_rules! call {
    ($word:ident, $address:expr $(, $result:ty)?) => {{
        let function = M::vcpu().table.$word.load(Relaxed);
        // SAFETY: as in Called::new(); the table is of the same kind on every vCPU.
        unsafe {
            let function: unsafe extern "C-unwind" fn(*const ()) $(-> $result)? =
                transmute(function);
            function($address)
        }
    }};
}

/// Calls `visitor` with the type through which this vCPU reaches a lock of `kind` in that way.
pub fn visit<M: Machine, V: LockVisitor<M>>(kind: M::Lock, way: Dispatch, visitor: V) -> V::Output {
    if way != Dispatch::Direct {
        M::vcpu().table.fill(kind.operations());
    }
    match way {
        Dispatch::Direct => kind.visit(visitor),
        Dispatch::Pointer => visitor.visit::<Called<M, false>>(),
        Dispatch::Patched => visitor.visit::<Called<M, true>>(),
    }
}

/// A lock of the kind that the vCPU's [`abi::CallTable`] is filled for. `PATCHED`: `lock` and `unlock` are
/// calls whose targets the host has written, instead of going through the table.
#[repr(C, align(64))]
struct Called<M, const PATCHED: bool> {
    lock: [AtomicU64; LOCK_BYTES / 8],
    machine: PhantomData<fn() -> M>,
}

impl<M: Machine, const PATCHED: bool> Called<M, PATCHED> {
    #[inline(always)]
    fn address(&self) -> *const () {
        (&raw const self.lock).cast()
    }
}

impl<M: Machine, const PATCHED: bool> RawLock for Called<M, PATCHED> {
    fn new() -> Self {
        let new = Self {
            lock: [const { AtomicU64::new(0) }; LOCK_BYTES / 8],
            machine: PhantomData,
        };
        let init = M::vcpu().table.init.load(Relaxed);
        // SAFETY: only visit() names this type, which has filled the table with functions of these
        // types. Every lock fits into LOCK_BYTES, and none is aligned to more than this one; the
        // bytes are atomics, hence writable.
        unsafe {
            let init: unsafe extern "C-unwind" fn(*mut ()) = transmute(init);
            init(new.address().cast_mut());
        }
        new
    }

    #[inline(always)]
    fn lock(&self) {
        if PATCHED {
            // SAFETY: init has made a lock there, and each vCPU's code is patched for its kind.
            unsafe { M::patched_lock(self.address()) };
            return;
        }
        call!(lock, self.address());
    }

    fn try_lock(&self) -> bool {
        call!(try_lock, self.address(), bool)
    }

    #[inline(always)]
    fn unlock(&self) {
        if PATCHED {
            // SAFETY: as in lock().
            unsafe { M::patched_unlock(self.address()) };
            return;
        }
        call!(unlock, self.address());
    }

    fn is_locked(&self) -> bool {
        call!(is_locked, self.address(), bool)
    }
}
