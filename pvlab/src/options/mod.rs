//! What the commands share of their options: groups of them, their values, how they are checked, and how a
//! command ends.

pub(crate) mod args;
pub(crate) mod cells;
pub(crate) mod effect;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod mix;
pub(crate) mod offer;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod request;
pub(crate) mod terminal;
pub(crate) mod values;
