//! Locks that others wrote, behind the traits of [`pvlock`]: what its own are raced against, by the same
//! workload, on host threads. They are not there on machines without an operating system.
//!
//! A peer is one type that implements [`Exclude`], and [`Share`] if it has a read side, and one line of
//! [`registry`].

pub mod ck;
mod foreign;
pub mod parking;
pub mod pthread;
pub mod registry;
pub mod spinning;
pub mod standard;

pub use foreign::{Exclude, Foreign, Share};
pub use registry::{Kind, Peer};
