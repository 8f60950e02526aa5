//! Kernel spinlocks, native and paravirtual, written once and generic over a [`Platform`].
#![no_std]

pub mod atomic;
pub mod busted;
pub mod event;
#[cfg(feature = "lock_api")]
mod lock_api;
pub mod percpu;
mod platform;
pub mod pv_hash;
pub mod qspinlock;
mod raw;
pub mod registry;
pub mod tas;
pub mod ticket;
pub mod word;

pub use event::LockEvent;
pub use percpu::{MAX_NODES, NodeRef, PerCpu};
pub use platform::Platform;
pub use qspinlock::{RawPvQSpinLock, RawQSpinLock};
pub use raw::RawLock;
pub use registry::{LockKind, LockVisitor};
pub use tas::RawTas;
pub use ticket::RawTicket;

/// CPUs a queued lock's word can name: 14 bits hold the number plus one.
pub const MAX_CPUS: u32 = (1 << 14) - 1;
