//! The spin workload: take a lock, compute, release it, compute.
//!
//! Of a reader-writer lock some acquisitions may be for reading ([`Params::readers`],
//! [`Params::read_share`]), and a vCPU may be interrupted ([`super::nested`]).

use super::choice::{self, Choice};
use super::subject::{self, Subject, Visitor};
use super::turn::{HIST_OUTSIDE, HIST_SCRATCH, turn};
use super::{current_phase, nested, start, wait_for_stop};
use crate::abi::{LockSlot, Params, VcpuArea, flags, phase};
use crate::{Machine, machine, work};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// One in this many turns has its work timed, and each of the first turns.
const SAMPLE: u64 = 32;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    subject::visit::<M, _>(params, Spin { vcpu, params });
}

struct Spin {
    vcpu: &'static VcpuArea,
    params: &'static Params,
}

impl<M: Machine> Visitor<M> for Spin {
    fn visit<S: Subject>(self) {
        // The choice is made once, here: an untimed run has no trace of the timing in its loop.
        if self.params.flags & flags::LATENCY != 0 {
            self.work_locks::<M, S, true>();
        } else {
            self.work_locks::<M, S, false>();
        }
    }
}

impl Spin {
    #[inline(never)]
    fn work_locks<M: Machine, S: Subject, const LATENCY: bool>(self) {
        let Self { vcpu, params } = self;
        let khz = params.tsc_khz;
        let unit = work::calibrate::<M>(khz);
        vcpu.unit_ticks.store(unit, Relaxed);
        let probe = work::probe_cost::<M>(khz, &vcpu.hists[HIST_SCRATCH]);
        vcpu.probe_ticks.store(probe, Relaxed);
        let critical = work::units(params.critical_ns, khz, unit);
        let outside = work::units(params.outside_ns, khz, unit);

        let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
        if vcpu.cpu == 0 {
            slots.iter().for_each(subject::construct::<S>);
        }
        start::<M>(vcpu);

        // Where there are contexts, each has a lock of its own; this is context 0.
        let slots = if params.contexts > 1 {
            &slots[..1]
        } else {
            slots
        };
        let skewed = params.flags & flags::SKEWED != 0;
        let weights: &[u64] =
            machine::deref_slice(vcpu.weights, if skewed { params.locks } else { 0 });
        let read_share = choice::read_share(params, vcpu.cpu);
        let mut choice = Choice::new(params, vcpu.cpu);
        let mut now_in = phase::WARM_UP;
        let mut left = u64::MAX;
        // Whether all vCPUs were still making a fixed number of acquisitions, when last looked.
        let mut all_at_it = false;
        let mut turns = 0;
        loop {
            let phase = current_phase(vcpu);
            if phase != now_in {
                if phase == phase::STOP {
                    break;
                }
                now_in = phase;
                begin_phase::<M>(vcpu, params);
                if params.iterations > 0 {
                    left = params.iterations;
                    all_at_it = true;
                }
            }
            if all_at_it && vcpu.header().control.first_done.load(Relaxed) != 0 {
                all_at_it = false;
                vcpu.first_done.set(vcpu, M::now());
            }

            let slot = match slots {
                [only] => only,
                _ => pick(slots, weights, &mut choice),
            };
            let read = S::SHARED && choice.happens(read_share);
            let sampled = turns < SAMPLE || turns.is_multiple_of(SAMPLE);
            let got = turn::<M, S, LATENCY>(vcpu, slot, read, critical, sampled, || {
                if M::INSTRUMENTED {
                    nested::while_held::<M>(vcpu);
                }
            });
            if turns == 0 {
                vcpu.first_acquisition.store(got, Relaxed);
            }
            turns += 1;
            left -= 1;
            if left == 0 {
                let now = M::now();
                if all_at_it {
                    vcpu.first_done.set(vcpu, now);
                    vcpu.header().control.first_done.store(1, Relaxed);
                }
                // Release pairs with the host's Acquire load: the mark is complete.
                vcpu.finished.store(now, Release);
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

/// Notes where this vCPU stands at the start of a phase.
#[cold]
fn begin_phase<M: Machine>(vcpu: &VcpuArea, params: &Params) {
    vcpu.wait_max.store(0, Relaxed);
    vcpu.read_wait_max.store(0, Relaxed);
    if params.iterations > 0 {
        vcpu.begun.set(vcpu, M::now());
    }
}

/// One of several locks.
#[inline(always)]
fn pick<'a>(slots: &'a [LockSlot], weights: &[u64], choice: &mut Choice) -> &'a LockSlot {
    let place = if weights.is_empty() {
        choice.below(slots.len() as u64)
    } else {
        choice.weighted(weights)
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index below the slice's length"
    )]
    &slots[place as usize]
}
