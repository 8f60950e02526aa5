//! Locks whose waiters sleep: they leave the CPU to other tasks.
//!
//! | lock         | what it is                                                        |
//! |--------------|-------------------------------------------------------------------|
//! | [`mutex`]    | one owner; optimistic spinning, then a queue with a hand-over       |
//! | [`mutex_316`] | its predecessor, without a hand-over                               |
//! | [`rwsem`]    | readers or one writer; the same, and bounded spinning on readers     |
//! | [`rwsem_xadd`] | its predecessor, and what was proposed for it, each by a switch    |
//!
//! They share three pieces.
//!
//! * [`osq`]: who finds the owner running spins rather than sleeps, since the owner will be done before
//!   a sleep has begun; the queue lets one at a time do so.
//! * [`list`]: the tasks that sleep, in the order in which they came, guarded by a *wait lock*: a
//!   spinlock of any kind, by default the native qspinlock.
//! * A task that wakes others collects them under the wait lock and wakes them after it has let go of it, so
//!   that they do not run into it at once.
//!
//! # No lost wake-up
//! A waiter sleeps while its [`Waiter::granted`](crate::wait::Waiter::granted) is [`ASLEEP`]. It writes
//! that under the wait lock, after it has found under the same wait lock that it must wait; and it is in
//! the list. A release that sees that there are waiters takes the wait lock, and writes
//! [`WOKEN`] or [`GRANTED`]. So a wake-up cannot be lost even if what [`Platform::wake`] leaves behind is
//! used up by another wait of the same CPU, such as that of a halting wait lock.
//!
//! The lock word must not let the releaser miss the waiter either; each lock says how it does that.

mod debug;
pub mod list;
pub mod mutex;
pub mod mutex_316;
pub mod osq;
pub mod rwsem;
pub mod rwsem_xadd;
pub mod within;

use crate::Platform;

/// A waiter is to sleep.
pub const ASLEEP: u32 = 0;
/// A waiter is to look again whether it can have the lock.
pub const WOKEN: u32 = 1;
/// A waiter has the lock.
pub const GRANTED: u32 = 2;

/// The executing task's name: its number plus one, as 0 is nobody.
#[inline(always)]
fn me<P: Platform>() -> u32 {
    let task = P::task();
    debug_assert!(task < 1 << 20, "a platform has fewer tasks");
    task + 1
}

/// Whether the task of that name may be waited for by spinning: it executes, and nothing is known of
/// the hypervisor having taken its CPU away.
fn runs<P: Platform>(name: u32) -> bool {
    P::task_cpu(name - 1).is_some_and(|cpu| !preempted::<P>(cpu))
}

/// Whether the hypervisor is known to have taken `cpu` away. Where that cannot be known, it has not.
fn preempted<P: Platform>(cpu: u32) -> bool {
    P::vcpu_is_preempted(cpu) == Some(true)
}

/// The CPU of the task of that name, for a trace.
fn cpu_of<P: Platform>(name: u32) -> Option<u32> {
    name.checked_sub(1).and_then(P::task_cpu)
}
