//! The platform of a simulated vCPU: every atomic operation, wait and hypercall of the locks and of the
//! workloads is charged for, and may suspend the vCPU until it has happened.
#![allow(unsafe_code)] // The executing vCPU finds its machine through its thread.

use crate::engine::{Engine, Use};
use crate::hypervisor::HostStep;
use crate::simulation::Said;
use crate::units::{NS, Ps};
use corosensei::Yielder;
use guest::Machine;
use guest::abi::{Counter, VcpuArea, flags};
use guest::machine::{native, vcpu_at};
use pvlock::atomic::Watch;
use pvlock::pv_hash::HashSlot;
use pvlock::wait::Waiter;
use pvlock::{LockEvent, PerCpu, Platform, TraceEvent};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

struct Current {
    engine: Cell<*mut Engine>,
    area: Cell<usize>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// The vCPU that has fetched data last, when it was there, and how long that took.
    fetched: Cell<(usize, Ps, Ps)>,
}

/// Turns of a wait after which it is asked again whether to give up, for reasons that are no word's value.
const TURNS_UNTIL_ASKED: Ps = 64;

/// What takes longer than this was not the fetch of a line: the vCPU was off its CPU meanwhile.
const LONGEST_FETCH: Ps = 100_000 * NS;

thread_local! {
    static CURRENT: Current = const {
        Current {
            engine: Cell::new(ptr::null_mut()),
            area: Cell::new(0),
            yielder: Cell::new(ptr::null()),
            fetched: Cell::new((0, 0, 0)),
        }
    };
}

/// `engine` is about to run on this thread; returns what ran before.
pub(crate) fn enter(engine: *mut Engine) -> *mut Engine {
    CURRENT.with(|current| current.engine.replace(engine))
}

/// The vCPU with this area, which suspends itself by `yielder`, is about to execute.
#[inline(always)]
pub(crate) fn set_current(area: usize, yielder: *const Yielder<(), ()>) {
    CURRENT.with(|current| {
        current.area.set(area);
        current.yielder.set(yielder);
    });
}

/// The executing vCPU begins; it suspends itself by `yielder`.
pub(crate) fn begin(yielder: &Yielder<(), ()>) {
    let yielder = ptr::from_ref(yielder);
    let area = with(|e| e.begins(yielder));
    set_current(area, yielder);
}

/// The executing vCPU ends, or has panicked with that message.
pub(crate) fn end(outcome: Result<(), String>) {
    settle_exactly();
    with(|e| {
        e.says(match outcome {
            Ok(()) => Said::Done,
            Err(message) => Said::Panicked(message),
        });
    });
}

/// The executing vCPU's machine.
#[inline(always)]
fn with<R>(f: impl FnOnce(&mut Engine) -> R) -> R {
    let engine = CURRENT.with(|current| current.engine.get());
    // SAFETY: set by `Simulation::run_until` for as long as programs execute, and programs are all that
    // calls this; `f` does not suspend, so this is the only reference.
    f(unsafe { &mut *engine })
}

/// Lets the machine go on until it is this vCPU's turn again.
#[inline(never)]
fn suspend() {
    let here = 0_u8;
    let at = ptr::from_ref(&here).addr();
    if with(|e| e.stack_is_low(at)) {
        give_up("its stack is used up");
    }
    go_on();
}

/// The executing vCPU says why it cannot go on, and never does. A panic would need more stack, and a task
/// has nobody to catch it.
#[cold]
fn give_up(why: &str) -> ! {
    with(|e| e.says(Said::Panicked(why.to_owned())));
    loop {
        with(Engine::halt);
        go_on();
    }
}

fn go_on() {
    let yielder = CURRENT.with(|current| current.yielder.get());
    // SAFETY: a program sets it to its own when it begins, and the machine whenever it goes on.
    unsafe { &*yielder }.suspend(());
}

/// Suspends the vCPU if it is too far ahead of the others.
#[inline(always)]
fn settle() {
    if with(|e| e.turn.is_ahead()) {
        with(Engine::computes);
        suspend();
    }
}

/// Suspends the vCPU until nobody else is before it: what it does next is done at this very moment.
fn settle_exactly() {
    while with(|e| e.turn.is_ahead_at_all()) {
        with(Engine::computes);
        suspend();
    }
    with(Engine::synchronize);
}

/// The executing vCPU uses what is at `address`.
#[inline(always)]
pub(crate) fn access(address: usize, how: Use) {
    let line = with(|e| {
        let line = e.turn.line_at(address);
        if e.use_line(line, how) {
            None
        } else {
            Some(line)
        }
    });
    if let Some(line) = line {
        fetch(line, how);
    }
}

#[inline(never)]
fn fetch(line: u32, how: Use) {
    settle_exactly();
    let there = with(|e| {
        let there = e.use_line(line, how);
        if !there {
            e.ask_for(line, how);
        }
        there
    });
    if !there {
        suspend();
        with(|e| e.line_is_here(how));
    }
}

/// Spins until what is at `address` may have changed, for `budget` at most; what is left of that.
fn spin(address: usize, budget: Ps) -> Ps {
    let line = with(|e| e.turn.line_at(address));
    if !with(|e| e.has(line)) {
        // It has just been read, and no line has come: the word is not one that is charged for, and nobody
        // would tell of a change. It is looked at again and again, as on any machine.
        pause();
        return budget.saturating_sub(with(|e| e.turn_of_wait()));
    }
    settle_exactly();
    if with(|e| e.spin(line, budget)) {
        suspend();
        return with(|e| e.spin_left());
    }
    budget
}

/// One turn of a busy-wait loop.
fn pause() {
    if with(Engine::pause) {
        settle_exactly();
        with(Engine::leave_for_pause);
        with(Engine::refresh);
    }
    settle();
}

/// Computes for `time`.
fn spend(time: Ps) {
    with(|e| e.turn.charge(time));
}

/// Leaves the guest.
fn leave(why: HostStep) {
    settle_exactly();
    with(|e| e.note(why));
    spend(with(|e| e.times.exit_ns));
    settle_exactly();
}

fn come_back() {
    with(|e| e.note(HostStep::Enter));
    spend(with(|e| e.times.entry_ns));
    with(Engine::refresh);
}

/// How long it took to fetch the data that has just come. Work that begins now has been done meanwhile: nothing
/// of it depends on the data, so that a CPU which executes out of order, and writes by way of a buffer, does
/// not wait for it.
fn just_fetched() -> Ps {
    let (area, there, took) = CURRENT.with(|current| current.fetched.take());
    let now = area != 0
        && area == CURRENT.with(|current| current.area.get())
        && there == with(|e| e.turn.local());
    if now { took } else { 0 }
}

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

fn address_of<T>(object: &T) -> usize {
    ptr::from_ref(object).addr()
}

// SAFETY: a vCPU's number and all storage are those of its area in the region, as in the guest image. vCPUs
// take turns on one thread, so every access is one step, in one order for all. A vCPU that panics says so
// and never goes on; so do the others of its VM then, as far as they wait for it.
unsafe impl<const TRACE: bool> Platform for Simulated<TRACE> {
    type U32 = crate::atomics::U32;
    type U64 = crate::atomics::U64;
    type LockWord = crate::atomics::Word;

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
            with(|e| e.turn.charge_modify());
        }
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
        leave(HostStep::ExitHalt);
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
        leave(HostStep::ExitYield);
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

/// The vCPU is off its CPU for `ns`.
fn away(ns: u64) {
    leave(HostStep::ExitPreempt);
    with(|e| e.stay_away(ns));
    suspend();
}

impl<const TRACE: bool> Machine for Simulated<TRACE> {
    const INSTRUMENTED: bool = TRACE;

    #[inline(always)]
    fn vcpu() -> &'static VcpuArea {
        let area = CURRENT.with(|current| current.area.get());
        // SAFETY: the machine has set it to that of the vCPU that executes, whose region outlives it.
        unsafe { vcpu_at(area) }
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
        let asked = with(|e| e.turn.local());
        access(address_of(data), if write { Use::Store } else { Use::Load });
        let there = with(|e| e.turn.local());
        let mut took = there - asked;
        if took > LONGEST_FETCH {
            took = 0;
        }
        CURRENT.with(|current| current.fetched.set((current.area.get(), there, took)));
    }

    fn hold_off(ns: u32) {
        away(u64::from(ns) + with(|e| e.times.timer_slack_ns) / NS);
    }

    fn log(message: &str) {
        Self::vcpu().set_log(message);
        with(|e| e.says(Said::Log(message.to_owned())));
    }
}
