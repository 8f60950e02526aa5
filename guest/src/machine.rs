//! What a workload needs from the machine, beyond what locks need.

use abi::{Header, VcpuArea};
#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use pvlock::registry::{LockVisitor, RwLockVisitor, SemVisitor, Traits};
use pvlock::{LockKind, Operations, Platform};

/// A lock by its number, on machine `M`.
pub trait Lock<M: Platform>: Copy + fmt::Display {
    /// The lock of that number.
    fn from_id(id: u32) -> Option<Self>;

    /// What the lock can do and needs.
    fn traits(self) -> Traits;

    /// Whether it has a read side.
    fn is_rw(self) -> bool;

    /// Calls `visitor` with the lock's type; if it has a read side, with its write side.
    fn visit<V: LockVisitor<M>>(self, visitor: V) -> V::Output;

    /// Calls `visitor` with the type of a reader-writer lock; `None` for another lock.
    fn visit_rw<V: RwLockVisitor<M>>(self, visitor: V) -> Option<V::Output>;

    /// Calls `visitor` with the type of a semaphore; `None` for another lock.
    fn visit_sem<V: SemVisitor<M>>(self, visitor: V) -> Option<V::Output>;

    /// The lock's operations, to be called through a table.
    ///
    /// # Panics
    /// If it can only be called directly.
    fn operations(self) -> Operations;
}

impl<M: Platform> Lock<M> for LockKind {
    fn from_id(id: u32) -> Option<Self> {
        Self::from_id(id)
    }

    fn traits(self) -> Traits {
        self.traits()
    }

    fn is_rw(self) -> bool {
        self.is_rw()
    }

    fn visit<V: LockVisitor<M>>(self, visitor: V) -> V::Output {
        self.visit(visitor)
    }

    fn visit_rw<V: RwLockVisitor<M>>(self, visitor: V) -> Option<V::Output> {
        self.visit_rw(visitor)
    }

    fn visit_sem<V: SemVisitor<M>>(self, visitor: V) -> Option<V::Output> {
        self.visit_sem(visitor)
    }

    fn operations(self) -> Operations {
        self.operations::<M>()
    }
}

/// A platform whose vCPUs have a region of the [`abi`].
pub trait Machine: Platform {
    /// Whether the steps of acquisitions are seen ([`abi::Params::instrumented`]): tracing,
    /// preemption on demand and interrupts leave no trace in the code of a machine without.
    const INSTRUMENTED: bool;

    /// The locks that there are on this machine.
    type Lock: Lock<Self>;

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
        marked_preempted::<Self>(cpu)
    }

    /// How long 1,024 units of [`Self::work`] take, ps, on a machine that knows.
    fn unit_ps() -> Option<u64> {
        None
    }

    /// The executing vCPU is about to read, or write, `data`, which is not the lock's: a machine that
    /// charges for memory wants to know.
    #[inline(always)]
    fn touches<T>(_data: &T, _write: bool) {}

    /// A microbenchmark begins another operation: a machine that charges for atomic operations alone wants to
    /// know of the instructions around them.
    #[inline(always)]
    fn looped() {}

    /// A microbenchmark does what would be a system call.
    #[inline(always)]
    fn system_call() {}

    /// The vCPU takes no interrupts from now on, or does again, as a kernel's thread that takes a lock with
    /// interrupts off: only a machine that is not real can do without them.
    #[inline(always)]
    fn mask_interrupts(_masked: bool) {}

    /// Lets `ns` pass, on this CPU or off it, as long as it `goes_on`.
    fn delay(ns: u64, goes_on: impl Fn() -> bool) {
        let (since, ticks) = (Self::now(), Self::ticks(ns));
        while Self::now().saturating_sub(since) < ticks && goes_on() {
            Self::relax();
        }
    }

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

/// The area of vCPU `cpu`.
pub fn area<M: Machine>(cpu: u32) -> &'static VcpuArea {
    let bytes = size_of::<VcpuArea>() as u64;
    let own = M::vcpu();
    deref(own.this - u64::from(own.cpu) * bytes + u64::from(cpu) * bytes)
}

/// KVM's mark, if this KVM makes any.
fn marked_preempted<M: Machine>(cpu: u32) -> Option<bool> {
    let header = M::vcpu().header();
    if header.control.preempted_is_reported.load(Relaxed) == 0 {
        return None;
    }
    Some(area::<M>(cpu).steal.preempted.load(Relaxed) & 1 != 0)
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
