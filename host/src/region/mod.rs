//! The host's side of the shared region: every access goes through `vm-memory`.
//!
//! Words are found by their offset in the types of [`abi`], and each access is atomic. One fails only if it
//! falls outside the memory.
//!
//! A guest may write whatever it likes there, at any time. So nothing that it writes is an index, a length or an
//! address for the host without having been checked, the host keeps what it must know to itself, and counts that
//! cannot be are errors.

mod garbled;
mod locks;
mod vcpu;

pub use locks::QueueNode;

use abi::{Control, Costs, Header, Layout, MAGIC, Params, TaskArea, VERSION, VcpuArea};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::{
    AtomicAccess, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryError, GuestMemoryMmap,
    VolatileMemory,
};

/// Guest memory could not be had, or an access fell outside it.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The memory could not be mapped.
    #[error(
        "cannot map {bytes} bytes of guest memory: {source}; use fewer vCPUs, locks or VMs, or a smaller \
         --ring, or raise 'ulimit -v'"
    )]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// Why not.
        source: vm_memory::mmap::FromRangesError,
    },
    /// An access failed.
    #[error("guest memory: {0}")]
    Access(#[from] GuestMemoryError),
    /// A guest shows what no guest of ours can have counted.
    #[error(
        "vCPU {vcpu} of the guest shows {value} in its {what}, more than it can have counted: its memory has \
         been overwritten"
    )]
    Count {
        /// The vCPU.
        vcpu: usize,
        /// What it should have counted.
        what: &'static str,
        /// What is there.
        value: u64,
    },
    /// A lock shows more entries than there can have been.
    #[error(
        "lock {lock} of the guest shows {value} entries, more than there can have been: its memory has been \
         overwritten"
    )]
    Entries {
        /// The lock.
        lock: usize,
        /// What is there.
        value: u64,
    },
    /// The state of a trace ring contradicts itself.
    #[error(
        "vCPU {vcpu} of the guest says that it has written {written} records of its trace, of which {taken} were \
         taken and {capacity} fit into its ring: its memory has been overwritten"
    )]
    Ring {
        /// The vCPU.
        vcpu: usize,
        /// Records written, as the vCPU says.
        written: u64,
        /// Records that the host has taken.
        taken: u64,
        /// Records that fit.
        capacity: u64,
    },
}

type Result<T> = std::result::Result<T, RegionError>;

/// The shared region of one VM.
#[derive(Clone, Debug)]
pub struct Region {
    memory: Arc<GuestMemoryMmap>,
    base: u64,
    layout: Layout,
}

impl Region {
    /// The region at guest address `base` of `memory`.
    pub fn new(memory: Arc<GuestMemoryMmap>, base: u64, layout: Layout) -> Self {
        Self {
            memory,
            base,
            layout,
        }
    }

    /// A region in memory of its own, for vCPUs that live in this process.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn in_process(params: &Params) -> Result<Self> {
        let layout = layout_of(params);
        let memory = map(layout.size())?;
        let region = Self::new(Arc::new(memory), 0, layout);
        region.init(params, region.host_address()? as u64)?;
        Ok(region)
    }

    /// Writes the parameters, and the addresses that vCPUs need, for vCPUs that see the region at
    /// address `seen_at`.
    ///
    /// # Errors
    /// If the region does not lie in the memory.
    pub fn init(&self, params: &Params, seen_at: u64) -> Result<()> {
        let params = Params {
            magic: MAGIC,
            version: VERSION,
            ..*params
        };
        for (i, word) in params.words().into_iter().enumerate() {
            self.store(offset_of!(Header, params) + 8 * i, word)?;
        }
        let l = self.layout;
        for cpu in 0..l.vcpus() {
            let area = l.vcpu(cpu);
            for (field, value) in [
                (offset_of!(VcpuArea, this), l.vcpu(cpu)),
                (offset_of!(VcpuArea, header), 0),
                (offset_of!(VcpuArea, locks), l.lock(0)),
                (offset_of!(VcpuArea, weights), l.weights()),
                (offset_of!(VcpuArea, percpu), l.percpu(0)),
                (offset_of!(VcpuArea, hash), l.hash()),
                (offset_of!(VcpuArea, run_queue.tasks), l.task(0)),
                (offset_of!(VcpuArea, run_queue.waiters), l.waiter(0)),
                (offset_of!(VcpuArea, trace.records), l.trace(cpu)),
            ] {
                self.store(area + field, seen_at + value as u64)?;
            }
            let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let tasks = small(l.tasks_per_vcpu());
            for (field, count) in [
                (offset_of!(VcpuArea, hash_slots), l.hash_slots()),
                (offset_of!(VcpuArea, trace.capacity), l.trace_records()),
            ] {
                self.store(area + field, count as u64)?;
            }
            for (field, number) in [
                (offset_of!(VcpuArea, cpu), small(cpu)),
                (offset_of!(VcpuArea, run_queue.per_vcpu), tasks),
                (
                    offset_of!(VcpuArea, run_queue.current),
                    small(cpu).saturating_mul(tasks),
                ),
            ] {
                self.store(area + field, number)?;
            }
        }
        Ok(())
    }

    /// The region's layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where the region is in this process.
    ///
    /// # Errors
    /// If the region does not lie in the memory.
    pub fn host_address(&self) -> Result<usize> {
        Ok(self
            .memory
            .get_host_address(GuestAddress(self.base))?
            .expose_provenance())
    }

    /// Where vCPU `cpu`'s area is in this process.
    ///
    /// # Errors
    /// As [`Self::host_address`].
    pub fn vcpu_host_address(&self, cpu: usize) -> Result<usize> {
        Ok(self.host_address()? + self.layout.vcpu(cpu))
    }

    fn at(&self, offset: usize) -> GuestAddress {
        GuestAddress(self.base + offset as u64)
    }

    fn load<T: AtomicAccess>(&self, offset: usize) -> Result<T> {
        Ok(self.memory.load(self.at(offset), Ordering::Acquire)?)
    }

    fn store<T: AtomicAccess>(&self, offset: usize, value: T) -> Result<()> {
        Ok(self
            .memory
            .store(value, self.at(offset), Ordering::Release)?)
    }

    /// Each of the words is read at once, whatever the guest does to it meanwhile; not all of them together.
    fn words(&self, offset: usize, count: usize) -> Result<Vec<u64>> {
        let memory = self.memory.get_slice(self.at(offset), count * 8)?;
        let word = |i: usize| {
            let word = memory.get_atomic_ref::<AtomicU64>(8 * i);
            // Relaxed: whoever needs more has loaded the word that says the others are there.
            Ok(word
                .map_err(GuestMemoryError::from)?
                .load(Ordering::Relaxed))
        };
        (0..count).map(word).collect()
    }

    /// Tells the vCPUs a new [`abi::phase`]. Those that halt must be kicked to notice.
    pub fn set_phase(&self, phase: u32) -> Result<()> {
        self.store(self.layout.phase(), phase)
    }

    /// Says how often each lock is to be chosen, by an alias table with an entry for each
    /// ([`abi::Alias`]). To be said before the vCPUs are told to work.
    pub fn set_weights(&self, table: &[u64]) -> Result<()> {
        let start = self.layout.weights();
        for (lock, word) in table.iter().enumerate().take(self.layout.locks()) {
            self.store(start + 8 * lock, *word)?;
        }
        Ok(())
    }

    /// Tells the vCPUs that this machine reports preempted vCPUs.
    pub fn set_preempted_is_reported(&self) -> Result<()> {
        let offset = offset_of!(Control, preempted_is_reported);
        self.store(self.layout.control() + offset, 1u32)
    }

    /// Whether the vCPUs have been told so.
    pub fn preempted_is_reported(&self) -> Result<bool> {
        let offset = offset_of!(Control, preempted_is_reported);
        Ok(self.load::<u32>(self.layout.control() + offset)? != 0)
    }

    /// Tells vCPUs under torture to pause, or to go on. Those that pause must be kicked to notice.
    pub fn set_pause(&self, pause: bool) -> Result<()> {
        let offset = self.layout.control() + offset_of!(Control, pause);
        self.store(offset, u32::from(pause))
    }

    /// Tells vCPUs that are host threads to end wherever they wait.
    pub fn set_leave(&self) -> Result<()> {
        self.store(self.layout.control() + offset_of!(Control, leave), 1u32)
    }

    /// Tells the vCPUs what work costs. To be said before they are told to work.
    pub fn set_calibration(&self, costs: &Costs) -> Result<()> {
        let offset = self.layout.control() + offset_of!(Control, calibration);
        // The first word last: it says that the others are there.
        for (i, word) in costs.words().into_iter().enumerate().rev() {
            self.store(offset + 8 * i, word)?;
        }
        Ok(())
    }

    /// Tells all vCPUs how many turns a paravirtual waiter spins before it halts.
    pub fn set_spin_threshold(&self, turns: u32) -> Result<()> {
        let offset = self.layout.control() + offset_of!(Control, spin_threshold);
        self.store(offset, turns)
    }

    /// Tells task number `task` of all where its stack ends, as it sees it.
    pub fn set_task_stack(&self, task: usize, top: u64) -> Result<()> {
        self.store(
            self.layout.task(task) + offset_of!(TaskArea, stack_top),
            top,
        )
    }

    /// What task number `task` of all has counted in the field at that offset in [`TaskArea`].
    ///
    /// # Errors
    /// If it can have counted no such thing.
    pub fn task_count(&self, task: usize, field: usize) -> Result<u64> {
        let vcpu = task / self.layout.tasks_per_vcpu();
        garbled::task(self.task_word(task, field)?, vcpu)
    }

    /// A 64-bit field of task number `task` of all, by its offset in [`TaskArea`].
    pub fn task_word(&self, task: usize, field: usize) -> Result<u64> {
        self.load(self.layout.task(task) + field)
    }

    /// The phase that the figures of task number `task` of all are of, one of [`abi::phase`].
    pub fn task_phase(&self, task: usize) -> Result<u32> {
        self.load(self.layout.task(task) + offset_of!(TaskArea, phase))
    }
}

/// The layout that `params` ask for.
pub fn layout_of(params: &Params) -> Layout {
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Layout::new(size(params.vcpus), size(params.locks))
        .with_tasks(size(params.tasks).max(1))
        .with_trace(size(params.trace_records))
}

/// Zeroed guest memory of `bytes` bytes from address 0; pages are taken when touched.
pub fn map(bytes: usize) -> Result<GuestMemoryMmap> {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)])
        .map_err(|source| RegionError::Map { bytes, source })
}
