//! From records to figures that can be relied on.

pub(crate) mod bistable;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod none;
pub(crate) mod run;
pub(crate) mod sharing;
pub(crate) mod starving;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod waits;
pub(crate) mod warning;

pub(crate) use bistable::Bistable;
pub(crate) use run::{Fairness, Run};
pub(crate) use sharing::Side;
pub(crate) use starving::starves;
#[cfg(test)]
pub(crate) use stats::Random;
pub(crate) use stats::{Support, in_words, median, rounds_interval};
pub(crate) use summary::{Exclusion, Summary, range};
pub(crate) use waits::WaitNs;
pub(crate) use warning::{
    Warning, never_told, of_repeats as warnings_of_repeats, of_run as warnings_of_run, two_states,
};
