//! What a vCPU shows of itself.

use super::{Region, RegionError, Result, garbled};
use crate::yielding::Yielded;
use abi::hist::{BUCKETS, Hist};
use abi::{Calibration, Costs, Counter, LOG_BYTES, Mark, VcpuArea, VcpuState};
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
    ///
    /// # Errors
    /// If it can have counted no such thing.
    pub fn counters(&self, cpu: usize) -> Result<Vec<u64>> {
        self.counters_at(cpu, offset_of!(VcpuArea, counters))
    }

    fn counters_at(&self, cpu: usize, offset: usize) -> Result<Vec<u64>> {
        let counters = self.vcpu_words(cpu, offset, Counter::COUNT)?;
        garbled::each(counters, cpu, "counters")
    }

    /// The counters as they were at the mark of vCPU `cpu` that is at the offset `mark` in its area.
    ///
    /// # Errors
    /// As [`Self::counters`].
    pub fn counters_of_mark(&self, cpu: usize, mark: usize) -> Result<Vec<u64>> {
        self.counters_at(cpu, mark + offset_of!(Mark, counters))
    }

    /// A histogram as it was then, by its offset in [`Mark`].
    ///
    /// # Errors
    /// As [`Self::hist`].
    pub fn hist_of_mark(&self, cpu: usize, mark: usize, hist: usize) -> Result<Vec<u64>> {
        self.hist_at(cpu, mark + hist)
    }

    /// Counts how a yield of vCPU `cpu` ended. Only the vCPU's own thread may, as only the vCPU itself
    /// changes its counters, and not while it is in the guest.
    pub fn count_yield(&self, cpu: usize, yielded: Yielded) -> Result<()> {
        for &counter in yielded.counters() {
            let offset = offset_of!(VcpuArea, counters) + 8 * counter.index();
            let offset = self.layout.vcpu(cpu) + offset;
            self.store(offset, self.load::<u64>(offset)?.wrapping_add(1))?;
        }
        Ok(())
    }

    /// Histogram number `hist` of vCPU `cpu`.
    ///
    /// # Errors
    /// If there can be no such histogram.
    pub fn hist(&self, cpu: usize, hist: usize) -> Result<Vec<u64>> {
        self.hist_at(cpu, offset_of!(VcpuArea, hists) + hist * size_of::<Hist>())
    }

    fn hist_at(&self, cpu: usize, offset: usize) -> Result<Vec<u64>> {
        let buckets = self.vcpu_words(cpu, offset, BUCKETS)?;
        garbled::all(buckets, cpu, "histograms")
    }

    /// A 64-bit field of vCPU `cpu`, by its offset in [`VcpuArea`].
    pub fn vcpu_word(&self, cpu: usize, field: usize) -> Result<u64> {
        self.load(self.layout.vcpu(cpu) + field)
    }

    /// So many 64-bit words of vCPU `cpu`, from that offset in [`VcpuArea`].
    pub fn vcpu_words(&self, cpu: usize, field: usize, count: usize) -> Result<Vec<u64>> {
        self.words(self.layout.vcpu(cpu) + field, count)
    }

    /// The last message of vCPU `cpu`, as text that does nothing to a terminal.
    pub fn log(&self, cpu: usize) -> Result<String> {
        let area = self.layout.vcpu(cpu);
        let len = self.load::<u32>(area + offset_of!(VcpuArea, log_len))? as usize;
        let mut bytes = vec![0; len.min(LOG_BYTES)];
        let text = self.at(area + offset_of!(VcpuArea, log));
        self.memory.read_slice(&mut bytes, text)?;
        Ok(harmless(&String::from_utf8_lossy(&bytes)))
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
        Ok(Some((garbled::time(ns, cpu)?, preempted & 1 != 0)))
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
        (0..self.layout.vcpus())
            .map(|cpu| self.acquisitions_of(cpu))
            .sum()
    }

    /// Acquisitions of vCPU `cpu` so far.
    ///
    /// # Errors
    /// As [`Self::counters`].
    pub fn acquisitions_of(&self, cpu: usize) -> Result<u64> {
        let offset = offset_of!(VcpuArea, counters) + 8 * Counter::Acquisitions.index();
        let count = garbled::each(self.vcpu_words(cpu, offset, 1)?, cpu, "counters")?;
        Ok(count[0])
    }

    /// Moves what is in vCPU `cpu`'s trace ring to `to`, as little-endian words, and makes room for
    /// more. `taken`: records that have been taken from the ring so far, 0 at first; the guest is told, but not
    /// asked.
    ///
    /// # Errors
    /// If `to` cannot be written, or the guest has written more than fits: the records stay in the ring then.
    pub fn drain_trace(
        &self,
        cpu: usize,
        taken: &mut u64,
        to: &mut impl WriteVolatile,
    ) -> Result<()> {
        // Acquire (in load) pairs with the vCPU's Release store of the head: records are complete.
        let head = self.vcpu_word(cpu, offset_of!(VcpuArea, trace.head))?;
        let capacity = self.layout.trace_records() as u64;
        if head.wrapping_sub(*taken) > capacity {
            return Err(RegionError::Ring {
                vcpu: cpu,
                written: head,
                taken: *taken,
                capacity,
            });
        }
        let mut at = *taken;
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
        *taken = at;
        Ok(())
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
    ///
    /// # Errors
    /// If there cannot be so many.
    pub fn trace_dropped(&self, cpu: usize) -> Result<u64> {
        let dropped = self.vcpu_word(cpu, offset_of!(VcpuArea, trace.dropped))?;
        Ok(garbled::each(vec![dropped], cpu, "dropped events")?[0])
    }
}

/// `text` with escapes for what would move a terminal's cursor, or worse. Lines stay lines.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            harmless.extend(c.escape_default());
        } else {
            harmless.push(c);
        }
    }
    harmless
}
