//! Rounds that fall into two groups far apart: of two states of the machine, of which a median hides one.

use super::stats::geometric_mean;
use serde::Serialize;

/// The groups are at least this factor apart,
const APART: f64 = 5.0;
/// and this many times as far (in logarithms) as the rounds of either group are among themselves.
const CLOSER: f64 = 3.0;
/// Fewer rounds do not tell two states from a spread.
const LEAST: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bistable {
    pub low_rounds: usize,
    /// Their geometric mean.
    pub low: f64,
    pub high_rounds: usize,
    /// Their geometric mean.
    pub high: f64,
}

impl Bistable {
    /// The two states of `rounds`, if they fall into two; rounds of nothing are left out.
    pub(crate) fn of(rounds: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = rounds.iter().copied().filter(|r| *r > 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        if sorted.len() < LEAST {
            return None;
        }
        let gap = |at: usize| (sorted[at] / sorted[at - 1]).ln();
        let widest = (1..sorted.len()).max_by(|&a, &b| gap(a).total_cmp(&gap(b)))?;
        let (low, high) = sorted.split_at(widest);
        let within = |group: &[f64]| match (group.first(), group.last()) {
            (Some(first), Some(last)) => (last / first).ln(),
            _ => 0.0,
        };
        let far = gap(widest) > APART.ln();
        (far && gap(widest) > CLOSER * within(low).max(within(high))).then_some(Self {
            low_rounds: low.len(),
            low: geometric_mean(low)?,
            high_rounds: high.len(),
            high: geometric_mean(high)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::stats::Random;

    #[test]
    fn two_states_are_found_whichever_has_more_rounds() {
        let found = Bistable::of(&[1.2e6, 150.0, 1.1e6, 160.0, 1.3e6]).unwrap();
        assert_eq!((found.low_rounds, found.high_rounds), (2, 3));
        assert!((150.0..160.0).contains(&found.low));
        assert!((1.1e6..1.3e6).contains(&found.high));
        let found = Bistable::of(&[1.2e6, 1.1e6, 1.0e6, 160.0]).unwrap();
        assert_eq!((found.low_rounds, found.high_rounds), (1, 3));
        for (rounds, why) in [
            (&[1.2e6, 150.0, 1.1e6][..], "too few to tell"),
            (&[1.0, 3.0, 9.0, 27.0], "a spread"),
            (&[0.0, f64::NAN, 1.0], "no states"),
        ] {
            assert_eq!(Bistable::of(rounds), None, "{why}");
        }
    }

    /// Log-normal rounds with a spread of 50 % have one state.
    #[test]
    fn a_wide_spread_is_hardly_ever_taken_for_two_states() {
        let mut random = Random::new(5);
        for n in 2..=20 {
            let mut round = || (0.5 * random.normal()).exp();
            let mut rounds = || Vec::from_iter((0..n).map(|_| round()));
            let flagged = (0..2000).filter(|_| Bistable::of(&rounds()).is_some());
            let flagged = flagged.count();
            assert!(flagged <= 10, "{n} rounds: {flagged} of 2000");
        }
    }
}
