//! What [`pvlock::Platform`] is alike on every machine whose vCPUs have native atomics and see the region in their own
//! address space: storage, counters, and choices that the region's parameters make.

use crate::machine::{VcpuAreaExt as _, deref, deref_slice};
use crate::{Machine, work};
use abi::{Counter, Layout, flags};
use core::sync::atomic::Ordering::Relaxed;
use pvlock::pv_hash::HashSlot;
use pvlock::{LockEvent, PerCpu};

/// What [`pvlock::Platform`] is alike on every machine whose vCPUs are x86-64 CPUs that see a region in their own
/// address space: to be put into the implementation of [`pvlock::Platform`] for a type that is a [`Machine`]. What
/// is left to write there is how a vCPU halts, is kicked and yields.
#[macro_export]
macro_rules! native_platform {
    () => {
        type U32 = ::core::sync::atomic::AtomicU32;
        type U64 = ::core::sync::atomic::AtomicU64;
        type LockWord = ::pvlock::word::ByteWord;

        // A pending owner's takeover is a plain store; waiting for it is cheaper than queueing.
        const PENDING_LOOPS: u32 = 512;

        #[inline(always)]
        fn cpu() -> u32 {
            <Self as $crate::Machine>::vcpu().cpu
        }

        #[inline(always)]
        fn percpu(cpu: u32) -> &'static ::pvlock::PerCpu<Self> {
            $crate::native::percpu(cpu)
        }

        fn pv_hash() -> &'static [::pvlock::pv_hash::HashSlot<Self>] {
            $crate::native::pv_hash()
        }

        #[inline(always)]
        fn relax() {
            ::core::arch::x86_64::_mm_pause();
            <Self as $crate::Machine>::spins();
            if <Self as $crate::Machine>::INSTRUMENTED {
                $crate::workload::nested::while_spinning::<Self>();
            }
        }

        #[inline(always)]
        fn trace<L>(lock: &L, event: ::pvlock::TraceEvent) {
            if <Self as $crate::Machine>::INSTRUMENTED {
                $crate::trace::record::<Self, L>(lock, event);
            }
        }

        #[inline(always)]
        fn now() -> u64 {
            // RDTSC alone may be executed while what precedes it is still under way, a lock acquisition
            // that waits for its line included (AMD64 APM vol. 3, Intel SDM vol. 2B, RDTSC).
            // SAFETY: every x86-64 CPU has SSE2 and a TSC; CR4.TSD is clear in our guests, and Linux lets
            // processes read it.
            unsafe {
                ::core::arch::x86_64::_mm_lfence();
                ::core::arch::x86_64::_rdtsc()
            }
        }

        fn ticks(ns: u64) -> u64 {
            $crate::native::ticks::<Self>(ns)
        }

        fn numa_node(cpu: u32) -> u32 {
            $crate::native::numa_node::<Self>(cpu)
        }

        fn task() -> u32 {
            $crate::task::current::<Self>()
        }

        fn waiter(task: u32) -> &'static ::pvlock::wait::Waiter<Self> {
            $crate::task::waiter(task)
        }

        fn block_while<W: ::pvlock::atomic::Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
            $crate::task::block_while::<Self, W>(word, asleep);
        }

        fn wake(task: u32) {
            $crate::task::wake::<Self>(task);
        }

        fn task_cpu(task: u32) -> Option<u32> {
            $crate::task::cpu_of::<Self>(task)
        }

        fn need_resched() -> bool {
            $crate::task::need_resched::<Self>()
        }

        fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
            $crate::native::vcpu_is_preempted::<Self>(cpu)
        }

        fn killed() -> bool {
            $crate::task::killed::<Self>()
        }

        fn in_interrupt() -> bool {
            $crate::native::in_interrupt::<Self>()
        }

        fn pv_spin_threshold() -> u32 {
            $crate::native::pv_spin_threshold::<Self>()
        }

        #[inline(always)]
        fn count(event: ::pvlock::LockEvent, n: u64) {
            $crate::native::count::<Self>(event, n);
        }
    };
}

/// For [`pvlock::Platform::percpu`].
#[inline(always)]
pub fn percpu<M: Machine>(cpu: u32) -> &'static PerCpu<M> {
    const { assert!(Layout::fits::<M>()) };
    deref(M::vcpu().percpu + u64::from(cpu) * size_of::<PerCpu<M>>() as u64)
}

/// For [`pvlock::Platform::pv_hash`].
pub fn pv_hash<M: Machine>() -> &'static [HashSlot<M>] {
    const { assert!(Layout::fits::<M>()) };
    deref_slice(M::vcpu().hash, M::vcpu().hash_slots)
}

/// For [`pvlock::Platform::count`].
#[inline(always)]
pub fn count<M: Machine>(event: LockEvent, n: u64) {
    M::vcpu().count(Counter::Lock(event), n);
}

/// For [`pvlock::Platform::pv_spin_threshold`].
pub fn pv_spin_threshold<M: Machine>() -> u32 {
    let header = M::vcpu().header();
    match header.control.spin_threshold.load(Relaxed) {
        0 => u32::try_from(header.params.spin_threshold).unwrap_or(u32::MAX),
        turns => turns,
    }
}

/// For [`pvlock::Platform::ticks`].
pub fn ticks<M: Machine>(ns: u64) -> u64 {
    work::ticks(ns, M::vcpu().header().params.tsc_khz)
}

/// For [`pvlock::Platform::numa_node`]: vCPUs are spread over the nodes in equal runs.
pub fn numa_node<M: Machine>(cpu: u32) -> u32 {
    let params = &M::vcpu().header().params;
    #[expect(clippy::cast_possible_truncation, reason = "not above `cpu`, or a few")]
    let node = (u64::from(cpu) * params.numa_nodes / params.vcpus.max(1)) as u32;
    node
}

/// For [`pvlock::Platform::in_interrupt`].
pub fn in_interrupt<M: Machine>() -> bool {
    M::vcpu().context.load(Relaxed) > 0
}

/// For [`pvlock::Platform::vcpu_is_preempted`]: the machine's answer, unless it is not to be told.
pub fn vcpu_is_preempted<M: Machine>(cpu: u32) -> Option<bool> {
    if M::vcpu().header().params.flags & flags::NO_VCPU_IS_PREEMPTED != 0 {
        return None;
    }
    M::is_preempted(cpu)
}
