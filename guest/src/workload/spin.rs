//! The spin workload: take a lock, compute, release it, compute.
//!
//! Every acquisition is checked ([`LockSlot::enter`], [`LockSlot::leave`]).

use super::{Choice, current_phase, start, wait_for_stop};
use crate::abi::{Counter, Dispatch, LOCK_BYTES, LockSlot, Params, VcpuArea, flags, phase};
use crate::{Machine, dispatch, machine, work};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use pvlock::{LockKind, LockVisitor, RawLock};

/// [`VcpuArea::hists`]: how long acquisitions waited, if they are timed.
pub const HIST_WAIT: usize = 0;
/// [`VcpuArea::hists`]: how long critical sections took (a sample).
pub const HIST_CRITICAL: usize = 1;
/// [`VcpuArea::hists`]: how long the work between two acquisitions took (a sample).
pub const HIST_OUTSIDE: usize = 2;
/// [`VcpuArea::hists`]: scratch, for finding out what timing costs.
const HIST_SCRATCH: usize = 3;

/// One in this many turns has its work timed, and each of the first turns.
const SAMPLE: u64 = 32;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    let id = u32::try_from(params.lock_kind).ok();
    let Some(kind) = id.and_then(LockKind::from_id) else {
        panic!("unknown lock kind {}", params.lock_kind);
    };
    let Some(way) = Dispatch::from_raw(params.dispatch) else {
        panic!("unknown way {} to call a lock", params.dispatch);
    };
    let spin = Spin {
        vcpu,
        params,
        machine: PhantomData,
    };
    dispatch::visit::<M, _>(kind, way, spin);
}

struct Spin<M> {
    vcpu: &'static VcpuArea,
    params: &'static Params,
    machine: PhantomData<M>,
}

impl<M: Machine> LockVisitor<M> for Spin<M> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        // The choice is made once, here: an untimed run has no trace of the timing in its loop.
        if self.params.flags & flags::LATENCY != 0 {
            self.work_locks::<L, true>();
        } else {
            self.work_locks::<L, false>();
        }
    }
}

impl<M: Machine> Spin<M> {
    fn work_locks<L: RawLock, const LATENCY: bool>(self) {
        let Self { vcpu, params, .. } = self;
        let khz = params.tsc_khz;
        let unit = work::calibrate::<M>(khz);
        vcpu.unit_ticks.store(unit, Relaxed);
        let probe = work::probe_cost::<M>(khz, &vcpu.hists[HIST_SCRATCH]);
        vcpu.probe_ticks.store(probe, Relaxed);
        let critical = work::units(params.critical_ns, khz, unit);
        let outside = work::units(params.outside_ns, khz, unit);

        let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
        if vcpu.cpu == 0 {
            slots.iter().for_each(construct::<L>);
        }
        start::<M>(vcpu);

        let me = vcpu.cpu + 1;
        let mut choice = Choice::new(params, vcpu.cpu);
        let mut now_in = phase::WARM_UP;
        let mut left = u64::MAX;
        let mut turn = 0;
        let mut longest = 0;
        loop {
            let phase = current_phase(vcpu);
            if phase != now_in {
                if phase == phase::STOP {
                    break;
                }
                now_in = phase;
                longest = 0;
                vcpu.wait_max.store(0, Relaxed);
                if params.iterations > 0 {
                    left = params.iterations;
                }
                let so_far = &vcpu.counters[Counter::Acquisitions.index()];
                vcpu.measured_from.store(so_far.load(Relaxed), Relaxed);
            }

            #[expect(
                clippy::cast_possible_truncation,
                reason = "an index below the slice's length"
            )]
            let slot = match slots {
                [only] => only,
                _ => &slots[choice.below(params.locks) as usize],
            };
            let lock: &L = lock_of(slot);
            let sampled = turn < SAMPLE || turn.is_multiple_of(SAMPLE);

            let asked = if LATENCY { M::now() } else { 0 };
            if LATENCY {
                vcpu.wait_since.store(asked, Relaxed);
            }
            lock.lock();
            let got = if LATENCY || sampled { M::now() } else { 0 };
            slot.enter(me);
            if LATENCY {
                vcpu.wait_since.store(0, Relaxed);
                let wait = got.saturating_sub(asked);
                vcpu.hists[HIST_WAIT].record(wait);
                if wait > longest {
                    longest = wait;
                    vcpu.wait_max.store(wait, Relaxed);
                }
            }
            M::work(critical);
            let end = if sampled { M::now() } else { 0 };
            let alone = slot.leave(me);
            lock.unlock();

            vcpu.count(Counter::Acquisitions, 1);
            if !alone {
                vcpu.count(Counter::Violations, 1);
            }
            if sampled {
                vcpu.hists[HIST_CRITICAL].record(end.saturating_sub(got));
                if turn == 0 {
                    vcpu.first_acquisition.store(got, Relaxed);
                }
            }
            turn += 1;
            left -= 1;
            if left == 0 {
                vcpu.finished.store(M::now(), Relaxed);
                // Stay, halted, until everybody stops: the host still wants this vCPU's statistics.
                wait_for_stop::<M>(vcpu);
                break;
            }

            let outside_start = if sampled { M::now() } else { 0 };
            M::work(outside);
            if sampled {
                vcpu.hists[HIST_OUTSIDE].record(M::now().saturating_sub(outside_start));
            }
        }
    }
}

/// The lock in `slot`.
#[allow(unsafe_code)] // A slot holds a lock of a type known only here.
#[inline(always)]
fn lock_of<L: RawLock>(slot: &LockSlot) -> &L {
    // SAFETY: vCPU 0 has put an `L` there (construct()) before any vCPU left start(), and nothing
    // else is ever put there. Locks are Sync.
    unsafe { &*slot.lock_bytes().cast::<L>() }
}

/// Puts a new lock into `slot`.
#[allow(unsafe_code)]
fn construct<L: RawLock>(slot: &LockSlot) {
    const { assert!(size_of::<L>() <= LOCK_BYTES && align_of::<L>() <= align_of::<LockSlot>()) };
    // SAFETY: the space is large and aligned enough (above), made of atomics, hence writable
    // through a shared reference, and no other vCPU looks at it before the host ends PREPARE.
    unsafe { slot.lock_bytes().cast::<L>().cast_mut().write(L::new()) };
}
