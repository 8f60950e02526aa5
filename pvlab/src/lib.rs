//! The laboratory: scenario -> machine -> record -> analysis -> report.

pub mod record;
pub mod scenario;
