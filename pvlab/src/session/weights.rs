//! How often each lock is chosen: Zipf weights, as a table from which a guest draws in constant time.

use crate::scenario::whole;
use abi::Alias;

/// The alias table of a Zipf distribution over `locks` locks: lock i (from 0) is chosen in proportion
/// to 1 / (i + 1)^`skew`.
///
/// Made by Vose's method (1991): each entry takes what an entry of too little weight lacks from one
/// that has too much.
pub(super) fn zipf(locks: usize, skew: f64) -> Vec<u64> {
    let weight = |lock: usize| (lock as f64 + 1.0).powf(-skew);
    let total: f64 = (0..locks).map(weight).sum();
    // In units of an even share.
    let share = |lock| weight(lock) / total * locks as f64;
    let mut share: Vec<f64> = (0..locks).map(share).collect();
    let always = |lock| Alias {
        stay: u32::MAX,
        other: number(lock),
    };
    let mut table: Vec<_> = (0..locks).map(always).collect();
    let (mut poor, mut rich): (Vec<_>, Vec<_>) = (0..locks).partition(|&lock| share[lock] < 1.0);
    while let (Some(&taker), Some(&giver)) = (poor.last(), rich.last()) {
        poor.pop();
        table[taker] = Alias {
            // As a multiple of 2^-32.
            stay: u32::try_from(whole((share[taker] * 2f64.powi(32)).floor())).unwrap_or(u32::MAX),
            other: number(giver),
        };
        share[giver] -= 1.0 - share[taker];
        if share[giver] < 1.0 {
            rich.pop();
            poor.push(giver);
        }
    }
    // The entries that are left have an even share but for rounding, and stay.
    table.into_iter().map(Alias::word).collect()
}

fn number(lock: usize) -> u32 {
    u32::try_from(lock).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Params;
    use guest::workload::choice::Choice;

    /// How often each lock is drawn in `draws` draws of the guest's.
    fn drawn(locks: usize, skew: f64, draws: usize) -> Vec<f64> {
        let table = zipf(locks, skew);
        let params = Params {
            seed: 1,
            ..Params::default()
        };
        let mut choice = Choice::new(&params, 0);
        let mut counts = vec![0.0; locks];
        for _ in 0..draws {
            counts[usize::try_from(choice.weighted(&table)).unwrap()] += 1.0;
        }
        counts
    }

    /// The draws follow the distribution: Pearson's chi-squared is not far above its mean, the number
    /// of locks less one (its standard deviation is the square root of twice that).
    #[test]
    fn guests_draw_as_the_distribution_says() {
        const DRAWS: usize = 1_000_000;
        for (locks, skew) in [(2, 1.0), (3, 0.0), (7, 0.5), (64, 1.0), (100, 2.0)] {
            let total: f64 = (1..=locks).map(|n| (n as f64).powf(-skew)).sum();
            let terms = drawn(locks, skew, DRAWS)
                .into_iter()
                .zip(1..)
                .map(|(count, n)| {
                    let expected = f64::from(n).powf(-skew) / total * DRAWS as f64;
                    (count - expected).powi(2) / expected
                });
            let (chi, freedom) = (terms.sum::<f64>(), locks as f64 - 1.0);
            let most = freedom + 5.0 * (2.0 * freedom).sqrt();
            assert!(chi < most, "{locks} locks, skew {skew}: chi-squared {chi}");
        }
    }

    #[test]
    fn many_locks_and_extreme_skews_make_a_table_too() {
        for skew in [0.0, 1e-9, 1.2, 10.0] {
            assert_eq!(zipf(65_536, skew).len(), 65_536);
        }
        let counts = drawn(65_536, 10.0, 10_000);
        assert!(counts[0] > 9_900.0, "nearly all go to the first");
        assert_eq!(drawn(1, 1.0, 100), [100.0]);
    }
}
