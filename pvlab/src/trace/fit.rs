//! The common clock: from TSC values to CLOCK_MONOTONIC_RAW, fitted from paired samples.
//!
//! The kernel stamps context switches with CLOCK_MONOTONIC_RAW; guests and the VMM use the TSC. Both
//! are linear in the same oscillator, so a straight line through pairs of readings takes one to the
//! other, and the distance of the pairs from the line says how well.

use super::header::ClockFit;
use crate::scenario::whole;

/// Pairs kept. When there are more, every other one is dropped and only every other kept from then on.
const MOST_PAIRS: usize = 4096;

/// Pairs of readings of both clocks, spread over a run.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    pairs: Vec<(u64, u64)>,
    seen: usize,
    keep_every: usize,
}

/// A line from TSC to CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    tsc: u64,
    raw_ns: u64,
    ns_per_tick: f64,
    /// Distance of the line from `raw_ns` at `tsc`, ns.
    intercept: f64,
    /// Largest distance of a pair from the line, ns.
    pub residual_ns: f64,
}

impl Pairs {
    /// Adds a pair of readings: TSC, and CLOCK_MONOTONIC_RAW in ns.
    pub fn add(&mut self, (tsc, raw_ns): (u64, u64)) {
        let every = self.keep_every.max(1);
        if self.seen.is_multiple_of(every) {
            if self.pairs.len() == MOST_PAIRS {
                let mut i = 0;
                self.pairs.retain(|_| {
                    i += 1;
                    i % 2 == 1
                });
                self.keep_every = 2 * every;
            }
            self.pairs.push((tsc, raw_ns));
        }
        self.seen += 1;
    }

    /// The line of least squares; `None` with less than two pairs apart in time.
    pub fn fit(&self) -> Option<Fit> {
        let &(tsc, raw_ns) = self.pairs.first()?;
        // Differences are small enough for f64 to be exact.
        let point = |&(t, ns): &(u64, u64)| (t.wrapping_sub(tsc) as f64, (ns - raw_ns) as f64);
        let points = || self.pairs.iter().map(point);
        let n = self.pairs.len() as f64;
        let mean_x = points().map(|p| p.0).sum::<f64>() / n;
        let mean_y = points().map(|p| p.1).sum::<f64>() / n;
        let variance: f64 = points().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
        if variance <= 0.0 {
            return None;
        }
        let covariance: f64 = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let ns_per_tick = covariance / variance;
        let intercept = mean_y - ns_per_tick * mean_x;
        let distances = points().map(|(x, y)| (y - intercept - ns_per_tick * x).abs());
        let residual_ns = distances.fold(0.0, f64::max);
        Some(Fit {
            tsc,
            raw_ns,
            ns_per_tick,
            intercept,
            residual_ns,
        })
    }
}

impl Fit {
    /// CLOCK_MONOTONIC_RAW when the TSC was at `ticks`, ns. May be before the first pair.
    #[inline]
    pub fn raw_ns(&self, ticks: u64) -> u64 {
        #[expect(clippy::cast_possible_wrap, reason = "hours fit")]
        let x = ticks.wrapping_sub(self.tsc) as i64 as f64;
        // Rounded by way of a positive number: f64::round() is a library call on baseline x86-64, and
        // this is done for each event.
        const POSITIVE: i64 = 1 << 50;
        #[expect(clippy::cast_possible_truncation, reason = "days fit")]
        let ns = (self.intercept + self.ns_per_tick * x + 0.5 + POSITIVE as f64) as i64 - POSITIVE;
        self.raw_ns.saturating_add_signed(ns)
    }

    /// The fit in the form of trace files, for a trace that began at `tsc_start`.
    pub fn header(&self, tsc_start: u64) -> ClockFit {
        ClockFit {
            khz: whole(1e6 / self.ns_per_tick),
            tsc_start,
            monotonic_raw_start_ns: self.raw_ns(tsc_start),
            residual_ns: whole(self.residual_ns.ceil()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of 2.4 GHz.
    fn pair(ns: u64, error: u64) -> (u64, u64) {
        ((1 << 50) + ns * 12 / 5, 7_000_000_000 + ns + error)
    }

    #[test]
    fn a_straight_line_is_found_exactly() {
        let mut pairs = Pairs::default();
        (0..1000).for_each(|i| pairs.add(pair(i * 10_000_000, 0)));
        let fit = pairs.fit().unwrap();
        assert!(fit.residual_ns < 1.0, "{fit:?}");
        let start = (1 << 50) + 1_200_000;
        assert_eq!(fit.raw_ns(start), 7_000_500_000);
        assert_eq!(fit.raw_ns((1 << 50) - 2_400), 7_000_000_000 - 1_000);
        let header = fit.header(start);
        assert_eq!(header.khz, 2_400_000);
        assert_eq!(header.monotonic_raw_start_ns, 7_000_500_000);
    }

    #[test]
    fn one_bad_pair_shows_as_the_residual() {
        let mut pairs = Pairs::default();
        (0..1000).for_each(|i| pairs.add(pair(i * 10_000_000, if i == 500 { 5_000 } else { 0 })));
        let fit = pairs.fit().unwrap();
        assert!((4_900.0..5_000.0).contains(&fit.residual_ns), "{fit:?}");
    }

    #[test]
    fn a_long_run_keeps_few_pairs_from_all_of_it() {
        let mut pairs = Pairs::default();
        (0..100_000).for_each(|i| pairs.add(pair(i * 10_000_000, 0)));
        assert!(pairs.pairs.len() <= MOST_PAIRS);
        let last = pairs.pairs.last().unwrap().1;
        assert!(last > 7_000_000_000 + 990_000_000_000, "{last}");
        assert!(pairs.fit().unwrap().residual_ns < 10.0);
    }

    #[test]
    fn too_few_pairs_have_no_fit() {
        let mut pairs = Pairs::default();
        assert_eq!(pairs.fit(), None);
        pairs.add(pair(0, 0));
        assert_eq!(pairs.fit(), None);
    }

    #[test]
    fn the_real_clocks_fit_a_line_across_a_run() {
        let mut pairs = Pairs::default();
        for _ in 0..50 {
            pairs.add(host::clock::pair());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let fit = pairs.fit().unwrap();
        // A reading takes some tens of ns; preempted ones are not the tightest of eight.
        assert!(fit.residual_ns < 20_000.0, "{fit:?}");
        let (tsc, raw) = host::clock::pair();
        assert!(fit.raw_ns(tsc).abs_diff(raw) < 100_000);
    }
}
