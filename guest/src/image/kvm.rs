//! The platform of a vCPU in a KVM guest.

use super::patch;
use abi::{Counter, Doorbell, VcpuArea, flags};
use core::arch::asm;
use core::sync::atomic::{Ordering, compiler_fence};
use guest::Machine;
use guest::machine::VcpuAreaExt as _;
use pvlock::LockKind;
use pvlock::Platform;
use pvlock::atomic::Watch;

/// A vCPU of a KVM guest. `TRACE` chooses whether the steps of acquisitions are seen: without, there
/// is no trace of it in the code.
pub(super) struct Kvm<const TRACE: bool>;

/// Makes a hypercall.
#[inline(always)]
pub(super) fn ring(bell: Doorbell, value: u32) {
    // SAFETY: doorbell addresses are mapped, and nothing but the host is behind them. The asm is a
    // compiler barrier, and leaving the guest orders all memory accesses.
    unsafe {
        asm!("mov dword ptr [{p}], {v:e}", p = in(reg) bell.address(), v = in(reg) value,
             options(nostack, preserves_flags));
    }
}

// SAFETY: a vCPU's number is in its area, which the VMM gives to it alone, and is below layout's number of
// vCPUs; its tasks' numbers and all storage are places in the region (`guest::native`, `guest::task`).
// A task changes vCPUs only where it blocks. Atomics, fence and waits are the processor's. A panic ends the
// vCPU, it does not unwind. A lock's key is its address.
unsafe impl<const TRACE: bool> Platform for Kvm<TRACE> {
    guest::native_platform!();

    #[inline(always)]
    fn light_barrier() {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy_barrier() {
        ring(Doorbell::Barrier, 0);
    }

    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        // The doorbell's eventfd keeps a kick that comes between this check and the halt.
        if asleep(word.load(Ordering::Acquire)) {
            Self::vcpu().count(Counter::Halts, 1);
            ring(Doorbell::Halt, 0);
        }
    }

    fn kick(cpu: u32) {
        Self::vcpu().count(Counter::Kicks, 1);
        if Self::vcpu().header().params.flags & flags::DROP_KICKS == 0 {
            ring(Doorbell::Kick(cpu), 0);
        }
    }

    fn yield_to(cpu: u32) {
        Self::vcpu().count(Counter::Yields, 1);
        ring(Doorbell::Yield, cpu);
    }
}

impl<const TRACE: bool> Machine for Kvm<TRACE> {
    type Lock = LockKind;

    const INSTRUMENTED: bool = TRACE;

    #[inline(always)]
    fn vcpu() -> &'static VcpuArea {
        let area: *const VcpuArea;
        // SAFETY: the VMM points GS base to this vCPU's area, whose first word is its own address.
        unsafe {
            asm!("mov {a}, qword ptr gs:[0]", a = lateout(reg) area,
                 options(nostack, preserves_flags, readonly, pure));
            &*area
        }
    }

    fn hold_off(ns: u32) {
        ring(Doorbell::Preempt, ns);
    }

    #[inline(always)]
    unsafe fn patched_lock(lock: *const ()) {
        // SAFETY: the caller's promise.
        unsafe { patch::lock::<TRACE>(lock) };
    }

    #[inline(always)]
    unsafe fn patched_unlock(lock: *const ()) {
        // SAFETY: the caller's promise.
        unsafe { patch::unlock::<TRACE>(lock) };
    }

    fn log(message: &str) {
        Self::vcpu().set_log(message);
        ring(Doorbell::Log, 0);
    }
}
