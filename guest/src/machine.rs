//! What a workload needs from the machine, beyond what locks need.

use abi::{Counter, Header, VcpuArea, flags};
#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use pvlock::Platform;

/// A platform whose vCPUs have a region of the [`abi`].
pub trait Machine: Platform {
    /// Whether the steps of acquisitions are seen ([`abi::Params::instrumented`]): tracing,
    /// preemption on demand and interrupts leave no trace in the code of a machine without.
    const INSTRUMENTED: bool;

    /// The executing vCPU's area.
    fn vcpu() -> &'static VcpuArea;

    /// Computes for `units`. All units take equally long; how long is for [`crate::work`] to find out.
    #[inline(always)]
    fn work(units: u64) {
        if units > 0 {
            busy(units);
        }
    }

    /// Whether the hypervisor has descheduled `cpu`, where this machine tells; for
    /// [`Platform::vcpu_is_preempted`], which may be switched off. Unless a machine says otherwise, by
    /// KVM's mark in the steal-time area, once a mark has been seen
    /// ([`abi::Control::preempted_is_reported`]).
    fn is_preempted(cpu: u32) -> Option<bool> {
        native::marked_preempted::<Self>(cpu)
    }

    /// How long 1,024 units of [`Self::work`] take, ps, on a machine that knows.
    fn unit_ps() -> Option<u64> {
        None
    }

    /// The executing vCPU is about to read, or write, `data`, which is not the lock's: a machine that
    /// charges for memory wants to know.
    #[inline(always)]
    fn touches<T>(_data: &T, _write: bool) {}

    /// Called at each turn of a spin loop: a machine whose vCPUs cannot be ended from outside ends them
    /// here.
    #[inline(always)]
    fn spins() {}

    /// Gives up the CPU for `ns`, as if the hypervisor had preempted this vCPU.
    fn hold_off(ns: u32);

    /// Locks `lock` by a call whose target the host has written.
    ///
    /// # Safety
    /// `lock` points to a lock of the kind that the host has patched this code for.
    ///
    /// # Panics
    /// On a machine whose code is not patched.
    #[allow(unsafe_code)] // Of a lock without a type.
    unsafe fn patched_lock(_lock: *const ()) {
        unreachable!("only an image of its own can be patched");
    }

    /// Unlocks `lock` likewise.
    ///
    /// # Safety
    /// As [`Self::patched_lock`].
    ///
    /// # Panics
    /// As [`Self::patched_lock`].
    #[allow(unsafe_code)]
    unsafe fn patched_unlock(_lock: *const ()) {
        unreachable!("only an image of its own can be patched");
    }

    /// Shows `message` to the host.
    fn log(message: &str);
}

/// A chain of `units` dependent multiplications, of about 3 cycles each: work that touches no memory and
/// hints nothing.
///
/// A CPU that waits for a result has execution units and fetch slots to spare, so that what its sibling
/// does hardly changes how long this takes. A loop of `dec` and `jnz` alone takes a cycle each turn, or two
/// while the sibling works.
///
/// One copy for all callers, aligned: how fast a short loop runs may depend on where it lies, and the copy
/// that is calibrated must be the copy that works.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // Inline assembly: the compiler would remove or unroll an empty loop.
#[inline(never)]
fn busy(units: u64) {
    // SAFETY: counts a register down to zero, and multiplies another; `units` is not zero.
    unsafe {
        asm!(".p2align 6", "2:", "imul {x}, {x}", "dec {n}", "jnz 2b", n = inout(reg) units => _,
             x = inout(reg) 3_u64 => _, options(nostack, nomem));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn busy(units: u64) {
    for unit in 0..units {
        core::hint::black_box(unit);
    }
}

/// What [`Platform`] is alike on every machine whose vCPUs are x86-64 CPUs that see a region in their own
/// address space: to be put into the implementation of [`Platform`] for a type that is a [`Machine`]. What
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
            $crate::machine::native::percpu(cpu)
        }

        fn pv_hash() -> &'static [::pvlock::pv_hash::HashSlot<Self>] {
            $crate::machine::native::pv_hash()
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
            $crate::machine::native::ticks::<Self>(ns)
        }

        fn numa_node(cpu: u32) -> u32 {
            $crate::machine::native::numa_node::<Self>(cpu)
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
            $crate::machine::native::vcpu_is_preempted::<Self>(cpu)
        }

        fn killed() -> bool {
            $crate::task::killed::<Self>()
        }

        fn in_interrupt() -> bool {
            $crate::machine::native::in_interrupt::<Self>()
        }

        fn pv_spin_threshold() -> u32 {
            $crate::machine::native::pv_spin_threshold::<Self>()
        }

        #[inline(always)]
        fn count(event: ::pvlock::LockEvent, n: u64) {
            $crate::machine::native::count::<Self>(event, n);
        }
    };
}

/// The implementation of the lock platform's storage and counters over a [`VcpuArea`], for machines
/// whose vCPUs have native atomics and see the region in their own address space.
pub mod native {
    use super::{Counter, Machine, VcpuArea, VcpuAreaExt as _, deref, flags};
    use crate::work;
    use abi::Layout;
    use core::sync::atomic::Ordering::Relaxed;
    use pvlock::pv_hash::HashSlot;
    use pvlock::{LockEvent, PerCpu};

    /// For [`pvlock::Platform::percpu`].
    #[inline(always)]
    pub fn percpu<M: Machine>(cpu: u32) -> &'static PerCpu<M> {
        const { assert!(Layout::fits::<M>()) };
        deref(M::vcpu().percpu + u64::from(cpu) * size_of::<PerCpu<M>>() as u64)
    }

    /// For [`pvlock::Platform::pv_hash`].
    pub fn pv_hash<M: Machine>() -> &'static [HashSlot<M>] {
        const { assert!(Layout::fits::<M>()) };
        super::deref_slice(M::vcpu().hash, M::vcpu().hash_slots)
    }

    /// The area of vCPU `cpu`.
    pub fn area<M: Machine>(cpu: u32) -> &'static VcpuArea {
        let bytes = size_of::<VcpuArea>() as u64;
        let own = M::vcpu();
        deref(own.this - u64::from(own.cpu) * bytes + u64::from(cpu) * bytes)
    }

    /// For [`pvlock::Platform::count`].
    #[inline(always)]
    pub fn count<M: Machine>(event: LockEvent, n: u64) {
        M::vcpu().count(Counter::Lock(event), n);
    }

    /// For [`pvlock::Platform::pv_spin_threshold`].
    pub fn pv_spin_threshold<M: Machine>() -> u32 {
        u32::try_from(M::vcpu().header().params.spin_threshold).unwrap_or(u32::MAX)
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

    /// For [`Machine::is_preempted`]: KVM's mark, if this KVM makes any.
    pub(super) fn marked_preempted<M: Machine>(cpu: u32) -> Option<bool> {
        let header = M::vcpu().header();
        if header.control.preempted_is_reported.load(Relaxed) == 0 {
            return None;
        }
        Some(area::<M>(cpu).steal.preempted.load(Relaxed) & 1 != 0)
    }
}

/// The area at `address`, for a machine that is told where its vCPUs' areas are.
///
/// # Safety
/// A region laid out by [`abi::Layout`] has a vCPU's area there, and stays mapped for as
/// long as the result, or anything reached through it, is used.
#[allow(unsafe_code)]
#[inline(always)]
pub unsafe fn vcpu_at(address: usize) -> &'static VcpuArea {
    deref(address as u64)
}

/// What a vCPU reaches from its area by address.
pub trait VcpuAreaExt {
    /// The region's header.
    fn header(&self) -> &'static Header;
}

impl VcpuAreaExt for VcpuArea {
    #[inline(always)]
    fn header(&self) -> &'static Header {
        deref(self.header)
    }
}

/// The object at `address` of the region.
///
/// Private to the crate: addresses come from a [`VcpuArea`] that the host has filled in.
#[allow(unsafe_code)] // The region is given by address: this and deref_slice() are the only ways in.
#[inline(always)]
pub(crate) fn deref<T>(address: u64) -> &'static T {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "usize is 64 bits wide on every machine"
    )]
    let pointer = core::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the host lays the region out by `Layout`, aligned and zeroed (a valid state of every
    // type in it), and keeps it until the last vCPU has stopped; all fields that change are atomic.
    unsafe { &*pointer }
}

#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn deref_slice<T>(address: u64, len: u64) -> &'static [T] {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "usize is 64 bits wide on every machine"
    )]
    let (address, len) = (address as usize, len as usize);
    // SAFETY: as in deref().
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) }
}
