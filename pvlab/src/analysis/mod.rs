//! From records to figures that can be relied on.

pub mod bench;
mod bistable;
mod compare;
pub(crate) mod none;
mod plan;
mod sharing;
mod starving;
pub mod stats;
mod summary;
pub mod sweep;
mod validation;
pub mod waits;
mod warning;

pub use bistable::Bistable;
pub use compare::{Comparison, Ended, LockResult, Ratio, Throughput, Verdict};
pub use plan::Plan;
pub use sharing::{Sharing, Side};
pub use starving::Starving;
pub(crate) use starving::starves;
pub use summary::{Exclusion, Fairness, Run, Summary};
pub use validation::{Side as ValidationSide, ValidationCell};
pub use waits::WaitNs;
pub use warning::Warning;
pub(crate) use warning::{
    NOT_MEASURED, never_told, of_repeats as warnings_of_repeats, of_run as warnings_of_run,
    two_states,
};

#[cfg(test)]
pub(crate) mod fixture;
