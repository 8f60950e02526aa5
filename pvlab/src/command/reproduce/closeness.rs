//! How close figures are to those that were published.

use serde::Serialize;

/// How close the figures of a table, or of a part of it, are to those published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Closeness {
    /// Figures that are compared.
    pub cells: usize,
    /// The geometric mean of how many times each is too large or too small: 1 is all alike.
    pub geometric_error: Option<f64>,
    /// Spearman's rank correlation; `None` of fewer than three figures, or where all are alike.
    pub rank_correlation: Option<f64>,
}

impl Closeness {
    /// Of pairs of a published figure and another. Where one is not positive there is no ratio.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Self {
        let logs: Vec<f64> = pairs
            .iter()
            .filter(|(a, b)| *a > 0.0 && *b > 0.0)
            .map(|(a, b)| (b / a).ln().abs())
            .collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        Self {
            cells: pairs.len(),
            geometric_error: (!logs.is_empty()).then(|| mean.exp()),
            rank_correlation: rank_correlation(pairs),
        }
    }
}

/// Spearman's: the correlation of ranks, where equal figures share theirs.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let (a, b) = (ranks(&a), ranks(&b));
    let middle = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| {
        let both = x.iter().zip(y);
        both.map(|(x, y)| (x - middle) * (y - middle)).sum::<f64>()
    };
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    (spread > 0.0).then(|| product(&a, &b) / spread)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let alike = values
            .iter()
            .filter(|other| other.total_cmp(value).is_eq())
            .count();
        below as f64 + (alike as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_and_too_small_are_as_far_from_right() {
        let close = Closeness::of(&[(10.0, 20.0), (30.0, 15.0), (50.0, 100.0)]);
        assert!((close.geometric_error.unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(close.cells, 3);
        // Ranks 1, 2, 3 and 2, 1, 3: 1 - 6 * 2 / (3 * 8).
        assert!((close.rank_correlation.unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn ranks_are_shared_and_nothing_is_said_of_too_few() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(rank_correlation(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(
            rank_correlation(&[(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)]),
            None
        );
        let none = Closeness::of(&[]);
        assert_eq!((none.geometric_error, none.rank_correlation), (None, None));
        let same = Closeness::of(&[(1.0, 1.0), (4.0, 4.0), (9.0, 9.0)]);
        assert_eq!(same.geometric_error, Some(1.0));
        assert_eq!(same.rank_correlation, Some(1.0));
    }
}
