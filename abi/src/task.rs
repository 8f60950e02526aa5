//! What a task keeps for itself and shows to the host.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Most tasks of a vCPU.
pub const MAX_TASKS: usize = 64 * RUNNABLE_WORDS;

/// Words of [`RunQueue::runnable`].
const RUNNABLE_WORDS: usize = 16;

/// Values of [`TaskArea::state`].
pub mod task_state {
    /// Blocked.
    pub const BLOCKED: u32 = 0;
    /// Runs, or waits for its turn.
    pub const RUNS: u32 = 1;
    /// As [`RUNS`], and has been woken since it last looked.
    pub const WOKEN: u32 = 2;
}

/// One task's own memory, but for its stack.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct TaskArea {
    /// End of its stack, set by the host; 0 for the first task of a vCPU, which has the vCPU's own.
    pub stack_top: u64,
    /// Its stack pointer while it does not run.
    pub sp: AtomicU64,
    /// One of [`task_state`].
    pub state: AtomicU32,
    /// The phase that the figures are of.
    pub phase: AtomicU32,
    /// Reads completed in that phase.
    pub reads: AtomicU64,
    /// Writes, or exclusive acquisitions, completed in that phase.
    pub writes: AtomicU64,
    /// When the acquisition under way began; 0 if there is none, or if acquisitions are not timed. The
    /// lowest bit is 1 if it is for reading.
    pub wait_since: AtomicU64,
    /// Longest wait for a read in that phase.
    pub read_wait_max: AtomicU64,
    /// Longest wait for a write in that phase.
    pub write_wait_max: AtomicU64,
    /// When its fixed number of operations was done; 0 until then.
    pub finished: AtomicU64,
    /// Not 0: it is to end, and waits that can be killed give up.
    pub killed: AtomicU32,
}

/// A vCPU's tasks; see `guest::task`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RunQueue {
    /// The first [`TaskArea`] of the machine, set by the host.
    pub tasks: u64,
    /// The first waiter (`pvlock::wait::Waiter`, 64 bytes for each task), set by the host.
    pub waiters: u64,
    /// Tasks of each vCPU, set by the host; at least 1.
    pub per_vcpu: u32,
    /// The task that runs, by its number in the machine.
    pub current: AtomicU32,
    /// 1 while no task can run, and the vCPU halts or is about to.
    pub idle: AtomicU32,
    /// 1 while the only task of this vCPU is blocked, or the one that runs sleeps.
    pub blocked: AtomicU32,
    /// Tasks that have not ended.
    pub alive: AtomicU32,
    /// When the task that runs got the CPU.
    pub slice_start: AtomicU64,
    /// A bit for each task of this vCPU that runs or could.
    pub runnable: [AtomicU64; RUNNABLE_WORDS],
    /// Of these, a bit for each that has been woken and not run since.
    pub woken: [AtomicU64; RUNNABLE_WORDS],
    /// The last task, by its number on this vCPU, that got the CPU in its turn.
    pub turn: AtomicU32,
    /// 1 if the task that runs got the CPU out of its turn, as it had been woken.
    pub out_of_turn: AtomicU32,
}
