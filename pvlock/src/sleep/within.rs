//! The machine as a wait lock sees it.
#![allow(unsafe_code)] // It is a platform; and storage of one is used by another that differs in name only.

use crate::Platform;
use crate::atomic::Watch;
use crate::event::LockEvent;
use crate::percpu::PerCpu;
use crate::pv_hash::HashSlot;
use crate::trace::TraceEvent;
use crate::wait::Waiter;
use core::marker::PhantomData;
use core::ptr::from_ref;
use core::sync::atomic::Ordering;

/// The platform `P` for a lock that is part of another lock.
///
/// All is as on `P`, but its steps are not traced and it does not count as contended: it is the lock
/// around it that is acquired, waited for and released.
pub struct Within<P>(PhantomData<fn() -> P>);

/// The same reference for a type that differs in `P` only.
///
/// # Safety
/// `A` and `B` are one `repr(C)` type, once with `P` and once with `Within<P>`, which use `P` only
/// for its atomics: those are the same types, so size, layout and meaning are the same.
unsafe fn same<A, B>(a: &'static A) -> &'static B {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    // SAFETY: as the caller promises.
    unsafe { &*from_ref(a).cast() }
}

#[deny(clippy::missing_trait_methods)] // What `P` has of its own counts here, too.
// SAFETY: what `P` promises: all that exclusion rests on is P's, and `trace` and `count` are not part of it.
unsafe impl<P: Platform> Platform for Within<P> {
    type U32 = P::U32;
    type U64 = P::U64;
    type LockWord = P::LockWord;

    const PENDING_LOOPS: u32 = P::PENDING_LOOPS;

    #[inline(always)]
    fn cpu() -> u32 {
        P::cpu()
    }

    #[inline(always)]
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        // SAFETY: see same().
        unsafe { same(P::percpu(cpu)) }
    }

    fn pv_hash() -> &'static [HashSlot<Self>] {
        let hash = P::pv_hash();
        const { assert!(size_of::<HashSlot<P>>() == size_of::<HashSlot<Self>>()) };
        // SAFETY: as in same(), for a slice of it.
        unsafe { core::slice::from_raw_parts(hash.as_ptr().cast(), hash.len()) }
    }

    fn fence(order: Ordering) {
        P::fence(order);
    }

    #[inline(always)]
    fn light_barrier() {
        P::light_barrier();
    }

    fn heavy_barrier() {
        P::heavy_barrier();
    }

    #[inline(always)]
    fn relax() {
        P::relax();
    }

    #[inline(always)]
    fn spin_until<V: Watch>(
        word: &V,
        order: Ordering,
        done: impl FnMut(V::Value) -> bool,
    ) -> V::Value {
        P::spin_until(word, order, done)
    }

    #[inline(always)]
    fn spin_unless<V: Watch>(
        word: &V,
        order: Ordering,
        done: impl FnMut(V::Value) -> bool,
        give_up: impl FnMut() -> bool,
    ) -> Option<V::Value> {
        P::spin_unless(word, order, done, give_up)
    }

    #[inline(always)]
    fn spin_for<V: Watch>(
        word: &V,
        order: Ordering,
        budget: &mut u32,
        done: impl FnMut(V::Value) -> bool,
    ) -> Option<V::Value> {
        P::spin_for(word, order, budget, done)
    }

    fn halt_while<V: Watch>(word: &V, asleep: impl Fn(V::Value) -> bool) {
        P::halt_while(word, asleep);
    }

    fn kick(cpu: u32) {
        P::kick(cpu);
    }

    fn yield_to(cpu: u32) {
        P::yield_to(cpu);
    }

    fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
        P::vcpu_is_preempted(cpu)
    }

    #[inline(always)]
    fn now() -> u64 {
        P::now()
    }

    fn ticks(ns: u64) -> u64 {
        P::ticks(ns)
    }

    fn numa_node(cpu: u32) -> u32 {
        P::numa_node(cpu)
    }

    fn in_interrupt() -> bool {
        P::in_interrupt()
    }

    fn pv_spin_threshold() -> u32 {
        P::pv_spin_threshold()
    }

    fn task() -> u32 {
        P::task()
    }

    fn waiter(task: u32) -> &'static Waiter<Self> {
        // SAFETY: see same().
        unsafe { same(P::waiter(task)) }
    }

    fn block_while<V: Watch>(word: &V, asleep: impl Fn(V::Value) -> bool) {
        P::block_while(word, asleep);
    }

    fn wake(task: u32) {
        P::wake(task);
    }

    fn task_cpu(task: u32) -> Option<u32> {
        P::task_cpu(task)
    }

    fn need_resched() -> bool {
        P::need_resched()
    }

    fn killed() -> bool {
        P::killed()
    }

    #[inline(always)]
    fn count(event: LockEvent, n: u64) {
        if event != LockEvent::Contended {
            P::count(event, n);
        }
    }

    #[inline(always)]
    fn trace<L>(_lock: &L, _event: TraceEvent) {}

    fn lock_key<L>(lock: &L) -> u64 {
        P::lock_key(lock)
    }
}
