//! ConcurrencyKit: its ticket lock, MCS lock, rwlock, and phase-fair rwlock. Without the feature `ck` there are
//! types that cannot be made.

#[cfg(feature = "ck")]
#[path = "ck_bound.rs"]
mod bound;
#[cfg(not(feature = "ck"))]
#[path = "ck_absent.rs"]
mod bound;

pub use bound::{Mcs, PfLock, RwLock, Ticket};

/// Whether they have been built in.
pub const BUILT_IN: bool = cfg!(feature = "ck");
