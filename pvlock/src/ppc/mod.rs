//! The spinlocks of Linux on powerpc, which know who holds them and give their time to it.
//!
//! A vCPU there can offer the rest of its time to another one by name, and a lock that names its
//! holder makes use of that: waiters run the holder instead of spinning for it. See [`simple`] for
//! the old lock and [`queued`] for the one that replaced it.
//!
//! # When to yield
//! A waiter yields to a vCPU that [`Platform::vcpu_is_preempted`] says is descheduled, and does not
//! yield to one that runs. Where the answer is unknown, it suspects one for which it has waited
//! [`SUSPECT_TURNS`] turns.
//!
//! Waiters never halt, so a release kicks nobody. (Of the three helpers that the powerpc series
//! introduced, yield, kick and wake-up by "prod", the last is for halted queue heads only, which
//! are in [`crate::qspinlock::pv`].)

pub mod queued;
pub mod simple;

use crate::Platform;
use crate::trace::TraceEvent;

/// Turns of waiting after which a vCPU is suspected to be descheduled, if that is unknown.
///
/// Such that waiting has cost as much as a yield in vain, which is a VM exit and a system call: 256
/// turns of `pause` are 3 us where one takes 13 ns, 11 us where it takes 43 ns. A waiter that stops then
/// loses at most as much again as it would by knowing the future (the ski-rental bound). It is also
/// what processors deem suspicious themselves: pause-loop exiting in KVM has a window of 4,096 cycles.
pub const SUSPECT_TURNS: u32 = 256;

/// Turns between two questions whether a vCPU still runs: a load, from a line that only the hypervisor
/// writes.
const LOOK_TURNS: u32 = 32;

const _: () = assert!(SUSPECT_TURNS.is_multiple_of(LOOK_TURNS));

/// Whether to yield to `cpu` after `turns` of waiting for it.
fn seems_preempted<P: Platform>(cpu: u32, turns: u32) -> bool {
    P::vcpu_is_preempted(cpu).unwrap_or(turns >= SUSPECT_TURNS)
}

/// Offers our time to `cpu`, which keeps `lock` from us.
fn yield_to<P: Platform, L>(lock: &L, cpu: u32) {
    P::trace(lock, TraceEvent::Yield(cpu));
    P::yield_to(cpu);
}
