//! One acquisition, with its check ([`LockSlot::enter`], [`LockSlot::read_enter`]) and its figures.

use super::subject::{self, Subject};
use crate::Machine;
use crate::abi::{Counter, LockSlot, VcpuArea};
use crate::hist::Hist;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// [`VcpuArea::hists`]: how long acquisitions waited that were not for reading, if they are timed.
pub const HIST_WAIT: usize = 0;
/// [`VcpuArea::hists`]: how long critical sections took (a sample).
pub const HIST_CRITICAL: usize = 1;
/// [`VcpuArea::hists`]: how long the work between two acquisitions took (a sample).
pub const HIST_OUTSIDE: usize = 2;
/// [`VcpuArea::hists`]: scratch, for finding out what timing costs.
pub(super) const HIST_SCRATCH: usize = 3;
/// [`VcpuArea::hists`]: how long acquisitions waited that were for reading, if they are timed.
pub const HIST_READ_WAIT: usize = 4;

/// Where a wait is noted.
struct Wait<'a> {
    since: &'a AtomicU64,
    longest: &'a AtomicU64,
    hist: &'a Hist,
}

impl<'a> Wait<'a> {
    #[inline(always)]
    fn of(vcpu: &'a VcpuArea, read: bool) -> Self {
        if read {
            Self {
                since: &vcpu.read_wait_since,
                longest: &vcpu.read_wait_max,
                hist: &vcpu.hists[HIST_READ_WAIT],
            }
        } else {
            Self {
                since: &vcpu.wait_since,
                longest: &vcpu.wait_max,
                hist: &vcpu.hists[HIST_WAIT],
            }
        }
    }
}

/// Takes the lock in `slot`, for reading if `read`, computes for `critical` units, and releases it;
/// `interrupt` is called in between. Returns when it was taken, if that was noted.
#[inline(always)]
pub(super) fn turn<M: Machine, S: Subject, const LATENCY: bool>(
    vcpu: &VcpuArea,
    slot: &LockSlot,
    read: bool,
    critical: u64,
    sampled: bool,
    interrupt: impl FnOnce(),
) -> u64 {
    let me = vcpu.cpu + 1;
    let read = S::SHARED && read;
    let lock: &S = subject::lock_of(slot);
    let wait = Wait::of(vcpu, read);

    let asked = if LATENCY { M::now() } else { 0 };
    // The wait that this one interrupts, if it does, goes on afterwards.
    let outer = if LATENCY && M::INSTRUMENTED {
        wait.since.load(Relaxed)
    } else {
        0
    };
    if LATENCY {
        wait.since.store(asked, Relaxed);
    }
    if read {
        lock.read();
    } else {
        lock.lock();
    }
    let got = if LATENCY || sampled { M::now() } else { 0 };
    M::touches(&slot.owner, !read);
    let entered = if read {
        slot.read_enter()
    } else {
        slot.enter(me);
        None
    };
    if LATENCY {
        wait.since.store(outer, Relaxed);
        let waited = got.saturating_sub(asked);
        wait.hist.record(waited);
        if waited > wait.longest.load(Relaxed) {
            wait.longest.store(waited, Relaxed);
        }
    }
    M::work(critical);
    let end = if sampled { M::now() } else { 0 };
    interrupt();
    let alone = if read {
        let alone = slot.read_leave(entered);
        lock.read_unlock();
        alone
    } else {
        let alone = slot.leave(me);
        lock.unlock();
        alone
    };

    vcpu.count(Counter::Acquisitions, 1);
    if read {
        vcpu.count(Counter::Reads, 1);
    }
    if !alone {
        vcpu.count(Counter::Violations, 1);
    }
    if sampled {
        vcpu.hists[HIST_CRITICAL].record(end.saturating_sub(got));
    }
    got
}
