//! The laboratory: scenario -> machine -> record -> analysis -> report.

pub mod analysis;
pub mod calibrate;
pub mod cli;
pub mod doctor;
mod ending;
pub mod host;
pub mod limits;
pub mod machine;
pub mod publish;
pub mod record;
pub mod report;
pub mod scenario;
pub mod selection;
pub mod session;
pub mod torture;
pub mod trace;
