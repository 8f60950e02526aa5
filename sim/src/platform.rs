//! The platform of a simulated vCPU: every atomic operation, wait and hypercall of the locks and of the
//! workloads is charged for, and may suspend the vCPU until it has happened.
#![allow(unsafe_code)] // A vCPU's area is given by its address.

use crate::engine::Engine;
use crate::executing::{
    self, address_of, away, come_back, just_fetched, leave, pause, settle, settle_exactly, spend,
    spin, suspend, with,
};
use crate::outcome::Said;
use crate::units::{NS, Ps};
use abi::{Counter, ExitReason, HostStep, VcpuArea, flags};
use guest::Machine;
use guest::machine::VcpuAreaExt as _;
use guest::machine::vcpu_at;
use guest::native;
use pvlock::LockKind;
use pvlock::atomic::Watch;
use pvlock::pv_hash::HashSlot;
use pvlock::wait::Waiter;
use pvlock::word::PortableWord;
use pvlock::{LockEvent, PerCpu, Platform, TraceEvent};
use std::sync::atomic::Ordering;

/// Turns of a wait after which it is asked again whether to give up, for reasons that are no word's value.
const TURNS_UNTIL_ASKED: Ps = 64;

/// A simulated vCPU. `TRACE`: the steps of acquisitions are seen.
pub(crate) struct Simulated<const TRACE: bool>;

impl<const TRACE: bool> Simulated<TRACE> {
    /// Whether each turn of a wait must be executed, as it may be interrupted.
    fn takes_each_turn() -> bool {
        TRACE && Self::vcpu().header().params.contexts > 1
    }

    /// Waits for `word` to change, for `budget` at most, or for one turn; what is left of the budget.
    fn wait<W: Watch>(word: &W, budget: Ps) -> Ps {
        if Self::takes_each_turn() {
            Self::relax();
            return budget.saturating_sub(with(|e| e.turn_of_wait()));
        }
        spin(address_of(word), budget)
    }
}

#[deny(clippy::missing_trait_methods)] // What is new there is to be decided on here.
// SAFETY: a vCPU's number and all storage are those of its area in the region, as in the guest image. vCPUs
// take turns on one thread, so every access is one step, in one order for all. A vCPU that panics says so
// and never goes on; so do the others of its VM then, as far as they wait for it.
unsafe impl<const TRACE: bool> Platform for Simulated<TRACE> {
    type U32 = crate::atomics::U32;
    type U64 = crate::atomics::U64;
    type LockWord = PortableWord<crate::atomics::U32>;

    // As on the machines of this kind that it stands for.
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

    fn fence(order: Ordering) {
        // On x86 all but the full fence are for the compiler.
        if order == Ordering::SeqCst {
            spend(with(|e| e.times.fence_ns));
        }
    }

    /// For the compiler only.
    #[inline(always)]
    fn light_barrier() {}

    fn heavy_barrier() {
        leave(HostStep::Exit(ExitReason::Barrier));
        with(Engine::barrier);
        spend(with(|e| e.times.kick_ns));
        come_back();
    }

    fn relax() {
        pause();
        if TRACE {
            guest::workload::nested::while_spinning::<Self>();
        }
    }

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
            Self::wait(word, Ps::MAX);
        }
    }

    fn spin_unless<W: Watch>(
        word: &W,
        order: Ordering,
        mut done: impl FnMut(W::Value) -> bool,
        mut give_up: impl FnMut() -> bool,
    ) -> Option<W::Value> {
        let turns = with(|e| e.turn_of_wait()) * TURNS_UNTIL_ASKED;
        loop {
            let value = word.load(order);
            if done(value) {
                return Some(value);
            }
            if give_up() {
                return None;
            }
            Self::wait(word, turns);
        }
    }

    fn spin_for<W: Watch>(
        word: &W,
        order: Ordering,
        budget: &mut u32,
        mut done: impl FnMut(W::Value) -> bool,
    ) -> Option<W::Value> {
        let turn = with(|e| e.turn_of_wait());
        while *budget > 0 {
            *budget -= 1;
            let value = word.load(order);
            if done(value) {
                return Some(value);
            }
            // One turn at least, even if that was the last.
            let left = Self::wait(word, (u64::from(*budget) + 1) * turn);
            *budget = (*budget).min(u32::try_from(left / turn).unwrap_or(u32::MAX));
        }
        None
    }

    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        if !asleep(word.load(Ordering::Acquire)) {
            return;
        }
        Self::vcpu().count(Counter::Halts, 1);
        leave(HostStep::Exit(ExitReason::Halt));
        if with(Engine::halt) {
            suspend();
        } else {
            come_back();
        }
    }

    fn kick(cpu: u32) {
        let vcpu = Self::vcpu();
        vcpu.count(Counter::Kicks, 1);
        if vcpu.header().params.flags & flags::DROP_KICKS == 0 {
            settle_exactly();
            with(|e| e.kick_fellow(cpu));
            spend(with(|e| e.times.kick_ns));
            with(Engine::refresh);
        }
    }

    fn yield_to(cpu: u32) {
        let vcpu = Self::vcpu();
        vcpu.count(Counter::Yields, 1);
        leave(HostStep::Exit(ExitReason::Yield));
        let yielded = with(|e| e.yield_to(cpu));
        for &counter in yielded.counters() {
            vcpu.count(counter, 1);
        }
        come_back();
        // It may have given up its own CPU.
        settle_exactly();
    }

    fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
        settle();
        native::vcpu_is_preempted::<Self>(cpu)
    }

    fn now() -> u64 {
        spend(with(|e| e.times.clock_ns));
        settle();
        with(|e| e.turn.local() / NS)
    }

    /// The clock counts nanoseconds.
    fn ticks(ns: u64) -> u64 {
        ns
    }

    fn numa_node(cpu: u32) -> u32 {
        if Self::vcpu().header().params.numa_nodes > 1 {
            native::numa_node::<Self>(cpu)
        } else {
            with(|e| e.socket_of(cpu))
        }
    }

    fn in_interrupt() -> bool {
        native::in_interrupt::<Self>()
    }

    fn pv_spin_threshold() -> u32 {
        native::pv_spin_threshold::<Self>()
    }

    fn task() -> u32 {
        guest::task::current::<Self>()
    }

    fn waiter(task: u32) -> &'static Waiter<Self> {
        guest::task::waiter(task)
    }

    fn block_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        guest::task::block_while::<Self, W>(word, asleep);
    }

    fn wake(task: u32) {
        guest::task::wake::<Self>(task);
    }

    fn task_cpu(task: u32) -> Option<u32> {
        guest::task::cpu_of::<Self>(task)
    }

    fn need_resched() -> bool {
        guest::task::need_resched::<Self>()
    }

    fn killed() -> bool {
        guest::task::killed::<Self>()
    }

    #[inline(always)]
    fn count(event: LockEvent, n: u64) {
        native::count::<Self>(event, n);
    }

    #[inline(always)]
    fn trace<L>(lock: &L, event: TraceEvent) {
        if TRACE {
            guest::trace::record::<Self, L>(lock, event);
            if let TraceEvent::Acquired(_) = event
                && let Some(ns) = with(Engine::section_begins)
            {
                away(ns);
            }
        }
    }

    fn lock_key<L>(lock: &L) -> u64 {
        // Where it is in the region, which is the same in every process.
        (address_of(lock) - with(|e| e.turn.base())) as u64
    }
}

impl<const TRACE: bool> Machine for Simulated<TRACE> {
    type Lock = LockKind;

    const INSTRUMENTED: bool = TRACE;

    #[inline(always)]
    fn vcpu() -> &'static VcpuArea {
        // SAFETY: the machine has set it to that of the vCPU that executes, whose region outlives it.
        unsafe { vcpu_at(executing::area()) }
    }

    /// A unit is a picosecond.
    fn work(units: u64) {
        let fetched = just_fetched();
        if units > 0 {
            with(|e| e.turn.charge_beside(units, fetched));
            settle();
        }
    }

    fn unit_ps() -> Option<u64> {
        Some(1024)
    }

    fn touches<T>(data: &T, write: bool) {
        executing::touch(address_of(data), write);
    }

    fn looped() {
        spend(with(|e| e.varied(e.times.loop_ns)));
        settle();
    }

    fn system_call() {
        spend(with(|e| e.varied(e.times.syscall_ns)));
        settle();
    }

    fn mask_interrupts(masked: bool) {
        settle();
        if with(|e| e.mask(masked)) {
            executing::be_interrupted();
        }
    }

    /// In pieces, as somebody may want the vCPU to stop.
    fn delay(ns: u64, goes_on: impl Fn() -> bool) {
        const PIECE_NS: u64 = 50_000;
        let mut left = ns;
        while left > 0 && goes_on() {
            let piece = left.min(PIECE_NS);
            spend(piece * NS);
            settle();
            left -= piece;
        }
    }

    fn hold_off(ns: u32) {
        away(u64::from(ns) + with(|e| e.times.timer_slack_ns) / NS);
    }

    fn log(message: &str) {
        Self::vcpu().set_log(message);
        with(|e| e.says(Said::Log(message.to_owned())));
    }
}
