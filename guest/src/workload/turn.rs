//! One acquisition, with its check (`Inside`) and its figures.

use super::check::Inside;
use super::lengths::Section;
use super::subject::{self, Subject};
use crate::Machine;
use abi::{Counter, Data, HIST_CRITICAL, HIST_READ_WAIT, HIST_WAIT, LockSlot, VcpuArea};

use abi::hist::Hist;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

    #[inline(always)]
    fn note(&self, waited: u64) {
        self.hist.record(waited);
        if waited > self.longest.load(Relaxed) {
            self.longest.store(waited, Relaxed);
        }
    }
}

/// When a turn's lock was taken and released, if that was noted.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) got: u64,
    pub(super) released: u64,
}

/// What all turns of a vCPU have in common.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) vcpu: &'a VcpuArea,
    pub(super) data: Data,
    pub(super) section: Section,
}

impl Turn<'_> {
    /// Takes the lock in `slot`, for reading if `read`, stays inside for as long as was asked for, and
    /// releases it; `interrupt` is called in between.
    ///
    /// All figures are noted after the release: nobody waits for that.
    #[inline(always)]
    pub(super) fn take<M: Machine, S: Subject, const LATENCY: bool>(
        &self,
        slot: &LockSlot,
        read: bool,
        sampled: bool,
        interrupt: impl FnOnce(),
    ) -> Times {
        let vcpu = self.vcpu;
        let me = vcpu.cpu + 1;
        let read = S::SHARED && read;
        let lock = subject::lock_of::<S>(slot);
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
        S::acquire(lock, read);
        let got = if LATENCY || sampled { M::now() } else { 0 };
        if LATENCY {
            wait.since.store(outer, Relaxed);
        }
        let inside = Inside::enter::<M>(slot, self.data, me, read);
        M::work(self.section.units(sampled));
        let end = if sampled { M::now() } else { 0 };
        interrupt();
        let alone = inside.leave(me);
        S::release(lock, read);

        let released = if sampled { M::now() } else { 0 };
        if LATENCY {
            wait.note(got.saturating_sub(asked));
        }
        vcpu.count(Counter::Acquisitions, 1);
        if read {
            vcpu.count(Counter::Reads, 1);
        }
        if !alone {
            vcpu.count(Counter::Violations, 1);
        }
        if sampled {
            let shown = end.saturating_sub(got);
            let hist = &vcpu.hists[HIST_CRITICAL];
            self.section.note(shown, &vcpu.section, hist);
        }
        Times { got, released }
    }
}
