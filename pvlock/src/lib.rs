//! Kernel locks, native and paravirtual, written once and generic over a [`Platform`].
//!
//! In a virtual machine a spinlock has an enemy that it lacks on bare metal: the hypervisor, which
//! may take the CPU from the holder of a lock, or from the waiter whose turn it is, while all others
//! spin. The locks here are the common answers to that, from ignoring it to halting the waiting
//! vCPUs. They are `no_std`, allocate nothing, and take what they need from the machine through one
//! trait, so the same source runs in a kernel, on host threads, in a simulator and under a model
//! checker.
//!
//! [`LockKind`] lists them by name, with what their waiters do and what a descheduled vCPU delays, and for tools.
//!
//! Each lock is one 32-bit word, but for `mcs`, which has three, the `qrwlock`s, which have two, and
//! the sleeping ones.
//!
//! # Use
//! With the feature `lock_api` (the default) the locks are raw mutexes of the
//! [lock_api](https://docs.rs/lock_api) crate. `Threads` is the platform shown below.
//!
#![cfg_attr(feature = "lock_api", doc = "```")]
#![cfg_attr(not(feature = "lock_api"), doc = "```ignore")]
//! # mod platform { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/threads/platform.rs")); }
//! # use platform::Threads;
//! use pvlock::RawQSpinLock;
//!
//! static TOTAL: lock_api::Mutex<RawQSpinLock<Threads>, u64> = lock_api::Mutex::new(0);
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| *TOTAL.lock() += 1);
//!     }
//! });
//! assert_eq!(*TOTAL.lock(), 2);
//!
//! // Readers share, writers do not. Those that have to wait queue on a lock of the kind named second.
//! use pvlock::RawQRwLock;
//! static MAP: lock_api::RwLock<RawQRwLock<Threads, RawQSpinLock<Threads>>, [u8; 3]> =
//!     lock_api::RwLock::new([1, 2, 3]);
//!
//! let (a, b) = (MAP.read(), MAP.read());
//! assert!(a[0] == 1 && b[0] == 1 && MAP.try_write().is_none());
//! ```
//!
//! Without it there is [`RawLock`]: `lock`, `try_lock` and `unlock`, to build one's own guard on.
//!
//! # A platform
//! A kernel implements [`Platform`] once: atomics, per-CPU storage, and how a CPU pauses, halts and
//! is kicked. On threads, with the operating system as hypervisor, that is:
//!
//! ```
#![doc = include_str!("../examples/threads/platform.rs")]
//!
//! use pvlock::{RawLock, RawPvQSpinLock};
//!
//! static LOCK: RawPvQSpinLock<Threads> = ConstZero::ZERO;
//!
//! LOCK.lock();
//! assert!(!LOCK.try_lock());
//! LOCK.unlock();
//! ```
//!
//! The trait is `unsafe` to implement, as are those of its atomics and words, since what a lock guards is only
//! as safe as they are; their documentation lists what must hold. Two promises matter most. The CPU must not change between `lock` and `unlock`. And a kick that
//! comes just before a halt must end it at once: a platform whose kicks do not stick loses wake-ups.
//!
//! # Features
//! | feature        | default | what it adds                         |
//! |----------------|---------|--------------------------------------|
//! | `lock_api`     | yes     | the raw traits of `lock_api`          |
//! | `debug-rwsems` | no      | sleeping locks panic, telling their state, when they are used wrongly: released or downgraded by a task that does not own them, or overwritten |
//!
//! # What has been checked
//! `docs/verification.md` of the project has it as a table, with what has not. The crate `litmus` explores each lock
//! with three CPUs in the memories of C11 and x86-64, and weakens each ordering by itself.
//! `tests/loom.rs` explores the weak-memory outcomes of each lock, and takes orderings and fences
//! away to see that it notices. `tests/stepper.rs` preempts, interrupts and kicks at every step of
//! small scenarios, checking all invariants after each. `tests/word.rs` holds the byte-wide lock word
//! and the portable one, which those two use, to one specification. `tests/host.rs` runs real threads. `tests/limits.rs` takes locks whose words are full.
//! `tests/sleep.rs` and `tests/sleep_loom.rs` do with sleeping locks what the first two do with the others,
//! and `tests/sleep_debug.rs` uses them wrongly.
#![no_std]

pub mod atomic;
pub mod conformance;
pub mod event;
#[cfg(feature = "lock_api")]
mod lock_api;
mod operations;
pub mod percpu;
mod platform;
pub mod pv_hash;
mod raw;
pub mod registry;
pub mod trace;
pub mod traced;
mod traits;
pub mod wait;
pub mod word;

pub use event::LockEvent;
pub use mcs::RawMcs;
pub use operations::Operations;
pub use percpu::{MAX_NODES, NodeRef, PerCpu};
pub use platform::Platform;
pub use ppc::queued::RawPpcQSpinLock;
pub use ppc::simple::RawPpcSpinLock;
pub use qrwlock::RawQRwLock;
pub use qrwlock_2014::RawQRwLock2014;
pub use qspinlock::cna::RawCna;
pub use qspinlock::{RawPvNext, RawPvQSpinLock, RawQSpinLock, form};
pub use raw::{Downgrade, KillableRw, RawLock, RawRwLock, WaitLock, WriteSide};
pub use registry::*;
pub use rwlock::RawUnfairRwLock;
pub use sleep::mutex::{RawPiMutex, RawSleepMutex};
pub use sleep::mutex_316::RawSleepMutex316;
pub use sleep::rwsem::RawRwSem;
pub use sleep::rwsem_xadd::RawRwSemXadd;
pub use tas::RawTas;
pub use ticket::RawTicket;
pub use trace::{How, TraceEvent};
pub use virt_tas::RawVirtTas;

/// CPUs a queued lock's word can name: 14 bits hold the number plus one.
pub const MAX_CPUS: u32 = (1 << 14) - 1;
