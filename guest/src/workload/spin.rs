//! The spin workload: take a lock, compute, release it, compute.
//!
//! Of a reader-writer lock some acquisitions may be for reading ([`Params::readers`],
//! [`Params::read_share`]), and a vCPU may be interrupted ([`super::nested`]).

use super::choice::{self, Choice};
use super::lengths::{Outside, Section};
use super::subject::{self, Subject, Visitor};
use super::turn::{Times, Turn};
use super::{alone, current_phase, nested, start_and, wait_for_stop};
use crate::machine::VcpuAreaExt as _;
use crate::{Machine, machine, work};
use abi::{Costs, HIST_OUTSIDE, LockSlot, Params, VcpuArea, flags, phase};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// One in this many turns has its work timed, and each of the first turns of a phase.
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
        let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
        if vcpu.cpu == 0 {
            subject::construct_all::<S>(slots, params);
        }
        start_and::<M>(vcpu, || alone::calibrate::<M>(vcpu, params, S::SHARED));

        let mut turns = Turns::new::<LATENCY>(vcpu, params, &work::costs::<M>(vcpu));
        let mut now_in = phase::WARM_UP;
        let mut left = u64::MAX;
        // Whether all vCPUs were still making a fixed number of acquisitions, when last looked.
        let mut all_at_it = false;
        loop {
            let phase = current_phase(vcpu);
            if phase != now_in {
                if phase == phase::STOP {
                    break;
                }
                now_in = phase;
                begin_phase::<M>(vcpu, params);
                turns.since_phase = 0;
                if params.iterations > 0 {
                    left = params.iterations;
                    all_at_it = true;
                }
            }
            if all_at_it && vcpu.header().control.first_done.load(Relaxed) != 0 {
                all_at_it = false;
                vcpu.first_done.set(vcpu, M::now());
            }

            let first = turns.since_phase == 0;
            let (times, sampled) = turns.turn::<M, S, LATENCY>();
            if first && vcpu.first_acquisition.load(Relaxed) == 0 {
                vcpu.first_acquisition.store(times.got, Relaxed);
            }
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
            turns.outside::<M>(times, sampled);
        }
    }
}

/// Which turns are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looks {
    Sometimes,
    Never,
    Always,
}

/// What a vCPU does again and again.
#[derive(Clone)]
pub(super) struct Turns {
    turn: Turn<'static>,
    outside: Outside,
    slots: &'static [LockSlot],
    weights: &'static [u64],
    read_share: u64,
    choice: Choice,
    /// Turns made in the present phase.
    since_phase: u64,
    looks: Looks,
}

impl Turns {
    fn new<const LATENCY: bool>(vcpu: &'static VcpuArea, params: &Params, costs: &Costs) -> Self {
        let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
        // Where there are contexts, each has a lock of its own; this is context 0.
        let slots = if params.contexts > 1 {
            &slots[..1]
        } else {
            slots
        };
        let skewed = params.flags & flags::SKEWED != 0;
        Self {
            turn: Turn {
                vcpu,
                data: params.data(),
                section: Section::new(params, costs, LATENCY),
            },
            outside: Outside::new(params, costs, vcpu.cpu),
            slots,
            weights: machine::deref_slice(vcpu.weights, if skewed { params.locks } else { 0 }),
            read_share: choice::read_share(params, vcpu.cpu),
            choice: Choice::new(params, vcpu.cpu),
            since_phase: 0,
            looks: Looks::Sometimes,
        }
    }
    /// As [`Self::new`], for finding out what there is besides the work: nobody is interrupted, and work
    /// outside is not random.
    pub(super) fn of_trial<const LATENCY: bool>(
        vcpu: &'static VcpuArea,
        params: &Params,
        costs: &Costs,
        looks: Looks,
    ) -> Self {
        let turns = Self::new::<LATENCY>(vcpu, params, costs);
        Self {
            outside: turns.outside.steady(),
            looks,
            ..turns
        }
    }

    /// One acquisition, and whether it was looked at.
    #[inline(always)]
    pub(super) fn turn<M: Machine, S: Subject, const LATENCY: bool>(&mut self) -> (Times, bool) {
        let slot = match self.slots {
            [only] => only,
            slots => pick(slots, self.weights, &mut self.choice),
        };
        let read = S::SHARED && self.choice.happens(self.read_share);
        let sampled = match self.looks {
            Looks::Sometimes => {
                self.since_phase < SAMPLE || self.since_phase.is_multiple_of(SAMPLE)
            }
            Looks::Never => false,
            Looks::Always => true,
        };
        self.since_phase += 1;
        let times = self.turn.take::<M, S, LATENCY>(slot, read, sampled, || {
            if M::INSTRUMENTED && matches!(self.looks, Looks::Sometimes) {
                nested::while_held::<M>(self.turn.vcpu);
            }
        });
        (times, sampled)
    }

    /// The work until the next.
    #[inline(always)]
    pub(super) fn outside<M: Machine>(&mut self, times: Times, sampled: bool) {
        M::work(self.outside.units(sampled));
        if sampled {
            let vcpu = self.turn.vcpu;
            let shown = M::now().saturating_sub(times.released);
            let hist = &vcpu.hists[HIST_OUTSIDE];
            self.outside.note(shown, &vcpu.outside, hist);
        }
    }
}

/// Notes where this vCPU stands at the start of a phase.
#[cold]
fn begin_phase<M: Machine>(vcpu: &VcpuArea, params: &Params) {
    vcpu.wait_max.store(0, Relaxed);
    vcpu.read_wait_max.store(0, Relaxed);
    vcpu.section.clear();
    vcpu.outside.clear();
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
