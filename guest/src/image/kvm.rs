//! The platform of a vCPU in a KVM guest.

use super::patch;
use core::arch::asm;
use core::arch::x86_64::{_mm_lfence, _mm_pause, _rdtsc};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guest::abi::{Counter, Doorbell, VcpuArea, flags};
use guest::machine::native;
use guest::workload::nested;
use guest::{Machine, task};
use pvlock::atomic::Watch;
use pvlock::pv_hash::HashSlot;
use pvlock::wait::Waiter;
use pvlock::word::ByteWord;
use pvlock::{LockEvent, PerCpu, Platform, TraceEvent};

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

impl<const TRACE: bool> Platform for Kvm<TRACE> {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type LockWord = ByteWord;

    // A pending owner's takeover is a plain store; waiting for it is cheaper than queueing.
    const PENDING_LOOPS: u32 = 512;

    #[inline(always)]
    fn cpu() -> u32 {
        Self::vcpu().cpu
    }

    #[inline(always)]
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        native::percpu(cpu)
    }

    fn pv_hash() -> &'static [HashSlot<Self>] {
        native::pv_hash()
    }

    #[inline(always)]
    fn relax() {
        _mm_pause();
        if TRACE {
            nested::while_spinning::<Self>();
        }
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

    #[inline(always)]
    fn trace<L>(lock: &L, event: TraceEvent) {
        if TRACE {
            guest::trace::record::<Self, L>(lock, event);
        }
    }

    fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
        native::vcpu_is_preempted::<Self>(cpu)
    }

    #[inline(always)]
    fn now() -> u64 {
        // RDTSC alone may be executed while what precedes it is still under way, a lock acquisition
        // that waits for its line included (AMD64 APM vol. 3, Intel SDM vol. 2B, RDTSC).
        // SAFETY: every x86-64 CPU has SSE2 and a TSC, and CR4.TSD is clear.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    fn ticks(ns: u64) -> u64 {
        native::ticks::<Self>(ns)
    }

    fn numa_node(cpu: u32) -> u32 {
        native::numa_node::<Self>(cpu)
    }

    fn task() -> u32 {
        task::current::<Self>()
    }

    fn waiter(task: u32) -> &'static Waiter<Self> {
        task::waiter(task)
    }

    fn block_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        task::block_while::<Self, W>(word, asleep);
    }

    fn wake(task: u32) {
        task::wake::<Self>(task);
    }

    fn task_cpu(task: u32) -> Option<u32> {
        task::cpu_of::<Self>(task)
    }

    fn need_resched() -> bool {
        task::need_resched::<Self>()
    }

    fn killed() -> bool {
        task::killed::<Self>()
    }

    fn in_interrupt() -> bool {
        native::in_interrupt::<Self>()
    }

    fn pv_spin_threshold() -> u32 {
        native::pv_spin_threshold::<Self>()
    }

    #[inline(always)]
    fn count(event: LockEvent, n: u64) {
        native::count::<Self>(event, n);
    }
}

impl<const TRACE: bool> Machine for Kvm<TRACE> {
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
