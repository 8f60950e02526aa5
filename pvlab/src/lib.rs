//! The laboratory: scenario -> machine -> record -> analysis -> report.

pub mod analysis;
pub mod host;
pub mod record;
pub mod scenario;
