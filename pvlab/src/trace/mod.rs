//! Tracing: what every vCPU did, on one clock.
//!
//! Guests write lock events into rings, the VMM notes what it does, and the kernel tells when vCPU
//! threads leave and take CPUs. Merged by time they are one stream of [`Event`]s, from which the
//! account of all waiting and the trace files are made, one event after another.

pub mod account;
pub mod batch;
pub mod collect;
mod dat;
pub mod event;
pub mod fit;
pub mod header;
mod merge;
mod out;
mod perfetto;
mod raw;
pub mod read;
pub mod sink;
mod spool;
mod worker;

pub use collect::{CollectError, Collector};
pub use event::{Event, Place, What};
pub use merge::Merged;
