//! What the commands share of their options, a file for each concern: its options, what comes of them, and
//! what may be wrong with them. And how commands end.

pub(crate) mod cells;
pub(crate) mod common;
pub(crate) mod cpus;
pub(crate) mod effect;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod guests;
pub(crate) mod lock;
pub(crate) mod machine;
pub(crate) mod numbers;
pub(crate) mod offer;
pub(crate) mod output;
pub(crate) mod preempt;
pub(crate) mod progress;
pub(crate) mod schedule;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod times;
pub(crate) mod work;
