//! The host/guest contract: one region of memory, and doorbells.
//!
//! The host lays the region out ([`Layout`]), fills in [`Params`] and starts the vCPUs. From then on
//! each word has one writer: the host writes [`Control`], a vCPU its own [`VcpuArea`], and the locks and their
//! [`LockSlot`]s belong to the vCPU that holds the lock. The exceptions say so: words by which one vCPU wakes
//! another or a task ([`VcpuArea::kick_token`], [`RunQueue`], [`TaskArea`]), [`Control::first_done`],
//! and of a [`VcpuArea`] what KVM ([`StealTime`]) and the host ([`TraceRing::tail`]) write. The host may read
//! anything at any time.
//!
//! All numbers are little-endian; times are in ticks of the TSC unless their name says otherwise.
//!
//! What is executed in a guest is in the crate `guest`, what its host does is in `host`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod alias;
mod calibration;
mod counter;
mod dispatch;
mod doorbell;
pub mod hist;
mod host_step;
mod layout;
pub mod patch;
pub mod ring;
mod slot;
mod task;
mod vcpu;

pub use alias::Alias;
pub use calibration::{Calibration, Costs};
pub use counter::Counter;
pub use dispatch::{CallTable, Dispatch};
pub use doorbell::{Doorbell, EXIT_DONE, EXIT_PANIC, KICK_PAGES};
pub use host_step::{ExitReason, HostDetail, HostStep, Switch, SwitchKind};
pub use layout::{Layout, NodeWords};
pub use slot::{Data, Guarded, LOCK_BYTES, LOCK_BYTES_BESIDE_DATA, LockSlot};
pub use task::{MAX_TASKS, RunQueue, TaskArea, task_state};
pub use vcpu::{
    ASIDE, HIST_CRITICAL, HIST_OUTSIDE, HIST_READ_WAIT, HIST_SCRATCH, HIST_WAIT, HISTS, LOG_BYTES,
    Mark, Sampled, StealTime, TraceRing, VcpuArea, VcpuState,
};

use core::sync::atomic::AtomicU32;

/// First word of the region: "PVLABREG" in little-endian ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PVLABREG");

/// Version of this contract. Raised by every change of layout or meaning.
pub const VERSION: u64 = 15;

macro_rules! params {
    ($($(#[doc = $doc:literal])+ $field:ident,)+) => {
        /// What the guest is to do, fixed before it starts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Params {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl Params {
            /// The fields in the order in which they lie in memory.
            pub fn words(&self) -> [u64; size_of::<Self>() / 8] {
                [$(self.$field,)+]
            }
        }
    };
}

params! {
    /// [`MAGIC`].
    magic,
    /// [`VERSION`].
    version,
    /// Number of vCPUs.
    vcpus,
    /// Number of locks.
    locks,
    /// A [`Workload`].
    workload,
    /// A [`pvlock::LockKind`] by its id.
    lock_kind,
    /// A [`Dispatch`].
    dispatch,
    /// Length of the critical section, whole ns,
    critical_ns,
    /// and so many ps.
    critical_ps,
    /// Work outside the critical section, whole ns,
    outside_ns,
    /// and so many ps; its mean, with [`flags::OUTSIDE_EXP`].
    outside_ps,
    /// Where the data is that a critical section touches: a [`Data`].
    data,
    /// Acquisitions each vCPU makes in the measured phase; 0: until told to stop.
    iterations,
    /// Turns a paravirtual waiter spins before it halts.
    spin_threshold,
    /// Frequency of the TSC as the guest sees it, kHz.
    tsc_khz,
    /// Seed of every random choice.
    seed,
    /// Bits of [`flags`].
    flags,
    /// vCPUs that only read: the last so many. In a microbenchmark, tasks.
    readers,
    /// Share of reads in the acquisitions of all other vCPUs, as a multiple of 2^-32.
    read_share,
    /// Microbenchmarks: tasks that take part; the others end at once.
    threads,
    /// rwsem-bench: turns of a busy-wait loop inside the critical section.
    pauses,
    /// Contexts in which each vCPU takes locks, one interrupting the other; 0 and 1 mean one.
    contexts,
    /// Tasks of each vCPU; 0 and 1 mean one.
    tasks,
    /// NUMA nodes, over which the vCPUs are spread in equal runs; 0 and 1 mean one.
    numa_nodes,
    /// Torture: length of the rare long holds, ns; 0: none.
    long_hold_ns,
    /// Torture: locks that may be held around the one under torture.
    nested_locks,
    /// Torture: longest time that a writer's acquisition may take, ns; 0: any.
    acquire_limit_ns,
    /// Records that fit into each vCPU's trace ring, a power of two; 0: no trace.
    trace_records,
    /// One of [`preempt`]: whom to hold off its CPU now and then.
    preempt_whom,
    /// In which share of acquisitions, as a multiple of 2^-32.
    preempt_share,
    /// For how long, ns; less than 2^32.
    preempt_ns,
}

/// Values of [`Params::preempt_whom`].
pub mod preempt {
    /// Nobody.
    pub const NOBODY: u64 = 0;
    /// One that has just taken a lock.
    pub const HOLDER: u64 = 1;
    /// One that has just become next in line.
    pub const NEXT_WAITER: u64 = 2;
}

impl Params {
    /// Whether the lock has waiters that ask for a barrier on every vCPU, for which the machine must be prepared.
    pub fn needs_barriers(&self) -> bool {
        let id = u32::try_from(self.lock_kind).ok();
        let kind = id.and_then(pvlock::LockKind::from_id);
        kind.is_some_and(|kind| kind.traits().barriers)
    }

    /// Length of the critical section, ps.
    pub const fn critical(&self) -> u64 {
        self.critical_ns
            .saturating_mul(1000)
            .saturating_add(self.critical_ps)
    }

    /// Work outside the critical section, ps; its mean, if it is random.
    pub const fn outside(&self) -> u64 {
        self.outside_ns
            .saturating_mul(1000)
            .saturating_add(self.outside_ps)
    }

    /// Where the data is that a critical section touches.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn data(&self) -> Data {
        let Some(data) = Data::from_raw(self.data) else {
            panic!("unknown place {} of the data", self.data);
        };
        data
    }

    /// Whether the steps of acquisitions must be seen: for a trace, to preempt on demand, or to
    /// interrupt.
    pub const fn instrumented(&self) -> bool {
        self.trace_records > 0 || self.preempt_whom != preempt::NOBODY || self.contexts > 1
    }
}

/// Bits of [`Params::flags`].
pub mod flags {
    /// Time every acquisition.
    pub const LATENCY: u64 = 1 << 0;
    /// Fault injection: drop every kick, so that halted waiters sleep for ever.
    pub const DROP_KICKS: u64 = 1 << 1;
    /// Choose among locks by the table at [`super::VcpuArea::weights`], instead of all alike.
    pub const SKEWED: u64 = 1 << 2;
    /// Nobody is told whether a vCPU is preempted, even where that is known.
    pub const NO_VCPU_IS_PREEMPTED: u64 = 1 << 3;
    /// Work outside the critical section is random, exponentially distributed.
    pub const OUTSIDE_EXP: u64 = 1 << 4;
    /// rwsem-bench: each operation reads by chance, instead of reads being evenly spread.
    pub const RANDOM_MIX: u64 = 1 << 5;
    /// Whoever finds out what work costs also finds out how long a turn of a waiting loop takes.
    pub const TURN: u64 = 1 << 6;
    /// Torture: interrupts are off from before an acquisition until after the release, where the machine can do
    /// that.
    pub const IRQS_OFF: u64 = 1 << 7;
}

/// What the vCPUs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Workload {
    /// Acquire and release spinlocks; see `guest::workload::spin`.
    Spin = 1,
    /// Measure halts, kicks and yields; see `guest::workload::probe`.
    Probe = 2,
    /// Busy-loop until told to stop.
    Busy = 3,
    /// Check that the lock does what it must; see `guest::workload::conformance`.
    Conformance = 4,
    /// Tasks wake each other in turn; see `guest::workload::relay`.
    Relay = 5,
    /// Torture a lock; see `guest::workload::torture`.
    Torture = 6,
    /// See `guest::workload::rwsem_bench`.
    RwsemBench = 20,
    /// See `guest::workload::futex_hash`.
    FutexHash = 21,
    /// See `guest::workload::lock_pi`.
    LockPi = 22,
    /// See `guest::workload::pipe`.
    Pipe = 23,
    /// vCPU 0 panics, to test how the host reports it.
    Panic = 100,
    /// Spin for ever without progress, to test the host's watchdog.
    Hang = 101,
    /// vCPU 0 reads an unmapped address, to test how the host reports a fault.
    Fault = 102,
    /// Do the host harm, at random, to test that it takes none; guest images only.
    Hostile = 103,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Self; 14] = [
        Self::Spin,
        Self::Probe,
        Self::Busy,
        Self::Conformance,
        Self::Relay,
        Self::Torture,
        Self::RwsemBench,
        Self::FutexHash,
        Self::LockPi,
        Self::Pipe,
        Self::Panic,
        Self::Hang,
        Self::Fault,
        Self::Hostile,
    ];

    /// The workload of that number.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|w| *w as u64 == raw)
    }
}

/// Phases of a run, in [`Control::phase`]. They only go forward.
pub mod phase {
    /// vCPUs prepare and halt.
    pub const PREPARE: u32 = 0;
    /// vCPU 0, which alone is kicked, finds out what work costs, and halts again.
    pub const CALIBRATE: u32 = 1;
    /// vCPUs work; nothing of it is to count.
    pub const WARM_UP: u32 = 2;
    /// What happens now counts.
    pub const MEASURE: u32 = 3;
    /// vCPUs finish what they have begun, and exit.
    pub const STOP: u32 = 4;
}

/// What the host tells running vCPUs. A line of its own: it is read in every turn of the workload.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Control {
    /// One of [`phase`].
    pub phase: AtomicU32,
    /// 1 once the host has seen that this machine tells which vCPUs are preempted: of KVM, a vCPU that is
    /// marked so in its steal-time area.
    pub preempted_is_reported: AtomicU32,
    /// Not 0 while vCPUs under torture are to halt between two turns.
    pub pause: AtomicU32,
    /// Not 0 once vCPUs that are host threads are to end wherever they wait: nothing in the region will be
    /// used any more.
    pub leave: AtomicU32,
    /// Turns a paravirtual waiter spins before it halts, once the host knows how many the time is that it
    /// was given; 0: as [`Params::spin_threshold`] says.
    pub spin_threshold: AtomicU32,
    /// What work costs, from the vCPU that has found it out; written before the warm-up begins. Without, each
    /// vCPU finds out for itself.
    pub calibration: Calibration,
    /// 1 once a vCPU has made its fixed number of acquisitions. The only word here that vCPUs write.
    pub first_done: AtomicU32,
}

/// Start of the region.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Header {
    /// What to do.
    pub params: Params,
    /// What to do next.
    pub control: Control,
}
