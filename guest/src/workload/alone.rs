//! What there is besides the work, in a critical section and between two: found out by one vCPU while all
//! others halt, with a lock that is none, and the code that then works the locks.

use super::check::Inside;
use super::current_phase;
use super::spin::{Looks, Turns};
use super::subject::Subject;
use crate::machine::VcpuAreaExt as _;
use crate::{Machine, machine, work};
use abi::{Costs, HIST_SCRATCH, LockSlot, Params, VcpuArea, flags};
use core::hint::black_box;
use core::sync::atomic::Ordering::Relaxed;

/// Longest work that is tried, ps: what is there besides does not grow with it.
const MOST_PS: u64 = 2_000_000;
/// How often to find out, each time with what was found before: how much of it can be done beside the work
/// depends on the work.
const TRIALS: usize = 2;

/// Looks at the clock that a trace takes inside a critical section: when the lock was taken, and before it is
/// released.
const fn looks_of_trace<M: Machine>(params: &Params) -> u64 {
    if M::INSTRUMENTED && params.trace_records > 0 {
        2
    } else {
        0
    }
}

/// Finds out, and leaves it for the host to see.
#[inline(never)]
pub(super) fn calibrate<M: Machine>(vcpu: &'static VcpuArea, params: &Params, shared: bool) {
    let timed = params.flags & flags::LATENCY != 0;
    let costs = match (shared, timed) {
        (true, true) => all::<M, Nothing<true>, true>(vcpu, params),
        (true, false) => all::<M, Nothing<true>, false>(vcpu, params),
        (false, true) => all::<M, Nothing<false>, true>(vcpu, params),
        (false, false) => all::<M, Nothing<false>, false>(vcpu, params),
    };
    vcpu.calibration.store(&costs);
}

/// As [`calibrate`], where nothing is known of what is between two critical sections.
pub(super) fn calibrate_section<M: Machine>(vcpu: &'static VcpuArea, params: &Params) {
    let timed = params.flags & flags::LATENCY != 0;
    let mut costs = of_work::<M>(vcpu, params);
    find_section::<M>(vcpu, params, timed, &mut costs);
    forget(vcpu, params);
    vcpu.calibration.store(&costs);
}

fn all<M: Machine, S: Subject, const LATENCY: bool>(
    vcpu: &'static VcpuArea,
    params: &Params,
) -> Costs {
    let mut costs = of_work::<M>(vcpu, params);
    find_section::<M>(vcpu, params, LATENCY, &mut costs);
    let critical = params.critical().min(MOST_PS);
    let outside = params.outside().min(MOST_PS);
    let tried = Params {
        critical_ns: 0,
        critical_ps: critical,
        outside_ns: 0,
        outside_ps: outside,
        ..*params
    };
    for _ in 0..TRIALS {
        let turns = Turns::of_trial::<LATENCY>(vcpu, &tried, &costs, Looks::Never);
        let in_all = work::ps_per_1024::<M>(params.tsc_khz, |n| {
            let mut turns = turns.clone();
            for _ in 0..n {
                black_box(current_phase(vcpu));
                let (times, sampled) = turns.turn::<M, S, LATENCY>();
                turns.outside::<M>(times, sampled);
            }
        }) / 1024;
        // The section's part, and the work outside, are known; but nothing is traced here.
        let traced = looks_of_trace::<M>(params) * costs.look_ps;
        let inside = critical.max(costs.section_ps).saturating_sub(traced);
        let work = outside.saturating_sub(costs.outside_ps);
        costs.outside_ps = in_all.saturating_sub(inside + work);
    }
    let turns = Turns::of_trial::<LATENCY>(vcpu, &tried, &costs, Looks::Always);
    let [section, between] = shown::<M, S, LATENCY>(vcpu, turns);
    let more = |real: u64, shown: u64| real.cast_signed().saturating_sub(shown.cast_signed());
    costs.section_more_ps = more(critical.max(costs.section_ps), section);
    costs.outside_more_ps = more(outside.max(costs.outside_ps), between);
    forget(vcpu, params);
    costs
}

/// What two looks at the clock show of a critical section, and of what is between two, ps.
fn shown<M: Machine, S: Subject, const LATENCY: bool>(
    vcpu: &'static VcpuArea,
    mut turns: Turns,
) -> [u64; 2] {
    /// As in [`work::ps_per_1024`].
    const BATCHES: usize = 32;
    const TURNS: usize = 8;
    let sampled = [&vcpu.section, &vcpu.outside];
    let mut shown = [[0; BATCHES]; 2];
    for batch in 0..BATCHES {
        sampled.iter().for_each(|sampled| sampled.clear());
        for _ in 0..TURNS {
            let (times, sampled) = turns.turn::<M, S, LATENCY>();
            turns.outside::<M>(times, sampled);
        }
        for (shown, sampled) in shown.iter_mut().zip(sampled) {
            let (count, ticks) = (sampled.count.load(Relaxed), sampled.ticks.load(Relaxed));
            shown[batch] = work::ps_of_ticks(ticks, vcpu.header().params.tsc_khz) / count.max(1);
        }
    }
    shown.map(|mut each| work::lower_quartile(&mut each))
}

fn of_work<M: Machine>(vcpu: &VcpuArea, params: &Params) -> Costs {
    let khz = params.tsc_khz;
    Costs {
        turn_ps: if params.flags & flags::TURN == 0 {
            0
        } else {
            turn_ps::<M>(vcpu.cpu, khz)
        },
        look_ps: work::look_ps::<M>(khz),
        probe_ps: work::probe_ps::<M>(khz, &vcpu.hists[HIST_SCRATCH]),
        ..work::of_unit(work::unit_ps::<M>(khz))
    }
}

/// As [`Costs::turn_ps`]: the loop of a waiter that is not the queue's head.
fn turn_ps<M: Machine>(cpu: u32, khz: u64) -> u64 {
    let node = &M::percpu(cpu).nodes[0];
    work::ps_per_1024::<M>(khz, |turns| {
        let mut turns = u32::try_from(turns).unwrap_or(u32::MAX);
        black_box(M::spin_for(&node.locked, Relaxed, &mut turns, |locked| {
            locked == u32::MAX
        }));
    })
}

/// As [`calibrate`], of the turn only.
pub(super) fn calibrate_turn<M: Machine>(vcpu: &'static VcpuArea, params: &Params) {
    vcpu.calibration.store(&of_work::<M>(vcpu, params));
    forget(vcpu, params);
}

/// The check, and the looks at the clock that are in every section.
fn find_section<M: Machine>(
    vcpu: &'static VcpuArea,
    params: &Params,
    timed: bool,
    costs: &mut Costs,
) {
    let Some(slot) = machine::deref_slice::<LockSlot>(vcpu.locks, params.locks).first() else {
        return;
    };
    let (me, data) = (vcpu.cpu + 1, params.data());
    let looks = u64::from(timed) + looks_of_trace::<M>(params);
    for _ in 0..TRIALS {
        let work = (params.critical().min(MOST_PS)).saturating_sub(costs.section_ps);
        let units = work::units(work, costs.unit_ps);
        let in_all = work::ps_per_1024::<M>(params.tsc_khz, |n| {
            for _ in 0..n {
                for _ in 0..looks {
                    black_box(M::now());
                }
                let inside = Inside::enter::<M>(slot, data, me, false);
                M::work(units);
                black_box(inside.leave(me));
            }
        }) / 1024;
        let work = work::ps_of_units(units, costs.unit_ps);
        costs.section_ps = in_all.saturating_sub(work);
    }
}

/// As if nothing had been tried.
fn forget(vcpu: &VcpuArea, params: &Params) {
    for slot in machine::deref_slice::<LockSlot>(vcpu.locks, params.locks) {
        if let Some(guarded) = slot.guarded(params.data()) {
            guarded.forget();
        }
    }
    vcpu.counters.iter().for_each(|n| n.store(0, Relaxed));
    vcpu.hists.iter().for_each(abi::hist::Hist::clear);
    vcpu.section.clear();
    vcpu.outside.clear();
    vcpu.wait_max.store(0, Relaxed);
    vcpu.read_wait_max.store(0, Relaxed);
    vcpu.wait_since.store(0, Relaxed);
    vcpu.read_wait_since.store(0, Relaxed);
}

/// A lock that is none.
struct Nothing<const SHARED: bool>;

impl<const SHARED: bool> Subject for Nothing<SHARED> {
    const SHARED: bool = SHARED;
    type Lock = ();

    fn new() {}

    #[inline(always)]
    fn acquire((): &(), _: bool) {}

    #[inline(always)]
    fn release((): &(), _: bool) {}
}
