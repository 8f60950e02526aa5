//! The laboratory: scenario -> machine -> record -> figures -> report.

pub mod command;
mod ending;
mod figures;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
mod human;
pub mod machine;
mod options;
mod publish;
pub mod record;
pub mod report;
pub mod scenario;
pub mod session;
pub mod trace;
