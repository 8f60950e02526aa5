//! What a vCPU keeps for itself and shows to the host.

use crate::hist::Hist;
use crate::{Calibration, CallTable, Counter, RunQueue};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Histograms a vCPU has; the workload says what each is for.
pub const HISTS: usize = 5;
/// [`VcpuArea::hists`]: how long acquisitions waited that were not for reading, if they are timed.
pub const HIST_WAIT: usize = 0;
/// [`VcpuArea::hists`]: how long critical sections took (a sample).
pub const HIST_CRITICAL: usize = 1;
/// [`VcpuArea::hists`]: how long the work between two acquisitions took (a sample).
pub const HIST_OUTSIDE: usize = 2;
/// [`VcpuArea::hists`]: scratch, for finding out what timing costs.
pub const HIST_SCRATCH: usize = 3;
/// [`VcpuArea::hists`]: how long acquisitions waited that were for reading, if they are timed.
pub const HIST_READ_WAIT: usize = 4;

/// Longest log message.
pub const LOG_BYTES: usize = 1024;

/// What a vCPU is doing, in [`VcpuArea::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VcpuState {
    /// Not started.
    Off = 0,
    /// Prepared, and waiting for the warm-up.
    Ready = 1,
    /// At work.
    Working = 2,
    /// Finished.
    Done = 3,
    /// At work, but asked to pause, and waiting until that is over.
    Paused = 4,
}

impl VcpuState {
    /// The state of that number.
    pub fn from_raw(raw: u32) -> Option<Self> {
        [
            Self::Off,
            Self::Ready,
            Self::Working,
            Self::Done,
            Self::Paused,
        ]
        .into_iter()
        .find(|state| *state as u32 == raw)
    }
}

/// KVM's steal-time area (KVM documentation, MSR_KVM_STEAL_TIME), written by the host kernel.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct StealTime {
    /// Nanoseconds in which the vCPU wanted to run and could not.
    pub steal_ns: AtomicU64,
    /// Odd while an update is under way.
    pub version: AtomicU32,
    flags: AtomicU32,
    /// Bit 0: the vCPU is preempted.
    pub preempted: AtomicU8,
    reserved: [AtomicU8; 47],
}

/// Where a vCPU's figures stood between two of its turns. Only the vCPU itself can tell: seen from
/// outside, one figure is of a turn that has not got to the next.
#[derive(Debug)]
#[repr(C)]
pub struct Mark {
    /// When that was; 0 until then. Written last: the Release store pairs with the host's Acquire load.
    pub at: AtomicU64,
    /// As [`VcpuArea::counters`].
    pub counters: [AtomicU64; Counter::COUNT],
    /// Of [`VcpuArea::hists`], the waits that were not for reading.
    pub waits: Hist,
    /// Of [`VcpuArea::hists`], the waits for reading.
    pub read_waits: Hist,
    /// As [`VcpuArea::wait_max`].
    pub wait_max: AtomicU64,
    /// As [`VcpuArea::read_wait_max`].
    pub read_wait_max: AtomicU64,
}

impl Mark {
    /// Marks where `vcpu` stands, at `now`.
    pub fn set(&self, vcpu: &VcpuArea, now: u64) {
        for (to, from) in self.counters.iter().zip(&vcpu.counters) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.waits.copy(&vcpu.hists[HIST_WAIT]);
        self.read_waits.copy(&vcpu.hists[HIST_READ_WAIT]);
        for (to, from) in [
            (&self.wait_max, &vcpu.wait_max),
            (&self.read_wait_max, &vcpu.read_wait_max),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.at.store(now, Release);
    }
}

/// Events of a trace that can be put aside.
pub const ASIDE: usize = 8;

/// The state of a vCPU's trace ring; see [`crate::ring`].
///
/// `head`, `tail` and the other counts of records only grow; a record's place is its number modulo
/// the capacity.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TraceRing {
    /// Address of the records, set by the host.
    pub records: u64,
    /// How many fit, a power of two.
    pub capacity: u64,
    /// Records written, by the vCPU.
    pub head: AtomicU64,
    /// Where the ring was full when the vCPU last looked.
    pub full_at: AtomicU64,
    /// The clock at the last record.
    pub last: AtomicU64,
    /// Events dropped.
    pub dropped: AtomicU64,
    /// Of them, told in the ring.
    pub dropped_told: AtomicU64,
    /// State of the choices when to preempt and when to interrupt.
    pub chance: AtomicU64,
    /// Number of the lock that is being acquired, plus 1; 0 if none is.
    pub acquiring: AtomicU64,
    /// Events put aside.
    pub aside: AtomicU64,
    /// Their times and records.
    pub aside_records: [[AtomicU64; 2]; ASIDE],
    /// Records read, by the host.
    pub tail: AtomicU64,
}

/// How long something took that was looked at now and then, without what was interrupted: a mean that does
/// not depend on the width of a histogram's buckets.
#[derive(Debug)]
#[repr(C)]
pub struct Sampled {
    /// How often.
    pub count: AtomicU64,
    /// In all, ticks.
    pub ticks: AtomicU64,
}

impl Sampled {
    /// Adds what took `ticks`.
    #[inline(always)]
    pub fn add(&self, ticks: u64) {
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        self.ticks.store(self.ticks.load(Relaxed) + ticks, Relaxed);
    }

    /// Begins anew.
    pub fn clear(&self) {
        self.count.store(0, Relaxed);
        self.ticks.store(0, Relaxed);
    }
}

/// One vCPU's own memory.
///
/// The first part is set by the host before the start and constant thereafter: addresses as this
/// vCPU sees them.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct VcpuArea {
    /// This area itself: what the segment base of the image points to.
    pub this: u64,
    /// The [`crate::Header`].
    pub header: u64,
    /// The first [`crate::LockSlot`].
    pub locks: u64,
    /// The alias table by which one of the locks is chosen, with an entry for each
    /// ([`crate::Alias`]); only meaningful after the start, and with
    /// [`crate::flags::SKEWED`].
    pub weights: u64,
    /// Lock storage of vCPU 0 (`pvlock::PerCpu`).
    pub percpu: u64,
    /// The pv hash table.
    pub hash: u64,
    /// Its number of slots.
    pub hash_slots: u64,
    /// This vCPU's number.
    pub cpu: u32,
    /// 1 while a kick is pending, on machines that block vCPUs by this word.
    pub kick_token: AtomicU32,

    /// The operations of its lock, for [`crate::Dispatch::Pointer`]; filled by the vCPU.
    pub table: CallTable,

    /// A [`VcpuState`].
    pub state: AtomicU32,
    /// The context that this vCPU is in: 0, or how many it has interrupted.
    pub context: AtomicU32,
    /// When the acquisition under way began that is not for reading; 0 if there is none, or if
    /// acquisitions are not timed.
    pub wait_since: AtomicU64,
    /// Longest such wait completed in the present phase.
    pub wait_max: AtomicU64,
    /// The same two of acquisitions for reading.
    pub read_wait_since: AtomicU64,
    /// See above.
    pub read_wait_max: AtomicU64,
    /// When this vCPU has kicked another; in a probe.
    pub kicked_at: AtomicU64,
    /// The last such time of another vCPU that this one has seen; in a probe.
    pub kick_seen: AtomicU64,
    /// When the first acquisition was made.
    pub first_acquisition: AtomicU64,
    /// When the last acquisition of a fixed number was made; 0 until then.
    pub finished: AtomicU64,
    /// What work costs, if this vCPU has found it out.
    pub calibration: Calibration,
    /// Critical sections of the present phase, a sample.
    pub section: Sampled,
    /// Work between two acquisitions, likewise.
    pub outside: Sampled,
    /// Values by [`Counter::index`].
    pub counters: [AtomicU64; Counter::COUNT],
    /// Histograms, in ticks.
    pub hists: [Hist; HISTS],
    /// Where a vCPU with a fixed number of acquisitions to make stood when it began with them.
    pub begun: Mark,
    /// Where it stood at its first turn after the first vCPU had made them all; of that one, then.
    pub first_done: Mark,
    /// Its tasks.
    pub run_queue: RunQueue,
    /// The trace.
    pub trace: TraceRing,
    /// Bytes in use of `log`.
    pub log_len: AtomicU32,
    /// The last message.
    pub log: [AtomicU8; LOG_BYTES],
    /// Where KVM reports steal time.
    pub steal: StealTime,
}

impl VcpuArea {
    /// Adds `n` to a counter. Only the vCPU itself may: there is no atomicity.
    #[inline(always)]
    pub fn count(&self, counter: Counter, n: u64) {
        let value = &self.counters[counter.index()];
        value.store(value.load(Relaxed) + n, Relaxed);
    }

    /// Puts `text` into the log, cut to its size at a character boundary.
    pub fn set_log(&self, text: &str) {
        let end = (0..=text.len().min(LOG_BYTES))
            .rev()
            .find(|&i| text.is_char_boundary(i));
        for (to, from) in self.log.iter().zip(text[..end.unwrap_or(0)].bytes()) {
            to.store(from, Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most LOG_BYTES")]
        self.log_len.store(end.unwrap_or(0) as u32, Relaxed);
    }
}
