//! Calibrated work: how long a unit takes, and what looking at the clock costs.

use crate::Machine;
use crate::machine::VcpuAreaExt as _;
use abi::hist::Hist;
use abi::{Costs, VcpuArea};
use core::hint::black_box;

/// Batches timed. What is beside the point (interrupts, a sibling's work, other guests) only makes them
/// longer, so it is the fastest quarter that counts, and its slowest: the very fastest may be a fluke of the
/// clock.
const BATCHES: usize = 64;
/// A batch should take this long: well above the clock's resolution, well below a time slice.
const BATCH_NS: u64 = 4_000;

/// What takes no batch's time so often takes none: on a simulated machine there is such.
const MOST_TIMES: u64 = 1 << 17;

/// Ticks in `ns` nanoseconds at `khz`.
pub const fn ticks(ns: u64, khz: u64) -> u64 {
    ps_in_ticks(ns.saturating_mul(1000), khz)
}

/// Ticks in `ps` picoseconds at `khz`.
pub const fn ps_in_ticks(ps: u64, khz: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "less than `ps`")]
    let ticks = (ps as u128 * khz as u128 / 1_000_000_000) as u64;
    ticks
}

/// Picoseconds in `ticks` ticks at `khz`.
pub const fn ps_of_ticks(ticks: u64, khz: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "half a year fits")]
    let ps = (ticks as u128 * 1_000_000_000 / khz as u128) as u64;
    ps
}

/// Picoseconds that `repeat` (asked to do something `n` times) takes per 1,024 times, when nothing
/// disturbs it.
pub fn ps_per_1024<M: Machine>(khz: u64, repeat: impl Fn(u64)) -> u64 {
    let batch = |n: u64| {
        let start = M::now();
        repeat(n);
        M::now().saturating_sub(start)
    };
    let mut n = 1;
    // The smaller of two, so that one preemption does not end the search too early.
    while batch(n).min(batch(n)) < ticks(BATCH_NS, khz) && n < MOST_TIMES {
        n *= 2;
    }
    let mut batches: [u64; BATCHES] = core::array::from_fn(|_| batch(n));
    let ticks = u128::from(lower_quartile(&mut batches));
    let ps = ticks * 1024 * 1_000_000_000 / (u128::from(n) * u128::from(khz.max(1)));
    u64::try_from(ps).unwrap_or(u64::MAX).max(1)
}

/// What a quarter of `values` is not above, or 0. By insertion, without the vector instructions of the
/// library's sort: where a guest's kernel mode is emulated there are none.
pub fn lower_quartile(values: &mut [u64]) -> u64 {
    for end in 1..values.len() {
        let mut place = end;
        while place > 0 && values[place - 1] > values[place] {
            values.swap(place - 1, place);
            place -= 1;
        }
    }
    values.get(values.len() / 4).copied().unwrap_or(0)
}

/// The costs of work, as nothing else is known. The compiler is not to see that the rest is 0: it would clear it
/// by a vector instruction (see [`lower_quartile`]).
pub fn of_unit(unit_ps: u64) -> Costs {
    let zero = || black_box(0);
    let even = || black_box(0);
    Costs {
        unit_ps,
        look_ps: zero(),
        section_ps: zero(),
        outside_ps: zero(),
        probe_ps: zero(),
        section_more_ps: even(),
        outside_more_ps: even(),
        turn_ps: zero(),
    }
}

/// How long 1,024 units of work take on this machine, now, ps.
#[inline(never)]
pub fn unit_ps<M: Machine>(khz: u64) -> u64 {
    M::unit_ps().unwrap_or_else(|| ps_per_1024::<M>(khz, M::work))
}

/// What work costs, as all vCPUs have been told; or, if nobody has found out, as this one finds, but for what
/// is beside the work.
pub fn costs<M: Machine>(vcpu: &VcpuArea) -> Costs {
    let header = vcpu.header();
    let known = header.control.calibration.load();
    known.or(vcpu.calibration.load()).unwrap_or_else(|| {
        let costs = of_unit(unit_ps::<M>(header.params.tsc_khz));
        vcpu.calibration.store(&costs);
        costs
    })
}

/// Units of work that take `ps`, if 1,024 of them take `unit_ps`.
pub const fn units(ps: u64, unit_ps: u64) -> u64 {
    (ps.saturating_mul(1024).saturating_add(unit_ps / 2)) / unit_ps
}

/// How long `units` of work take, ps.
pub const fn ps_of_units(units: u64, unit_ps: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "as units() made them")]
    let ps = (units as u128 * unit_ps as u128 / 1024) as u64;
    ps
}

/// Computes for about `ns`, where how long a unit takes is not worth finding out.
pub fn roughly<M: Machine>(ns: u64) {
    // A unit of a real machine takes about a nanosecond.
    const UNIT_PS: u64 = 1024 * 1000;
    M::work(units(
        ns.saturating_mul(1000),
        M::unit_ps().unwrap_or(UNIT_PS),
    ));
}

/// What a look at the clock costs, ps.
#[inline(never)]
pub fn look_ps<M: Machine>(khz: u64) -> u64 {
    let looks = |n| {
        for _ in 0..n {
            black_box(M::now());
        }
    };
    ps_per_1024::<M>(khz, looks) / 1024
}

/// What timing 1,024 acquisitions costs, ps: two looks at the clock and an entry in a histogram.
#[inline(never)]
pub fn probe_ps<M: Machine>(khz: u64, scratch: &Hist) -> u64 {
    ps_per_1024::<M>(khz, |n| {
        for _ in 0..n {
            let start = M::now();
            scratch.record(M::now().saturating_sub(start));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_round_to_the_nearest() {
        // 1 unit = 1 ns, and 0.75 ns.
        assert_eq!(units(130_000, 1024 * 1000), 130);
        assert_eq!((units(4_200, 1024 * 750), units(4_600, 1024 * 750)), (6, 6));
        assert_eq!(units(0, 1024), 0);
        // 1 unit = 700 ns (emulated): 130 ns is less than half a unit.
        assert_eq!(units(130_000, 1024 * 700_000), 0);
        assert_eq!(units(1_000_000, 1024 * 700_000), 1);
        // A unit of a simulated machine is a picosecond.
        assert_eq!(units(4_200, 1024), 4_200);
        assert_eq!(ps_of_units(units(4_200, 1024), 1024), 4_200);
    }

    #[test]
    fn a_quarter_is_not_above_the_lower_quartile() {
        assert_eq!(lower_quartile(&mut [8, 7, 6, 5, 4, 3, 2, 1]), 3);
        assert_eq!(lower_quartile(&mut [5]), 5);
        assert_eq!(lower_quartile(&mut []), 0);
    }

    #[test]
    fn an_hour_does_not_overflow() {
        let hour = 3_600_000_000_000_000;
        assert_eq!(units(hour, 1024), hour);
        assert_eq!(ps_in_ticks(hour, 1_000_000), 3_600_000_000_000);
    }
}
