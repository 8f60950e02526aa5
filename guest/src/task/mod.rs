//! Tasks: several on each vCPU, taking turns by their own will.
//!
//! A task runs until it blocks, ends, or gives way at a point of its choosing ([`give_way`]). Each vCPU
//! has its own tasks for good, and a bit for each that can run; it takes them in turn, and halts when
//! there is none. Whoever wakes a task of a vCPU that halts kicks it.
//!
//! # Woken tasks go first
//! As kernels do, a vCPU lets a task that has slept run before those that have not: the one that runs gives
//! way to it after [`WOKEN_NS`] instead of [`SLICE_NS`]. Of two tasks that get the CPU one after the other,
//! one at least gets it in its turn, so that nobody starves: with n tasks, a woken one runs after the CPU has
//! been given to others 2n - 1 times at most, and so does any other that can run.
//!
//! # Wake-ups are not lost
//! | task that blocks                        | who wakes it                               |
//! |-----------------------------------------|--------------------------------------------|
//! | clears its bit                          |                                            |
//! | state RUNS -> BLOCKED, or it was WOKEN: | state -> WOKEN; if it was BLOCKED:         |
//! | sets its bit again, and goes on         | sets its bit                               |
//!
//! | vCPU without a task                     | who wakes a task of it                     |
//! |-----------------------------------------|--------------------------------------------|
//! | idle = 1                                | sets its bit                               |
//! | fence                                   | fence                                      |
//! | looks at the bits; halts if all clear   | looks at idle; kicks if set                |
//!
//! Kicks stick, so one that comes between the look and the halt ends the halt at once.

#[cfg(target_arch = "x86_64")]
mod switch;

use crate::machine::VcpuAreaExt as _;
use crate::machine::{area as vcpu_area, deref};
use crate::{Machine, work};
use abi::task_state::{BLOCKED, RUNS, WOKEN};
use abi::{Layout, MAX_TASKS, RunQueue, TaskArea, VcpuArea};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use pvlock::atomic::Watch;
use pvlock::wait::Waiter;

/// How long a task may keep the CPU from others that can run, ns: a tick of a kernel with 250 of them
/// a second.
pub const SLICE_NS: u64 = 4_000_000;

/// How long a task may keep the CPU from one that has been woken, ns: the least wake-up granularity of
/// Linux's scheduler before 6.6.
pub const WOKEN_NS: u64 = 1_000_000;

/// How much later than asked for a sleep ends: the default slack of Linux's timers (prctl(2),
/// PR_SET_TIMERSLACK), which [`Machine::hold_off`] has by itself.
const TIMER_SLACK_NS: u64 = 50_000;

/// What a task does.
pub trait Body<M: Machine> {
    /// Called once in each task.
    fn run(vcpu: &'static VcpuArea, task: &'static TaskArea);
}

fn queue<M: Machine>() -> &'static RunQueue {
    &M::vcpu().run_queue
}

/// The area of task number `task` of the machine.
pub fn area<M: Machine>(task: u32) -> &'static TaskArea {
    deref(queue::<M>().tasks + u64::from(task) * size_of::<TaskArea>() as u64)
}

/// For [`pvlock::Platform::task`].
#[inline(always)]
pub fn current<M: Machine>() -> u32 {
    queue::<M>().current.load(Relaxed)
}

/// For [`pvlock::Platform::waiter`].
pub fn waiter<M: Machine>(task: u32) -> &'static Waiter<M> {
    const { assert!(Layout::fits::<M>()) };
    deref(queue::<M>().waiters + u64::from(task) * Layout::WAITER_BYTES as u64)
}

/// For [`pvlock::Platform::task_cpu`].
pub fn cpu_of<M: Machine>(task: u32) -> Option<u32> {
    let cpu = task / queue::<M>().per_vcpu;
    let queue = &vcpu_area::<M>(cpu).run_queue;
    let runs = queue.current.load(Relaxed) == task
        && queue.idle.load(Relaxed) == 0
        && queue.blocked.load(Relaxed) == 0;
    runs.then_some(cpu)
}

/// For [`pvlock::Platform::killed`].
pub fn killed<M: Machine>() -> bool {
    // A task that kills another also wakes it, which orders this.
    area::<M>(current::<M>()).killed.load(Relaxed) != 0
}

/// Tells `task` to end: a wait of its that can be killed ends.
pub fn kill<M: Machine>(task: u32) {
    area::<M>(task).killed.store(1, Relaxed);
    wake::<M>(task);
}

/// Lets the executing task live on.
pub fn revive<M: Machine>() {
    area::<M>(current::<M>()).killed.store(0, Relaxed);
}

/// Runs `B` in every task of this vCPU; returns when all have ended.
pub fn run<M: Machine, B: Body<M>>() {
    let vcpu = M::vcpu();
    let queue = &vcpu.run_queue;
    let first = vcpu.cpu * queue.per_vcpu;
    assert!(
        (1..=MAX_TASKS).contains(&(queue.per_vcpu as usize)),
        "a vCPU has 1 to {MAX_TASKS} tasks"
    );
    #[cfg(target_arch = "x86_64")]
    for task in first + 1..first + queue.per_vcpu {
        let area = area::<M>(task);
        let sp = switch::prepare(area.stack_top, entry::<M, B>);
        area.sp.store(sp, Relaxed);
    }
    queue.alive.store(queue.per_vcpu, Relaxed);
    for task in first..first + queue.per_vcpu {
        area::<M>(task).state.store(RUNS, Relaxed);
        set_runnable(queue, task - first);
    }
    queue.slice_start.store(M::now(), Relaxed);
    B::run(vcpu, area::<M>(first));
    // The first task has the vCPU's own stack, and stays to the end.
    end::<M>();
    while queue.alive.load(Relaxed) > 0 {
        next::<M>();
    }
}

/// Where tasks other than the first begin.
#[cfg(target_arch = "x86_64")]
extern "C" fn entry<M: Machine, B: Body<M>>() -> ! {
    B::run(M::vcpu(), area::<M>(current::<M>()));
    end::<M>();
    loop {
        next::<M>();
    }
}

/// The executing task will not run again, but for the first, which waits for the others.
fn end<M: Machine>() {
    let queue = queue::<M>();
    let left = queue.alive.load(Relaxed) - 1;
    queue.alive.store(left, Relaxed);
    let own = current::<M>() % queue.per_vcpu;
    clear_runnable(queue, own);
    if left == 0 {
        // Nobody else can: let the first task find out.
        set_runnable(queue, 0);
    }
}

/// For [`pvlock::Platform::block_while`].
pub fn block_while<M: Machine, W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
    let queue = queue::<M>();
    if queue.per_vcpu == 1 {
        queue.blocked.store(1, Relaxed);
        M::halt_while(word, asleep);
        queue.blocked.store(0, Relaxed);
        return;
    }
    if !asleep(word.load(Acquire)) {
        return;
    }
    let own = current::<M>() % queue.per_vcpu;
    let state = &area::<M>(current::<M>()).state;
    clear_runnable(queue, own);
    // AcqRel pairs with the swap in wake(): see the first table of the module.
    if state
        .compare_exchange(RUNS, BLOCKED, AcqRel, Acquire)
        .is_err()
    {
        set_runnable(queue, own);
    } else {
        next::<M>();
    }
    // A swap, so that what a second waker wrote is visible although its mark is wiped out here.
    state.swap(RUNS, AcqRel);
}

/// For [`pvlock::Platform::wake`].
pub fn wake<M: Machine>(task: u32) {
    let per_vcpu = queue::<M>().per_vcpu;
    let cpu = task / per_vcpu;
    if per_vcpu == 1 {
        M::kick(cpu);
        return;
    }
    // AcqRel pairs with the exchange in block_while(); Release also publishes what the waker wrote.
    if area::<M>(task).state.swap(WOKEN, AcqRel) != BLOCKED {
        return;
    }
    let queue = &vcpu_area::<M>(cpu).run_queue;
    let (word, bit) = bit(task % per_vcpu);
    // Published by set_runnable().
    queue.woken[word].fetch_or(bit, Relaxed);
    set_runnable(queue, task % per_vcpu);
    // Second table of the module.
    fence(SeqCst);
    if cpu != M::cpu() && queue.idle.load(Relaxed) != 0 {
        M::kick(cpu);
    }
}

/// For [`pvlock::Platform::need_resched`].
pub fn need_resched<M: Machine>() -> bool {
    let queue = queue::<M>();
    if queue.per_vcpu == 1 {
        return false;
    }
    let khz = M::vcpu().header().params.tsc_khz;
    let ran = M::now().wrapping_sub(queue.slice_start.load(Relaxed));
    ran > work::ticks(WOKEN_NS, khz)
        && (woken_from(queue, 0).is_some()
            || ran > work::ticks(SLICE_NS, khz)
                && others_can_run(queue, current::<M>() % queue.per_vcpu))
}

/// Lets another task run, if one can and this one has had its slice. Not to be called with a
/// spinlock held.
#[inline(always)]
pub fn give_way<M: Machine>() {
    if queue::<M>().per_vcpu > 1 && need_resched::<M>() {
        next::<M>();
    }
}

/// Lets another task run, if one can. Not to be called with a spinlock held.
pub fn step_aside<M: Machine>() {
    let queue = queue::<M>();
    if others_can_run(queue, current::<M>() % queue.per_vcpu) {
        next::<M>();
    }
}

/// Lets `ns` pass, and what timers take longer; other tasks of this vCPU run meanwhile, if they can.
/// Not to be called with a spinlock held.
pub fn sleep<M: Machine>(ns: u32) {
    let queue = queue::<M>();
    let (begun, whole) = (M::now(), M::ticks(u64::from(ns) + TIMER_SLACK_NS));
    while M::now().saturating_sub(begun) < whole {
        if others_can_run(queue, current::<M>() % queue.per_vcpu) {
            next::<M>();
        } else {
            // Tasks that wait for what this one holds need not spin for it.
            queue.blocked.store(1, Relaxed);
            M::hold_off(ns);
            queue.blocked.store(0, Relaxed);
            return;
        }
    }
}

fn bit(index: u32) -> (usize, u64) {
    (index as usize / 64, 1 << (index % 64))
}

fn set_runnable(queue: &RunQueue, index: u32) {
    let (word, bit) = bit(index);
    // Release pairs with the Acquire in pick(): what the waker wrote is visible to the task.
    queue.runnable[word].fetch_or(bit, Release);
}

fn clear_runnable(queue: &RunQueue, index: u32) {
    let (word, bit) = bit(index);
    queue.runnable[word].fetch_and(!bit, Relaxed);
}

fn others_can_run(queue: &RunQueue, own: u32) -> bool {
    let (own_word, own_bit) = bit(own);
    let words = queue
        .runnable
        .iter()
        .take(queue.per_vcpu.div_ceil(64) as usize);
    words.enumerate().any(|(word, bits)| {
        let own = if word == own_word { own_bit } else { 0 };
        bits.load(Relaxed) & !own != 0
    })
}

/// The first task, from that one on and round again, whose bit is set in the words that `bits` gives.
fn first_from(queue: &RunQueue, from: u32, bits: impl Fn(usize) -> u64) -> Option<u32> {
    let words = queue.per_vcpu.div_ceil(64);
    let (from_word, from_bit) = bit(from % queue.per_vcpu);
    // The bits from `from` on, the other words, the first word again.
    (0..=words).find_map(|step| {
        #[expect(clippy::cast_possible_truncation, reason = "less than MAX_TASKS / 64")]
        let word = (from_word as u32 + step) % words;
        let mut set = bits(word as usize);
        if step == 0 {
            set &= !(from_bit - 1);
        }
        (set != 0).then(|| word * 64 + set.trailing_zeros())
    })
}

/// The first that can run.
fn runnable_from(queue: &RunQueue, from: u32) -> Option<u32> {
    // Acquire pairs with the Release in set_runnable().
    first_from(queue, from, |word| queue.runnable[word].load(Acquire))
}

/// The first that can run and has been woken.
fn woken_from(queue: &RunQueue, from: u32) -> Option<u32> {
    // Acquire, likewise: the mark of a task that can run is seen.
    first_from(queue, from, |word| {
        queue.runnable[word].load(Acquire) & queue.woken[word].load(Relaxed)
    })
}

/// Which task is to run after `own`: one that has been woken, unless `own` itself ran out of its turn, or
/// the next in turn. What it takes it marks.
fn choose(queue: &RunQueue, own: u32) -> Option<u32> {
    let turn = queue.turn.load(Relaxed);
    let in_turn = runnable_from(queue, turn + 1)?;
    let woken = match queue.out_of_turn.load(Relaxed) {
        0 => woken_from(queue, own + 1),
        _ => None,
    };
    let chosen = woken.unwrap_or(in_turn);
    if chosen == in_turn {
        queue.turn.store(chosen, Relaxed);
    }
    queue.out_of_turn.store((chosen != in_turn).into(), Relaxed);
    let (word, bit) = bit(chosen);
    queue.woken[word].fetch_and(!bit, Relaxed);
    Some(chosen)
}

/// Runs the next task that can run; halts while there is none. Returns when it is our turn again.
fn next<M: Machine>() {
    let queue = queue::<M>();
    let own = current::<M>() % queue.per_vcpu;
    let next = loop {
        if let Some(next) = choose(queue, own) {
            break next;
        }
        queue.idle.store(1, Relaxed);
        fence(SeqCst);
        // Any word would do to halt on: what is to be looked at is all of them.
        M::halt_while(&queue.idle, |_| runnable_from(queue, 0).is_none());
        queue.idle.store(0, Relaxed);
    };
    queue.slice_start.store(M::now(), Relaxed);
    if next == own {
        return;
    }
    let first = M::vcpu().cpu * queue.per_vcpu;
    queue.current.store(first + next, Relaxed);
    #[cfg(target_arch = "x86_64")]
    switch::to(&area::<M>(first + own).sp, &area::<M>(first + next).sp);
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("several tasks of a vCPU are for x86-64");
}

#[cfg(test)]
mod tests;
