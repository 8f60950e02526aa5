//! Figures that there are none of: a throughput of no acquisition, and a ratio that rests on one. In here
//! they are 0, infinite or NaN, so that they have their place among others; programs get null.

use super::stats::median;
use serde::{Serialize, Serializer};

pub(crate) fn is_figure(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

pub(crate) fn some(value: f64) -> Option<f64> {
    Some(value).filter(|value| is_figure(*value))
}

/// For `serialize_with`.
pub(crate) fn figure<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    some(*value).serialize(serializer)
}

pub(crate) fn figures<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| some(*value)))
}

pub(crate) fn ends<S: Serializer>(
    ends: &Option<(f64, f64)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    ends.map(|(lo, hi)| (some(lo), some(hi)))
        .serialize(serializer)
}

/// The median of ratios; 0 where it would be made of one that rests on no acquisition, NaN of none.
pub(crate) fn median_ratio(ratios: &[f64]) -> f64 {
    let known = ratios.iter().filter(|ratio| !ratio.is_nan());
    let nothing = known.clone().filter(|ratio| **ratio == 0.0).count();
    match median(known.clone()) {
        Some(_) if 2 * nothing >= known.count() => 0.0,
        Some(median) => median,
        None => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_made_of_nothing_is_none() {
        assert_eq!(median_ratio(&[0.0, 2.0, 3.0]), 2.0);
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        for of_nothing in [&[][..], &[nan], &[0.0, 2.0], &[2.0, inf], &[0.0]] {
            assert!(!is_figure(median_ratio(of_nothing)), "{of_nothing:?}");
        }
    }
}
