//! The vCPU that executes on this thread: it finds its machine here, uses lines, waits, leaves the guest, and
//! suspends itself when it is ahead of the others.
#![allow(unsafe_code)] // The executing vCPU finds its machine through its thread.

use crate::engine::{Engine, Use};
use crate::outcome::Said;
use crate::units::{NS, Ps};
use abi::{ExitReason, HostStep};
use corosensei::Yielder;
use std::cell::Cell;
use std::ptr;

struct Current {
    engine: Cell<*mut Engine>,
    area: Cell<usize>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// The vCPU that has fetched data last, when it was there, and how long that took.
    fetched: Cell<(usize, Ps, Ps)>,
}

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
pub(crate) fn with<R>(f: impl FnOnce(&mut Engine) -> R) -> R {
    let engine = CURRENT.with(|current| current.engine.get());
    // SAFETY: set by `Simulation::run_until` for as long as programs execute, and programs are all that
    // calls this; `f` does not suspend, so this is the only reference.
    f(unsafe { &mut *engine })
}

/// Lets the machine go on until it is this vCPU's turn again.
#[inline(never)]
pub(crate) fn suspend() {
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
pub(crate) fn settle() {
    if with(|e| e.turn.is_ahead()) {
        with(Engine::computes);
        suspend();
    }
}

/// Suspends the vCPU until nobody else is before it: what it does next is done at this very moment.
pub(crate) fn settle_exactly() {
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

/// Lets go of the CPU, as an interrupt is to be taken.
pub(crate) fn be_interrupted() {
    settle_exactly();
    with(Engine::computes);
    suspend();
}

#[inline(never)]
fn fetch(line: u32, how: Use) {
    if how == Use::Modify && with(|e| e.stores_conditionally()) {
        return fetch_conditionally(line);
    }
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

/// A load, and a store that succeeds if nobody else has written to the line since. One that fails has the line
/// by then, so that the next try may be quick.
fn fetch_conditionally(line: u32) {
    loop {
        settle_exactly();
        if with(|e| e.use_line(line, Use::Modify)) {
            return;
        }
        if with(|e| e.has(line)) {
            with(|e| e.line_is_here(Use::Load));
            settle_exactly();
        } else {
            with(|e| e.ask_for(line, Use::Load));
            suspend();
            with(|e| e.line_is_here(Use::Load));
            settle_exactly();
        }
        let before = with(|e| e.writes(line));
        with(|e| e.ask_for(line, Use::Modify));
        suspend();
        let since = with(|e| e.writes(line)).wrapping_sub(before);
        with(|e| e.line_is_here(Use::Modify));
        // Its own is the first.
        if since <= 1 {
            return;
        }
    }
}

/// Spins until what is at `address` may have changed, for `budget` at most; what is left of that.
pub(crate) fn spin(address: usize, budget: Ps) -> Ps {
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
pub(crate) fn pause() {
    if with(Engine::pause) {
        settle_exactly();
        with(Engine::leave_for_pause);
        with(Engine::refresh);
    }
    settle();
}

/// Computes for `time`.
pub(crate) fn spend(time: Ps) {
    with(|e| e.turn.charge(time));
}

/// Leaves the guest.
pub(crate) fn leave(why: HostStep) {
    settle_exactly();
    with(|e| e.note(why));
    spend(with(|e| e.times.exit_ns));
    settle_exactly();
}

pub(crate) fn come_back() {
    with(|e| e.note(HostStep::Enter));
    spend(with(|e| e.times.entry_ns));
    with(Engine::refresh);
}

/// How long it took to fetch the data that has just come. Work that begins now has been done meanwhile: nothing
/// of it depends on the data, so that a CPU which executes out of order, and writes by way of a buffer, does
/// not wait for it.
pub(crate) fn just_fetched() -> Ps {
    let (area, there, took) = CURRENT.with(|current| current.fetched.take());
    let now = area != 0 && area == self::area() && there == with(|e| e.turn.local());
    if now { took } else { 0 }
}

/// The executing vCPU uses the data at `address`.
pub(crate) fn touch(address: usize, write: bool) {
    let asked = with(|e| e.turn.local());
    access(address, if write { Use::Store } else { Use::Load });
    let there = with(|e| e.turn.local());
    let mut took = there - asked;
    if took > LONGEST_FETCH {
        took = 0;
    }
    CURRENT.with(|current| current.fetched.set((current.area.get(), there, took)));
}

/// The vCPU is off its CPU for `ns`.
pub(crate) fn away(ns: u64) {
    leave(HostStep::Exit(ExitReason::Preempt));
    with(|e| e.stay_away(ns));
    suspend();
}

/// The address of the executing vCPU's area.
#[inline(always)]
pub(crate) fn area() -> usize {
    CURRENT.with(|current| current.area.get())
}

pub(crate) fn address_of<T>(object: &T) -> usize {
    ptr::from_ref(object).addr()
}
