//! What a lock needs from the machine it runs on.
#![allow(unsafe_code)] // That it is such a machine is for the implementer to promise.

use crate::atomic::{Atomic, Watch};
use crate::event::LockEvent;
use crate::percpu::PerCpu;
use crate::pv_hash::HashSlot;
use crate::trace::TraceEvent;
use crate::wait::Waiter;
use crate::word::LockWord;
use core::sync::atomic::Ordering;

/// A machine: real vCPUs, host threads, a simulator or a model checker.
///
/// All methods are static, because a lock carries no reference to its machine. An implementation
/// that can run several machines at once finds the current one through the executing thread.
///
/// # What must hold while a lock is held or waited for
/// [`cpu`](Self::cpu) must not change between the start of `lock` and the end of `unlock` (a kernel
/// disables preemption), since waiters queue on per-CPU nodes and a paravirtual lock may be hashed
/// without atomics because the same CPU releases it.
///
/// # Safety
/// A lock excludes others only as far as its machine is what it says. An implementation promises:
/// * **CPUs.** Contexts of execution that run at the same time have different [`cpu`](Self::cpu) numbers,
///   below [`MAX_CPUS`](crate::MAX_CPUS). That of a context stays the same while it is in a method of a
///   lock, and while it holds a lock. A number can be given to another context only when the first one
///   holds no lock that keeps a queue node of the CPU (`in_use` of its first [`Node`](crate::percpu::Node)
///   tells). A context that interrupts another one on its CPU leaves the nodes in use as it has found
///   them, and uses no lock that the other one is using, but for reading as
///   [`in_interrupt`](Self::in_interrupt) allows.
/// * **Tasks.** The same holds of [`task`](Self::task) numbers, which are below 2^20. A task that holds a
///   lock keeps its number; it may go to another CPU, except in a method of a spinning lock and between
///   its `lock` and `unlock`.
/// * **Storage.** [`percpu`](Self::percpu) and [`waiter`](Self::waiter) return the same object each time
///   for the same number, another one for each number, and the same to all contexts that share locks.
///   [`pv_hash`](Self::pv_hash) is one table for all of them. They are all zeros at first, and only locks
///   write them.
/// * **Waits.** [`spin_until`](Self::spin_until) returns a value that it has loaded from `word` with
///   `order`, and for which `done` held; so do [`spin_for`](Self::spin_for) and
///   [`spin_unless`](Self::spin_unless), if they return one. [`fence`](Self::fence) is a fence of that
///   order. No method unwinds, or the queue would go on with a waiter that has left it; but `cpu` and
///   `task` may, of a context that has no number yet.
/// * **Keys.** Locks that are in use at the same time have different [`lock_key`](Self::lock_key)s, none
///   of them 0, which differ in their low 63 bits; that of a lock in use does not change.
///
/// None of that can be promised by safe code:
///
/// ```compile_fail,E0200
/// struct Mine;
/// impl pvlock::Platform for Mine {}
/// ```
///
/// What halts, wakes, yields, tells the time or counts may do so too early, too often or wrongly: then locks
/// are slow, or hang, but exclude. Of a wake-up that is lost they hang.
pub unsafe trait Platform: Sized + Send + Sync + 'static {
    /// A 32-bit atomic.
    type U32: Atomic<u32>;
    /// A 64-bit atomic.
    type U64: Atomic<u64>;
    /// The word of a queued spinlock or ticket lock.
    type LockWord: LockWord;

    /// How often a native qspinlock re-reads the word while a pending owner takes over, before it
    /// queues. Longer pays where the takeover is slow to become visible.
    const PENDING_LOOPS: u32 = 1;

    /// The executing CPU, counted from 0 without gaps, below 2^14 - 1.
    fn cpu() -> u32;

    /// The lock storage of `cpu`.
    fn percpu(cpu: u32) -> &'static PerCpu<Self>;

    /// The table in which sleeping queue heads are found; see [`crate::pv_hash`] for its length.
    fn pv_hash() -> &'static [HashSlot<Self>];

    /// A memory fence.
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }

    /// One side of an asymmetric fence: of two contexts that each store, pass a barrier, one of them a heavy
    /// one, and load what the other has stored, not both miss the other's store. This one is for the side
    /// that must be cheap: a machine that has a [heavy](Self::heavy_barrier) one for it need only keep the
    /// compiler from moving accesses across it.
    ///
    /// Both are full fences unless a platform says otherwise.
    #[inline(always)]
    fn light_barrier() {
        Self::fence(Ordering::SeqCst);
    }

    /// The other side: a full fence of this context, and of every other one that is in the middle of what it
    /// does, such as membarrier(2) with MEMBARRIER_CMD_PRIVATE_EXPEDITED makes.
    fn heavy_barrier() {
        Self::fence(Ordering::SeqCst);
    }

    /// One turn of a busy-wait loop (x86 `pause`).
    fn relax();

    /// Waits until `done` holds for the value of `word`, and returns that value.
    ///
    /// The load that ends the wait has ordering `order`.
    fn spin_until<W: Watch>(
        word: &W,
        order: Ordering,
        mut done: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        loop {
            let value = word.load(order);
            if done(value) {
                return value;
            }
            Self::relax();
        }
    }

    /// As [`spin_until`](Self::spin_until), but gives up when `budget`, counted in turns of the
    /// loop, has run out. What is left of the budget stays in it.
    fn spin_for<W: Watch>(
        word: &W,
        order: Ordering,
        budget: &mut u32,
        mut done: impl FnMut(W::Value) -> bool,
    ) -> Option<W::Value> {
        while *budget > 0 {
            *budget -= 1;
            let value = word.load(order);
            if done(value) {
                return Some(value);
            }
            Self::relax();
        }
        None
    }

    /// As [`spin_until`](Self::spin_until), but gives up as soon as `give_up` holds: for what does not
    /// show in `word`, such as who runs. A platform need not ask it in every turn.
    fn spin_unless<W: Watch>(
        word: &W,
        order: Ordering,
        mut done: impl FnMut(W::Value) -> bool,
        mut give_up: impl FnMut() -> bool,
    ) -> Option<W::Value> {
        loop {
            let value = word.load(order);
            if done(value) {
                return Some(value);
            }
            if give_up() {
                return None;
            }
            Self::relax();
        }
    }

    /// Gives up the executing CPU until it is kicked, provided that `asleep` holds for `word`.
    ///
    /// The check and the block must be one step with respect to [`kick`](Self::kick): a kick that
    /// comes after the check and before the block must end the block at once. (A sticky kick
    /// does it: what a kick leaves behind makes the next halt return.) May return early.
    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool);

    /// Ends the present or the next halt of `cpu`. Harmless if it is running.
    ///
    /// A release: whatever the caller wrote before is visible to `cpu` when its halt returns.
    fn kick(cpu: u32);

    /// Offers the rest of this CPU's time to `cpu`.
    fn yield_to(cpu: u32);

    /// Whether the hypervisor has descheduled `cpu`; `None` where that cannot be known.
    fn vcpu_is_preempted(cpu: u32) -> Option<bool>;

    /// Monotonic time in ticks of the platform's clock (the TSC on x86), for statistics: not before
    /// what precedes the call has been done.
    fn now() -> u64;

    /// Ticks of [`now`](Self::now) in `ns` nanoseconds: as many, unless a platform says otherwise.
    fn ticks(ns: u64) -> u64 {
        ns
    }

    /// The NUMA node of `cpu`. All are on one unless a platform says otherwise.
    fn numa_node(_cpu: u32) -> u32 {
        0
    }

    /// Whether this CPU executes an interrupt handler. A reader-writer lock lets such readers pass
    /// waiting writers, as the code that they interrupted may be reading already.
    fn in_interrupt() -> bool {
        false
    }

    /// Turns of the wait loop before a paravirtual waiter halts.
    ///
    /// 2^15 is what Linux uses on x86 and powerpc: 0.2 to 1.6 ms, depending on the cost of `pause`.
    fn pv_spin_threshold() -> u32 {
        1 << 15
    }

    /// The executing task, counted from 0 without gaps, below 2^20. Unless a platform says otherwise
    /// each CPU executes one task, which has its number and blocks by halting.
    fn task() -> u32 {
        Self::cpu()
    }

    /// What a sleeping lock keeps for `task` while it waits.
    fn waiter(task: u32) -> &'static Waiter<Self> {
        &Self::percpu(task).waiter
    }

    /// Blocks the executing task until it is woken, provided that `asleep` holds for `word`; with
    /// respect to [`wake`](Self::wake) as [`halt_while`](Self::halt_while) is to `kick`. May return
    /// early.
    fn block_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        Self::halt_while(word, asleep);
    }

    /// Ends the present or the next block of `task`. Harmless if it is not blocked. A release, as
    /// [`kick`](Self::kick).
    fn wake(task: u32) {
        Self::kick(task);
    }

    /// The CPU that executes `task` now, as far as the guest's scheduler knows (the hypervisor may
    /// have descheduled that CPU); `None` if the task is blocked or waits for its turn.
    fn task_cpu(task: u32) -> Option<u32> {
        Some(task)
    }

    /// Whether another task waits for this CPU and the executing one has had its share.
    fn need_resched() -> bool {
        false
    }

    /// Whether the executing task is to end: a wait that can be killed gives up then.
    fn killed() -> bool {
        false
    }

    /// Counts `n` more of `event` on this CPU.
    fn count(event: LockEvent, n: u64);

    /// Told of each step that `lock` takes. Does nothing unless a platform says otherwise, and then
    /// costs nothing.
    #[inline(always)]
    fn trace<L>(_lock: &L, _event: TraceEvent) {}

    /// The key under which `lock` is hashed. The address by default; a machine that must not depend
    /// on addresses returns something stable.
    fn lock_key<L>(lock: &L) -> u64 {
        core::ptr::from_ref(lock).addr() as u64
    }
}
