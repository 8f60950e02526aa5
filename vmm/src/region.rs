//! The host's side of the shared region: every access goes through `vm-memory`.

use crate::yielding::Yielded;
use guest::abi::{
    Calibration, Control, Costs, Counter, Data, Header, LOG_BYTES, Layout, LockSlot, MAGIC, Params,
    RunQueue, StealTime, Task, TaskArea, TraceRing, VERSION, VcpuArea,
};
use guest::hist::{BUCKETS, Hist};
use pvlock::{MAX_NODES, NodeRef};
use std::mem::{offset_of, size_of};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{
    AtomicAccess, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryError, GuestMemoryMmap,
    WriteVolatile,
};

/// Bytes of a queue node of native size.
const NODE_BYTES: usize = 16;

/// The trace ring's state in a vCPU's area.
const TRACE: usize = offset_of!(VcpuArea, trace);

/// The run queue in a vCPU's area.
const RUN_QUEUE: usize = offset_of!(VcpuArea, run_queue);

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
}

type Result<T> = std::result::Result<T, RegionError>;

/// The shared region of one VM.
#[derive(Clone, Debug)]
pub struct Region {
    memory: Arc<GuestMemoryMmap>,
    base: u64,
    layout: Layout,
}

/// A waiter's queue node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueNode {
    /// Whose node.
    pub node: NodeRef,
    /// Who is next, if known.
    pub next: Option<NodeRef>,
    /// Whether it is head of its queue.
    pub head: bool,
    /// Its paravirtual state (`pvlock::qspinlock::pv`).
    pub state: u32,
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
                (RUN_QUEUE + offset_of!(RunQueue, tasks), l.task(0)),
                (RUN_QUEUE + offset_of!(RunQueue, waiters), l.waiter(0)),
                (TRACE + offset_of!(TraceRing, records), l.trace(cpu)),
            ] {
                self.store(area + field, seen_at + value as u64)?;
            }
            self.store(
                area + offset_of!(VcpuArea, hash_slots),
                l.hash_slots() as u64,
            )?;
            let capacity = TRACE + offset_of!(TraceRing, capacity);
            self.store(area + capacity, l.trace_records() as u64)?;
            let tasks = u32::try_from(l.tasks_per_vcpu()).unwrap_or(u32::MAX);
            self.store(area + RUN_QUEUE + offset_of!(RunQueue, per_vcpu), tasks)?;
            let number = u32::try_from(cpu).unwrap_or(u32::MAX);
            let current = area + RUN_QUEUE + offset_of!(RunQueue, current);
            self.store(current, number.saturating_mul(tasks))?;
            self.store(area + offset_of!(VcpuArea, cpu), number)?;
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

    fn load<T: AtomicAccess>(&self, offset: usize) -> Result<T> {
        Ok(self
            .memory
            .load(GuestAddress(self.base + offset as u64), Ordering::Acquire)?)
    }

    fn store<T: AtomicAccess>(&self, offset: usize, value: T) -> Result<()> {
        Ok(self.memory.store(
            value,
            GuestAddress(self.base + offset as u64),
            Ordering::Release,
        )?)
    }

    fn words(&self, offset: usize, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.memory
            .read_slice(&mut bytes, GuestAddress(self.base + offset as u64))?;
        Ok(bytes
            .as_chunks()
            .0
            .iter()
            .map(|&word| u64::from_le_bytes(word))
            .collect())
    }

    /// Tells the vCPUs a new [`guest::abi::phase`]. Those that halt must be kicked to notice.
    ///
    /// # Errors
    /// As all accesses: if the region does not lie in the memory.
    pub fn set_phase(&self, phase: u32) -> Result<()> {
        self.store(self.layout.phase(), phase)
    }

    /// Says how often each lock is to be chosen, by an alias table with an entry for each
    /// ([`guest::workload::choice::Alias`]). To be said before the vCPUs are told to work.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_weights(&self, table: &[u64]) -> Result<()> {
        let start = self.layout.weights();
        for (lock, word) in table.iter().enumerate().take(self.layout.locks()) {
            self.store(start + 8 * lock, *word)?;
        }
        Ok(())
    }

    /// Tells the vCPUs that this machine reports preempted vCPUs.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_preempted_is_reported(&self) -> Result<()> {
        let offset = offset_of!(Control, preempted_is_reported);
        self.store(self.layout.control() + offset, 1u32)
    }

    /// Whether the vCPUs have been told so.
    ///
    /// # Errors
    /// As all accesses.
    pub fn preempted_is_reported(&self) -> Result<bool> {
        let offset = offset_of!(Control, preempted_is_reported);
        Ok(self.load::<u32>(self.layout.control() + offset)? != 0)
    }

    /// Tells vCPUs under torture to pause, or to go on. Those that pause must be kicked to notice.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_pause(&self, pause: bool) -> Result<()> {
        let offset = self.layout.control() + offset_of!(Control, pause);
        self.store(offset, u32::from(pause))
    }

    /// Tells vCPUs that are host threads to end wherever they wait.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_leave(&self) -> Result<()> {
        self.store(self.layout.control() + offset_of!(Control, leave), 1u32)
    }

    /// What vCPU `cpu` is doing.
    ///
    /// # Errors
    /// As all accesses.
    pub fn task(&self, cpu: usize) -> Result<Task> {
        let raw = self.load(self.layout.vcpu(cpu) + offset_of!(VcpuArea, task))?;
        // The guest writes nothing else; should its memory be overwritten, it is certainly not done.
        Ok(Task::from_raw(raw).unwrap_or(Task::Off))
    }

    /// The counters of vCPU `cpu`, by [`Counter::index`].
    ///
    /// # Errors
    /// As all accesses.
    pub fn counters(&self, cpu: usize) -> Result<Vec<u64>> {
        self.vcpu_words(cpu, offset_of!(VcpuArea, counters), Counter::COUNT)
    }

    /// Counts how a yield of vCPU `cpu` ended. Only the vCPU's own thread may, as only the vCPU itself
    /// changes its counters, and not while it is in the guest.
    ///
    /// # Errors
    /// As all accesses.
    pub fn count_yield(&self, cpu: usize, yielded: Yielded) -> Result<()> {
        for &counter in yielded.counters() {
            let offset = offset_of!(VcpuArea, counters) + 8 * counter.index();
            let offset = self.layout.vcpu(cpu) + offset;
            self.store(offset, self.load::<u64>(offset)? + 1)?;
        }
        Ok(())
    }

    /// Acquisitions of all vCPUs so far.
    ///
    /// # Errors
    /// As all accesses.
    pub fn acquisitions(&self) -> Result<u64> {
        let offset = offset_of!(VcpuArea, counters) + 8 * Counter::Acquisitions.index();
        (0..self.layout.vcpus())
            .map(|cpu| self.load::<u64>(self.layout.vcpu(cpu) + offset))
            .sum()
    }

    /// Histogram number `hist` of vCPU `cpu`.
    ///
    /// # Errors
    /// As all accesses.
    pub fn hist(&self, cpu: usize, hist: usize) -> Result<Vec<u64>> {
        let field = offset_of!(VcpuArea, hists) + hist * size_of::<Hist>();
        self.vcpu_words(cpu, field, BUCKETS)
    }

    /// A 64-bit field of vCPU `cpu`, by its offset in [`VcpuArea`].
    ///
    /// # Errors
    /// As all accesses.
    pub fn vcpu_word(&self, cpu: usize, field: usize) -> Result<u64> {
        self.load(self.layout.vcpu(cpu) + field)
    }

    /// So many 64-bit words of vCPU `cpu`, from that offset in [`VcpuArea`].
    ///
    /// # Errors
    /// As all accesses.
    pub fn vcpu_words(&self, cpu: usize, field: usize, count: usize) -> Result<Vec<u64>> {
        self.words(self.layout.vcpu(cpu) + field, count)
    }

    /// Moves what is in vCPU `cpu`'s trace ring to `to`, as little-endian words, and makes room for
    /// more. Returns the number of records.
    ///
    /// # Errors
    /// If `to` cannot be written: the records stay in the ring then.
    pub fn drain_trace(&self, cpu: usize, to: &mut impl WriteVolatile) -> Result<u64> {
        let ring = self.layout.vcpu(cpu) + TRACE;
        // Acquire (in load) pairs with the vCPU's Release store of the head: records are complete.
        let head = self.load::<u64>(ring + offset_of!(TraceRing, head))?;
        let tail = self.load::<u64>(ring + offset_of!(TraceRing, tail))?;
        let capacity = self.layout.trace_records() as u64;
        let mut at = tail;
        while at < head {
            // Up to the end of the ring's memory, then from its start.
            let place = at % capacity;
            let count = (head - at).min(capacity - place);
            let offset = self.layout.trace(cpu) as u64 + 8 * place;
            let bytes = usize::try_from(8 * count).unwrap_or(usize::MAX);
            self.memory
                .write_all_volatile_to(GuestAddress(self.base + offset), to, bytes)?;
            at += count;
        }
        // Release (in store) pairs with the vCPU's Acquire load: we are done with the records.
        self.store(ring + offset_of!(TraceRing, tail), at)?;
        Ok(at - tail)
    }

    /// When the first event was that vCPU `cpu` has put aside and not yet written, if there is one.
    ///
    /// # Errors
    /// As all accesses.
    pub fn trace_aside(&self, cpu: usize) -> Result<Option<u64>> {
        let ring = self.layout.vcpu(cpu) + TRACE;
        if self.load::<u64>(ring + offset_of!(TraceRing, aside))? == 0 {
            return Ok(None);
        }
        self.load(ring + offset_of!(TraceRing, aside_records))
            .map(Some)
    }

    /// Events that vCPU `cpu` had no room for.
    ///
    /// # Errors
    /// As all accesses.
    pub fn trace_dropped(&self, cpu: usize) -> Result<u64> {
        self.load(self.layout.vcpu(cpu) + TRACE + offset_of!(TraceRing, dropped))
    }

    /// Tells task number `task` of all where its stack ends, as it sees it.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_task_stack(&self, task: usize, top: u64) -> Result<()> {
        self.store(
            self.layout.task(task) + offset_of!(TaskArea, stack_top),
            top,
        )
    }

    /// A 64-bit field of task number `task` of all, by its offset in [`TaskArea`].
    ///
    /// # Errors
    /// As all accesses.
    pub fn task_word(&self, task: usize, field: usize) -> Result<u64> {
        self.load(self.layout.task(task) + field)
    }

    /// The phase that the figures of task number `task` of all are of, one of [`guest::abi::phase`].
    ///
    /// # Errors
    /// As all accesses.
    pub fn task_phase(&self, task: usize) -> Result<u32> {
        self.load(self.layout.task(task) + offset_of!(TaskArea, phase))
    }

    /// The last message of vCPU `cpu`.
    ///
    /// # Errors
    /// As all accesses.
    pub fn log(&self, cpu: usize) -> Result<String> {
        let area = self.layout.vcpu(cpu);
        let len = self.load::<u32>(area + offset_of!(VcpuArea, log_len))? as usize;
        let mut bytes = vec![0; len.min(LOG_BYTES)];
        let address = self.base + (area + offset_of!(VcpuArea, log)) as u64;
        self.memory.read_slice(&mut bytes, GuestAddress(address))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Steal time of vCPU `cpu` in ns and whether it is marked preempted; `None` if KVM has never
    /// written them.
    ///
    /// # Errors
    /// As all accesses.
    pub fn steal(&self, cpu: usize) -> Result<Option<(u64, bool)>> {
        let area = self.layout.vcpu(cpu) + offset_of!(VcpuArea, steal);
        let preempted: u8 = self.load(area + offset_of!(StealTime, preempted))?;
        if self.load::<u32>(area + offset_of!(StealTime, version))? == 0 && preempted == 0 {
            return Ok(None);
        }
        let ns = self.load(area + offset_of!(StealTime, steal_ns))?;
        Ok(Some((ns, preempted & 1 != 0)))
    }

    /// Guest address of the steal-time area of vCPU `cpu`.
    pub fn steal_address(&self, cpu: usize) -> u64 {
        self.base + (self.layout.vcpu(cpu) + offset_of!(VcpuArea, steal)) as u64
    }

    /// What vCPU `cpu` has found out of what work costs, if it has.
    ///
    /// # Errors
    /// As all accesses.
    pub fn calibration(&self, cpu: usize) -> Result<Option<Costs>> {
        let offset = self.layout.vcpu(cpu) + offset_of!(VcpuArea, calibration);
        // Acquire (in load) pairs with the vCPU's Release store: the other words are there if the first is.
        if self.load::<u64>(offset)? == 0 {
            return Ok(None);
        }
        let words = self.words(offset, Calibration::WORDS)?;
        Ok(words.try_into().ok().map(Costs::of_words))
    }

    /// Tells the vCPUs what work costs. To be said before they are told to work.
    ///
    /// # Errors
    /// As all accesses.
    pub fn set_calibration(&self, costs: &Costs) -> Result<()> {
        let offset = self.layout.control() + offset_of!(Control, calibration);
        // The first word last: it says that the others are there.
        for (i, word) in costs.words().into_iter().enumerate().rev() {
            self.store(offset + 8 * i, word)?;
        }
        Ok(())
    }

    /// Where the vCPUs were told that the data is which their critical sections touch.
    ///
    /// # Errors
    /// As all accesses.
    pub fn data(&self) -> Result<Data> {
        let raw = self.load(offset_of!(Header, params) + offset_of!(Params, data))?;
        Ok(Data::from_raw(raw).unwrap_or_default())
    }

    /// First 64 bits of lock number `lock`, the owner (vCPU + 1, or 0) and the entries counted; of these, 0 if
    /// nothing is counted.
    ///
    /// # Errors
    /// As all accesses.
    pub fn lock(&self, lock: usize) -> Result<(u64, u32, u64)> {
        let slot = self.layout.lock(lock);
        let (owner, entries) = match LockSlot::guarded_offset(self.data()?) {
            Some([owner, count]) => (self.load::<u64>(slot + owner)?, self.load(slot + count)?),
            None => (0, 0),
        };
        Ok((
            self.load(slot)?,
            u32::try_from(owner).unwrap_or(u32::MAX),
            entries,
        ))
    }

    /// Queue nodes in use by vCPU `cpu`.
    ///
    /// # Errors
    /// As all accesses.
    pub fn queue_nodes(&self, cpu: usize) -> Result<Vec<QueueNode>> {
        // The layout of pvlock::percpu::Node: next, locked, state, in_use.
        let node = |i: usize| self.layout.percpu(cpu) + i * NODE_BYTES;
        let in_use: u32 = self.load(node(0) + 12)?;
        (0..MAX_NODES)
            .filter(|i| in_use & (1 << i) != 0)
            .map(|i| {
                Ok(QueueNode {
                    node: NodeRef::new(u32::try_from(cpu).unwrap_or(0), i),
                    next: NodeRef::from_raw(self.load(node(i))?),
                    head: self.load::<u32>(node(i) + 4)? != 0,
                    state: self.load(node(i) + 8)?,
                })
            })
            .collect()
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
pub(crate) fn map(bytes: usize) -> Result<GuestMemoryMmap> {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)])
        .map_err(|source| RegionError::Map { bytes, source })
}
