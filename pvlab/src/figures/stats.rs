//! Statistics of a few repeated measurements.
//!
//! Intervals are Student's t on the logarithms: of a throughput's typical round (the geometric mean),
//! and of the ratio within each round, which decides whether one lock is faster than another. A
//! percentile bootstrap of so few rounds covers far less than it says: of the median of 2, 3 and 5
//! rounds 63, 80 and 97 %. Where a round has no logarithm, only the range of the rounds can be told.

use super::none::is_figure;
use serde::Serialize;
use std::borrow::Borrow;
#[cfg(test)]
use std::f64::consts::PI;

/// The median; `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    // Equal ones first: the mean of two infinities of one sign is that infinity, not a NaN.
    Some(match lower == upper {
        true => upper,
        false => lower.midpoint(upper),
    })
}

/// The geometric mean; `None` of nothing.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// What an interval of several rounds is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Support {
    /// How it was had: `"student_t_log"`, of the geometric mean, or `"range"`, from the least to the most.
    pub method: &'static str,
    /// Its confidence (0.95); a range has none.
    pub level: Option<f64>,
    /// The number of rounds.
    pub n: usize,
}

/// What to say behind an interval that has no confidence.
pub(crate) fn in_words(interval: Option<Support>) -> &'static str {
    match interval {
        Some(Support { level: None, .. }) => " (range)",
        _ => "",
    }
}

/// What rounds can support: Student's t on the logarithms, or their range where one of them is not above
/// zero; `None` of less than two.
pub(crate) fn rounds_interval(values: &[f64]) -> Option<((f64, f64), Support)> {
    let n = values.len();
    let (interval, method, level) = match ratio_interval(values) {
        Some(interval) => (interval, "student_t_log", Some(0.95)),
        None if n < 2 => return None,
        None => {
            let lo = values.iter().copied().fold(f64::INFINITY, f64::min);
            let hi = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            ((lo, hi), "range", None)
        }
    };
    Some((interval, Support { method, level, n }))
}

/// Bounds (95 %) of the ratio that pairs of measurements have in common, from the ratios of the pairs:
/// Student's t on their logarithms. `None` of less than two, or if one is not above zero.
fn ratio_interval(ratios: &[f64]) -> Option<(f64, f64)> {
    if ratios.len() < 2 || !ratios.iter().copied().all(is_figure) {
        return None;
    }
    let n = ratios.len() as f64;
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_t(ratios.len() - 1) * (variance / n).sqrt();
    Some(((mean - half).exp(), (mean + half).exp()))
}

/// Bounds (95 %) of the ratio of the typical value of `new` to that of `old`, which were measured apart: Welch's t
/// on the logarithms (B. L. Welch, Biometrika 34, 1947), with the degrees of freedom rounded down. `None` if
/// either has less than two values, or one that is not above zero.
pub(crate) fn unpaired_ratio_interval(old: &[f64], new: &[f64]) -> Option<(f64, f64)> {
    /// Mean, and variance of the mean.
    fn moments(values: &[f64]) -> Option<(f64, f64)> {
        let usable = values.len() > 1 && values.iter().copied().all(is_figure);
        let n = usable.then_some(values.len() as f64)?;
        let logs = values.iter().map(|value| value.ln());
        let mean = logs.clone().sum::<f64>() / n;
        let variance = logs.map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some((mean, variance / n))
    }
    let ((before, a), (after, b)) = (moments(old)?, moments(new)?);
    let whole = |n: usize| (n - 1) as f64;
    let degrees = (a + b).powi(2) / (a * a / whole(old.len()) + b * b / whole(new.len()));
    // Without any spread there are no degrees, and no width either.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let degrees = degrees.max(1.0) as usize;
    let (change, half) = (after - before, student_t(degrees) * (a + b).sqrt());
    Some(((change - half).exp(), (change + half).exp()))
}

/// 97.5th percentile of Student's t distribution.
///
/// Tabled up to ten degrees of freedom; beyond, Fisher's expansion about the normal distribution
/// (Abramowitz and Stegun, 26.7.5), which is good to 0.0001 there.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    ];
    const Z: f64 = 1.959_964;
    if let Some(&t) = degrees.checked_sub(1).and_then(|i| TABLE.get(i)) {
        return t;
    }
    let v = degrees as f64;
    let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
    Z + (z3 + Z) / (4.0 * v)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * v * v)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * v.powi(3))
}

/// Jain's fairness index: 1 if all have the same, 1/n if one has all; `None` if nobody has
/// anything. (Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.)
pub(crate) fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The largest share over the smallest; infinite if the smallest is nothing, `None` if all are.
pub(crate) fn max_over_min(shares: &[f64]) -> Option<f64> {
    let max = shares.iter().copied().max_by(f64::total_cmp)?;
    let min = shares.iter().copied().min_by(f64::total_cmp)?;
    (max > 0.0).then(|| max / min)
}

#[cfg(test)]
#[path = "../../../pvlock/tests/support/rng.rs"]
mod rng;

/// Random numbers of several distributions.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(crate) struct Random(rng::Rng);

#[cfg(test)]
impl Random {
    /// A generator; the seed decides about everything it yields.
    pub(crate) fn new(seed: u64) -> Self {
        Self(rng::Rng(seed))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// A number from 0 to 1, neither of them included.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// A number with the standard normal distribution (Box and Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (2.0 * PI * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-4 * b.abs()
    }

    #[test]
    fn medians() {
        assert_eq!(median([0.0; 0]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        let inf = f64::INFINITY;
        assert_eq!(median([1.0, inf, inf, inf]), Some(inf));
        assert_eq!(median([1.0, 2.0, 3.0, inf]), Some(2.5));
    }

    #[test]
    fn rounds_without_a_logarithm_have_a_range_only() {
        let (interval, support) = rounds_interval(&[3.0, 0.0, 5.0]).unwrap();
        assert_eq!(interval, (0.0, 5.0));
        assert_eq!(support.method, "range");
        assert_eq!(support.level, None);
        assert_eq!(support.n, 3);
        assert_eq!(rounds_interval(&[3.0]), None);
        assert_eq!(rounds_interval(&[3.0, 4.0]).unwrap().1.level, Some(0.95));
    }

    /// In how many of a thousand studies the interval of `n` rounds contains the truth, where the logarithm
    /// of a round is `noise`, of mean 0.
    fn coverage(n: usize, noise: impl Fn(&mut Random) -> f64) -> u32 {
        const STUDIES: u32 = 8_000;
        let mut random = Random::new(n as u64);
        let covered = (0..STUDIES).filter(|_| {
            let rounds: Vec<f64> = (0..n).map(|_| 1e6 * noise(&mut random).exp()).collect();
            let ((lo, hi), _) = rounds_interval(&rounds).unwrap();
            lo <= 1e6 && 1e6 <= hi
        });
        u32::try_from(covered.count()).unwrap() * 1000 / STUDIES
    }

    /// With known truth: log-normal rounds with the spreads that are seen, and skewed ones.
    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        for n in [2, 3, 5, 10, 20] {
            for spread in [0.05, 0.2, 0.5] {
                let covered = coverage(n, |random| spread * random.normal());
                assert!((930..=970).contains(&covered), "{n}, {spread}: {covered}");
            }
            // A sum of three delays, each exponential: skewed to one side. It covers 93.8, 93.1, 92.6, 92.7
            // and 93.7 % with 2, 3, 5, 10 and 20 rounds.
            let covered = coverage(n, |random| {
                let delays: f64 = (0..3).map(|_| -random.unit().ln()).sum();
                0.1 * (3.0 - delays)
            });
            assert!((920..=970).contains(&covered), "{n}, skewed: {covered}");
        }
    }

    #[test]
    fn quantiles_of_student_agree_with_published_tables() {
        let published = [12.706, 2.7764, 2.2281, 2.2010, 2.0930, 2.0452, 1.9842];
        for (degrees, published) in [1, 4, 10, 11, 19, 29, 99].into_iter().zip(published) {
            let t = student_t(degrees);
            assert!(close(t, published), "{degrees}: {t}");
        }
    }

    /// Logarithms (0, ln 2, ln 4): mean ln 2, standard deviation ln 2, t(2) = 4.3027, so the ends
    /// are 2 * 2^(+-4.3027/sqrt 3) = 2 * 2^(+-2.48417).
    #[test]
    fn ratio_interval_by_hand() {
        let (lo, hi) = ratio_interval(&[1.0, 2.0, 4.0]).unwrap();
        assert!(close(lo, 2.0 / 5.59510), "{lo}");
        assert!(close(hi, 2.0 * 5.59510), "{hi}");
        for without in [&[2.0][..], &[2.0, 0.0], &[2.0, f64::INFINITY]] {
            assert_eq!(ratio_interval(without), None);
        }
        assert_eq!(ratio_interval(&[1.0; 5]), Some((1.0, 1.0)));
    }

    /// Logarithms (0, ln 2) and (ln 4, ln 8): variances of the means (ln 2)^2 / 4 each, so 2 degrees of freedom,
    /// and the ends are 4 * 2^(+-4.3027 * sqrt(1/2)).
    #[test]
    fn unpaired_ratio_interval_by_hand() {
        let (lo, hi) = unpaired_ratio_interval(&[1.0, 2.0], &[4.0, 8.0]).unwrap();
        let half = (4.3027 * 0.5f64.sqrt()).exp2();
        assert!(close(lo, 4.0 / half) && close(hi, 4.0 * half), "{lo}, {hi}");
        assert_eq!(unpaired_ratio_interval(&[1.0], &[4.0, 8.0]), None);
        assert_eq!(unpaired_ratio_interval(&[1.0, 2.0], &[4.0, 0.0]), None);
        let without_spread = unpaired_ratio_interval(&[2.0; 3], &[4.0; 3]).unwrap();
        assert!(close(without_spread.0, 2.0) && close(without_spread.1, 2.0));
    }

    /// Two studies of the same thing, each of `n` rounds: how many of a thousand find a difference.
    #[test]
    fn two_studies_of_the_same_seldom_differ() {
        for (n, m) in [(3, 3), (5, 5), (5, 10), (10, 3)] {
            let mut random = Random::new(n as u64);
            let mut study = |rounds: usize, spread: f64| -> Vec<f64> {
                (0..rounds)
                    .map(|_| (spread * random.normal()).exp())
                    .collect()
            };
            let found = (0..4000).filter(|_| {
                let (lo, hi) = unpaired_ratio_interval(&study(n, 0.1), &study(m, 0.2)).unwrap();
                lo > 1.0 || hi < 1.0
            });
            let found = found.count() / 4;
            // 50 are meant; with few rounds on the side that varies more it is up to 65.
            assert!(found <= 70, "{n} and {m} rounds: {found}");
        }
    }

    #[test]
    fn fairness_by_hand() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 3)^2 / (2 * (1 + 9)) = 16 / 20.
        assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
        assert_eq!(max_over_min(&[2.0, 6.0, 3.0]), Some(3.0));
        assert_eq!(max_over_min(&[2.0, 0.0]), Some(f64::INFINITY));
        assert_eq!(max_over_min(&[0.0, 0.0]), None);
        assert_eq!(max_over_min(&[]), None);
    }

    #[test]
    fn random_numbers_are_those_of_the_paper_and_spread_evenly() {
        // First output of the reference implementation with seed 0.
        assert_eq!(Random::new(0).bits(), 0xe220_a839_7b1d_cdaf);
        let mut random = Random::new(3);
        let mut hits = [0u32; 5];
        for _ in 0..50_000 {
            hits[random.below(5)] += 1;
        }
        let even = hits.iter().all(|&n| (9_500..10_500).contains(&n));
        assert!(even, "{hits:?}");
        let normal: Vec<f64> = (0..50_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 50_000.0;
        let square = normal.iter().map(|x| x * x).sum::<f64>() / 50_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((square - 1.0).abs() < 0.03, "{square}");
    }
}
