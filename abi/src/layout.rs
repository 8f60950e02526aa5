//! Where things are in the region.

use super::{Header, LockSlot, TaskArea, VcpuArea};
use core::mem::{align_of, offset_of, size_of};
use pvlock::percpu::Node;

/// Bytes of one CPU's lock storage (`pvlock::PerCpu` on atomics of native size).
const PERCPU_BYTES: usize = 256;
/// Bytes of one slot of the pv hash table (`pvlock::pv_hash::HashSlot`, likewise).
const HASH_SLOT_BYTES: usize = 16;
/// Alignment of each part.
const PART_ALIGN: usize = 4096;

/// A queue node (`pvlock::percpu::Node`) as it lies in memory, of atomics of native size.
#[derive(Debug)]
#[repr(C)]
pub struct NodeWords {
    /// The name of the next one.
    pub next: u32,
    /// Not 0 once it is head of its queue.
    pub locked: u32,
    /// Its paravirtual state.
    pub state: u32,
    /// Of a CPU's first node: a bit for each of its nodes in use.
    pub in_use: u32,
}

/// Byte offsets from the start of the region, for a given number of vCPUs and locks.
///
/// Order: header, vCPU areas, lock slots, weights of the locks, per-CPU lock storage, pv hash table,
/// tasks, their waiters, trace rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    vcpus: usize,
    locks: usize,
    tasks_per_vcpu: usize,
    trace_records: usize,
}

const _: () = {
    assert!(size_of::<Header>() <= PART_ALIGN && size_of::<VcpuArea>().is_multiple_of(64));
    assert!(align_of::<VcpuArea>() <= PART_ALIGN && align_of::<LockSlot>() <= PART_ALIGN);
};

const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(PART_ALIGN)
}

impl Layout {
    /// Bytes from one task's waiter (`pvlock::wait::Waiter`) to the next.
    pub const WAITER_BYTES: usize = 64;

    /// The layout for `vcpus` vCPUs and `locks` locks.
    pub const fn new(vcpus: usize, locks: usize) -> Self {
        Self {
            vcpus,
            locks,
            tasks_per_vcpu: 1,
            trace_records: 0,
        }
    }

    /// The same with a trace ring of that many records for each vCPU.
    pub const fn with_trace(self, records: usize) -> Self {
        Self {
            trace_records: records,
            ..self
        }
    }

    /// The same with that many tasks for each vCPU.
    pub const fn with_tasks(self, tasks_per_vcpu: usize) -> Self {
        assert!(tasks_per_vcpu > 0);
        Self {
            tasks_per_vcpu,
            ..self
        }
    }

    /// Number of vCPUs.
    pub const fn vcpus(self) -> usize {
        self.vcpus
    }

    /// Tasks of each vCPU.
    pub const fn tasks_per_vcpu(self) -> usize {
        self.tasks_per_vcpu
    }

    /// Tasks of all vCPUs.
    pub const fn tasks(self) -> usize {
        self.vcpus * self.tasks_per_vcpu
    }

    /// Number of locks.
    pub const fn locks(self) -> usize {
        self.locks
    }

    /// The control words.
    pub const fn control(self) -> usize {
        offset_of!(Header, control)
    }

    /// The phase word.
    pub const fn phase(self) -> usize {
        offset_of!(Header, control.phase)
    }

    /// The area of vCPU `cpu`.
    pub const fn vcpu(self, cpu: usize) -> usize {
        assert!(cpu <= self.vcpus);
        aligned(size_of::<Header>()) + cpu * size_of::<VcpuArea>()
    }

    /// Lock number `lock`.
    pub const fn lock(self, lock: usize) -> usize {
        assert!(lock <= self.locks);
        aligned(self.vcpu(self.vcpus)) + lock * size_of::<LockSlot>()
    }

    /// The weights of the locks: an alias table with an 8-byte entry for each.
    pub const fn weights(self) -> usize {
        aligned(self.lock(self.locks))
    }

    /// The lock storage of vCPU `cpu`.
    pub const fn percpu(self, cpu: usize) -> usize {
        assert!(cpu <= self.vcpus);
        aligned(self.weights() + 8 * self.locks) + cpu * PERCPU_BYTES
    }

    /// Node number `node` of vCPU `cpu`.
    pub const fn node(self, cpu: usize, node: usize) -> usize {
        assert!(node < pvlock::MAX_NODES);
        self.percpu(cpu) + node * size_of::<NodeWords>()
    }

    /// The pv hash table.
    pub const fn hash(self) -> usize {
        aligned(self.percpu(self.vcpus))
    }

    /// Slots of the pv hash table.
    pub const fn hash_slots(self) -> usize {
        pvlock::pv_hash::slots_for(self.vcpus)
    }

    /// Task number `task` of all.
    pub const fn task(self, task: usize) -> usize {
        assert!(task <= self.tasks());
        aligned(self.hash() + self.hash_slots() * HASH_SLOT_BYTES) + task * size_of::<TaskArea>()
    }

    /// The waiter of task number `task` of all.
    pub const fn waiter(self, task: usize) -> usize {
        assert!(task <= self.tasks());
        aligned(self.task(self.tasks())) + task * Self::WAITER_BYTES
    }

    /// The trace ring of vCPU `cpu`.
    pub const fn trace(self, cpu: usize) -> usize {
        assert!(cpu <= self.vcpus);
        aligned(self.waiter(self.tasks())) + cpu * self.trace_records * 8
    }

    /// Records of each trace ring.
    pub const fn trace_records(self) -> usize {
        self.trace_records
    }

    /// Size of the whole region in bytes.
    pub const fn size(self) -> usize {
        aligned(self.trace(self.vcpus))
    }

    /// Checks, at compile time where used in a constant, that a platform's lock storage has the
    /// sizes this layout assumes, and its queue nodes their words where [`NodeWords`] says.
    pub const fn fits<P: pvlock::Platform>() -> bool {
        macro_rules! same {
            ($($word:ident)+) => {
                $(offset_of!(Node<P>, $word) == offset_of!(NodeWords, $word) &&)+ true
            };
        }
        let nodes = offset_of!(pvlock::PerCpu<P>, nodes) == 0
            && size_of::<Node<P>>() == size_of::<NodeWords>()
            && same!(next locked state in_use);
        nodes
            && size_of::<pvlock::PerCpu<P>>() == PERCPU_BYTES
            && size_of::<pvlock::pv_hash::HashSlot<P>>() == HASH_SLOT_BYTES
            && size_of::<pvlock::wait::Waiter<P>>() <= Self::WAITER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_overlap() {
        for (vcpus, locks) in [(1, 1), (2, 1), (8, 7), (48, 1), (1024, 4096)] {
            let l = Layout::new(vcpus, locks).with_tasks(3).with_trace(1024);
            let starts = [
                l.vcpu(0),
                l.lock(0),
                l.weights(),
                l.percpu(0),
                l.hash(),
                l.task(0),
                l.waiter(0),
                l.trace(0),
                l.size(),
            ];
            let ends = [
                size_of::<Header>(),
                l.vcpu(vcpus),
                l.lock(locks),
                l.weights() + 8 * locks,
                l.percpu(vcpus),
                l.hash() + l.hash_slots() * HASH_SLOT_BYTES,
                l.task(3 * vcpus),
                l.waiter(3 * vcpus),
                l.trace(vcpus),
            ];
            for (start, end) in starts.into_iter().zip(ends) {
                assert!(end <= start && start.is_multiple_of(PART_ALIGN), "{l:?}");
            }
        }
    }
}
