//! What is to happen, in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Picoseconds since the machine was switched on.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1000;

/// What happens to the vCPU, CPU or line whose number goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    /// A vCPU has computed, and goes on.
    Step,
    /// A vCPU has spun for as long as it was to, or for a pause-loop exit.
    SpinEnds,
    /// A halted vCPU can run.
    Wake,
    /// A vCPU has been off its CPU for as long as asked.
    Timer,
    /// The CPU of a halted vCPU has been polling for long enough.
    PollEnds,
    /// A request for a line is granted: that of this vCPU.
    Grant,
    /// The tick of a CPU, or the end of a slice.
    Tick,
    /// An idle CPU has been woken up.
    CpuAwake,
    /// Waiting vCPUs are spread over the CPUs.
    Balance,
}

/// Something that is to happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: Ps,
    /// Of two at the same time, the one that was arranged first comes first.
    order: u64,
    pub(super) what: What,
    pub(super) id: u32,
    /// Out of date if the vCPU's or CPU's is another by then.
    pub(super) epoch: u32,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap yields the greatest first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// All that is to happen.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Event>,
    arranged: u64,
}

impl Events {
    #[inline(always)]
    pub(super) fn push(&mut self, at: Ps, what: What, id: u32, epoch: u32) {
        self.arranged += 1;
        let order = self.arranged;
        self.heap.push(Event {
            at,
            order,
            what,
            id,
            epoch,
        });
    }

    /// When the next is to happen.
    #[inline(always)]
    pub(super) fn next_at(&self) -> Option<Ps> {
        self.heap.peek().map(|event| event.at)
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }
}
