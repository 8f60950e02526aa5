//! A relay: each task waits for its turn, wakes the next, and waits again. What blocking and waking
//! costs, and whether every wake-up arrives.
//!
//! Tasks are in the order of their numbers, so the next one is on the same vCPU, or on the next vCPU if
//! a vCPU has one task only. `iterations` are the rounds, `locks` must be 2 at least. Ends by itself.

use super::start;
use crate::Machine;
use crate::machine::VcpuAreaExt as _;
use crate::machine::deref_slice;
use crate::task::{self, Body};
use abi::{Counter, LockSlot, TaskArea, VcpuArea};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// [`VcpuArea::hists`]: ticks from before the wake-up to running.
pub const HIST_WAKE: usize = 0;
/// [`VcpuArea::hists`]: ticks that the waker spends in waking.
pub const HIST_WAKER: usize = 1;

/// Runs the workload on this vCPU.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea) {
    start::<M>(vcpu);
    task::run::<M, Relay>();
}

struct Relay;

impl<M: Machine> Body<M> for Relay {
    fn run(vcpu: &'static VcpuArea, area: &'static TaskArea) {
        let params = &vcpu.header().params;
        let [turn, stamp] = &deref_slice::<LockSlot>(vcpu.locks, 2) else {
            unreachable!("two were asked for")
        };
        let (turn, stamp) = (turn.word(), stamp.word());
        let tasks = params.vcpus * u64::from(vcpu.run_queue.per_vcpu);
        let me = M::task();
        #[expect(clippy::cast_possible_truncation, reason = "less than 2^20 tasks")]
        let next = ((u64::from(me) + 1) % tasks) as u32;
        for round in 0..params.iterations {
            let mine = round * tasks + u64::from(me);
            // Acquire pairs with the Release below.
            while turn.load(Acquire) != mine {
                M::block_while(turn, |turn| turn != mine);
            }
            // The first turn of all was nobody's to give.
            if mine > 0 {
                let since = M::now().saturating_sub(stamp.load(Relaxed));
                vcpu.hists[HIST_WAKE].record(since);
            }
            area.writes.store(area.writes.load(Relaxed) + 1, Relaxed);
            vcpu.count(Counter::Acquisitions, 1);
            let before = M::now();
            stamp.store(before, Relaxed);
            // Release pairs with the Acquire above.
            turn.store(mine + 1, Release);
            M::wake(next);
            vcpu.hists[HIST_WAKER].record(M::now().saturating_sub(before));
        }
    }
}
