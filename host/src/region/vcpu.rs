//! What a vCPU shows of itself.

use super::{Region, Result};
use crate::yielding::Yielded;
use abi::hist::{BUCKETS, Hist};
use abi::{Calibration, Costs, Counter, LOG_BYTES, VcpuArea, VcpuState};
use std::mem::{offset_of, size_of};
use vm_memory::{Bytes, WriteVolatile};

impl Region {
    /// What vCPU `cpu` is doing.
    pub fn state(&self, cpu: usize) -> Result<VcpuState> {
        let raw = self.load(self.layout.vcpu(cpu) + offset_of!(VcpuArea, state))?;
        // The guest writes nothing else; should its memory be overwritten, it is certainly not done.
        Ok(VcpuState::from_raw(raw).unwrap_or(VcpuState::Off))
    }

    /// The counters of vCPU `cpu`, by [`Counter::index`].
    pub fn counters(&self, cpu: usize) -> Result<Vec<u64>> {
        self.vcpu_words(cpu, offset_of!(VcpuArea, counters), Counter::COUNT)
    }

    /// Counts how a yield of vCPU `cpu` ended. Only the vCPU's own thread may, as only the vCPU itself
    /// changes its counters, and not while it is in the guest.
    pub fn count_yield(&self, cpu: usize, yielded: Yielded) -> Result<()> {
        for &counter in yielded.counters() {
            let offset = offset_of!(VcpuArea, counters) + 8 * counter.index();
            let offset = self.layout.vcpu(cpu) + offset;
            self.store(offset, self.load::<u64>(offset)? + 1)?;
        }
        Ok(())
    }

    /// Histogram number `hist` of vCPU `cpu`.
    pub fn hist(&self, cpu: usize, hist: usize) -> Result<Vec<u64>> {
        let field = offset_of!(VcpuArea, hists) + hist * size_of::<Hist>();
        self.vcpu_words(cpu, field, BUCKETS)
    }

    /// A 64-bit field of vCPU `cpu`, by its offset in [`VcpuArea`].
    pub fn vcpu_word(&self, cpu: usize, field: usize) -> Result<u64> {
        self.load(self.layout.vcpu(cpu) + field)
    }

    /// So many 64-bit words of vCPU `cpu`, from that offset in [`VcpuArea`].
    pub fn vcpu_words(&self, cpu: usize, field: usize, count: usize) -> Result<Vec<u64>> {
        self.words(self.layout.vcpu(cpu) + field, count)
    }

    /// The last message of vCPU `cpu`.
    pub fn log(&self, cpu: usize) -> Result<String> {
        let area = self.layout.vcpu(cpu);
        let len = self.load::<u32>(area + offset_of!(VcpuArea, log_len))? as usize;
        let mut bytes = vec![0; len.min(LOG_BYTES)];
        let text = self.at(area + offset_of!(VcpuArea, log));
        self.memory.read_slice(&mut bytes, text)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Steal time of vCPU `cpu` in ns and whether it is marked preempted; `None` if KVM has never
    /// written them.
    pub fn steal(&self, cpu: usize) -> Result<Option<(u64, bool)>> {
        let area = self.layout.vcpu(cpu);
        let preempted: u8 = self.load(area + offset_of!(VcpuArea, steal.preempted))?;
        let version: u32 = self.load(area + offset_of!(VcpuArea, steal.version))?;
        if version == 0 && preempted == 0 {
            return Ok(None);
        }
        let ns = self.load(area + offset_of!(VcpuArea, steal.steal_ns))?;
        Ok(Some((ns, preempted & 1 != 0)))
    }

    /// Guest address of the steal-time area of vCPU `cpu`.
    pub fn steal_address(&self, cpu: usize) -> u64 {
        self.at(self.layout.vcpu(cpu) + offset_of!(VcpuArea, steal))
            .0
    }

    /// What vCPU `cpu` has found out of what work costs, if it has.
    pub fn calibration(&self, cpu: usize) -> Result<Option<Costs>> {
        let offset = self.layout.vcpu(cpu) + offset_of!(VcpuArea, calibration);
        // Acquire (in load) pairs with the vCPU's Release store: the other words are there if the first is.
        if self.load::<u64>(offset)? == 0 {
            return Ok(None);
        }
        let words = self.words(offset, Calibration::WORDS)?;
        Ok(words.try_into().ok().map(Costs::of_words))
    }

    /// Acquisitions of all vCPUs so far.
    pub fn acquisitions(&self) -> Result<u64> {
        let offset = offset_of!(VcpuArea, counters) + 8 * Counter::Acquisitions.index();
        (0..self.layout.vcpus())
            .map(|cpu| self.load::<u64>(self.layout.vcpu(cpu) + offset))
            .sum()
    }

    /// Moves what is in vCPU `cpu`'s trace ring to `to`, as little-endian words, and makes room for
    /// more. Returns the number of records.
    ///
    /// # Errors
    /// If `to` cannot be written: the records stay in the ring then.
    pub fn drain_trace(&self, cpu: usize, to: &mut impl WriteVolatile) -> Result<u64> {
        // Acquire (in load) pairs with the vCPU's Release store of the head: records are complete.
        let head = self.vcpu_word(cpu, offset_of!(VcpuArea, trace.head))?;
        let tail = self.vcpu_word(cpu, offset_of!(VcpuArea, trace.tail))?;
        let capacity = self.layout.trace_records() as u64;
        let mut at = tail;
        while at < head {
            // Up to the end of the ring's memory, then from its start.
            let place = at % capacity;
            let count = (head - at).min(capacity - place);
            let bytes = |records: u64| usize::try_from(8 * records).unwrap_or(usize::MAX);
            let from = self.at(self.layout.trace(cpu) + bytes(place));
            self.memory.write_all_volatile_to(from, to, bytes(count))?;
            at += count;
        }
        // Release (in store) pairs with the vCPU's Acquire load: we are done with the records.
        self.store(self.layout.vcpu(cpu) + offset_of!(VcpuArea, trace.tail), at)?;
        Ok(at - tail)
    }

    /// When the first event was that vCPU `cpu` has put aside and not yet written, if there is one.
    pub fn trace_aside(&self, cpu: usize) -> Result<Option<u64>> {
        if self.vcpu_word(cpu, offset_of!(VcpuArea, trace.aside))? == 0 {
            return Ok(None);
        }
        self.vcpu_word(cpu, offset_of!(VcpuArea, trace.aside_records))
            .map(Some)
    }

    /// Events that vCPU `cpu` had no room for.
    pub fn trace_dropped(&self, cpu: usize) -> Result<u64> {
        self.vcpu_word(cpu, offset_of!(VcpuArea, trace.dropped))
    }
}
