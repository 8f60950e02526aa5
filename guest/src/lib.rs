//! What a vCPU executes: the workloads, and the contract between host and guest.
//!
//! Everything here is generic over [`Machine`], so the bare-metal image, host threads and the
//! simulator run the same code.
#![cfg_attr(not(test), no_std)]

pub mod dispatch;
pub mod machine;
pub mod native;
pub mod task;
pub mod trace;
pub mod work;
pub mod workload;

pub use machine::Machine;
