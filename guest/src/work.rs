//! Calibrated work: how long a unit takes, and what timing an acquisition costs.

use crate::Machine;
use crate::hist::Hist;

/// Batches timed; the median is taken, so a few that were preempted do not matter.
const BATCHES: usize = 33;
/// A batch should take this long: well above the clock's resolution, well below a time slice.
const BATCH_NS: u64 = 4_000;

/// Ticks in `ns` nanoseconds at `khz`.
pub const fn ticks(ns: u64, khz: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "5 years fit")]
    let ticks = (ns as u128 * khz as u128 / 1_000_000) as u64;
    ticks
}

/// Ticks that `repeat` (asked to do something `n` times) takes per 1,024 times: the median of
/// several batches.
fn ticks_per_1024<M: Machine>(khz: u64, repeat: impl Fn(u64)) -> u64 {
    let batch = |n: u64| {
        let start = M::now();
        repeat(n);
        M::now().saturating_sub(start)
    };
    let mut n = 16;
    // The smaller of two, so that one preemption does not end the search too early.
    while batch(n).min(batch(n)) < ticks(BATCH_NS, khz) && n < 1 << 30 {
        n *= 2;
    }
    let mut batches: [u64; BATCHES] = core::array::from_fn(|_| batch(n));
    batches.sort_unstable();
    (batches[BATCHES / 2] * 1024 / n).max(1)
}

/// Ticks of 1,024 units of work on this machine, now.
#[inline(never)]
pub fn calibrate<M: Machine>(khz: u64) -> u64 {
    M::unit_ticks().unwrap_or_else(|| ticks_per_1024::<M>(khz, M::work))
}

/// Units of work that take `ns`, given the ticks of 1,024 units.
pub const fn units(ns: u64, khz: u64, ticks_per_1024_units: u64) -> u64 {
    (ticks(ns, khz) * 1024 + ticks_per_1024_units / 2) / ticks_per_1024_units
}

/// Ticks that timing 1,024 acquisitions costs: two looks at the clock and an entry in a histogram.
#[inline(never)]
pub fn probe_cost<M: Machine>(khz: u64, scratch: &Hist) -> u64 {
    ticks_per_1024::<M>(khz, |n| {
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
        // 2 GHz, 1 unit = 1 tick.
        assert_eq!(units(130, 2_000_000, 1024), 260);
        assert_eq!(units(0, 2_000_000, 1024), 0);
        // 1 unit = 1,500 ticks (emulated): 130 ns is less than half a unit.
        assert_eq!(units(130, 2_000_000, 1024 * 1500), 0);
        assert_eq!(units(1_000, 2_000_000, 1024 * 1500), 1);
    }
}
