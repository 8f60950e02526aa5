//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Picoseconds since the machine was switched on.
pub(crate) type Ps = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NS: Ps = 1000;

macro_rules! whats {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What happens to the vCPU, CPU or line whose number goes with it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum What {
            $($(#[doc = $doc])+ $name,)+
        }

        const WHATS: &[What] = &[$(What::$name,)+];
    };
}

whats! {
    /// A vCPU has computed, and goes on.
    Step,
    /// A vCPU that spins has noticed that its line has changed.
    Notices,
    /// A vCPU has spun for as long as it was to, or for a pause-loop exit.
    SpinEnds,
    /// A halted vCPU can run.
    Wake,
    /// A vCPU has been off its CPU for as long as asked.
    Timer,
    /// The CPU of a halted vCPU has been polling for long enough.
    PollEnds,
    /// The request of a vCPU for a line is granted.
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
    pub(super) order: u32,
    pub(super) what: What,
    pub(super) id: u32,
}

/// An event in 128 bits that compare as the events do: from the top 64 bits for the time, 32 for the order, 8
/// for what happens, and 24 for the number. A word and no struct: half of the time goes into comparing.
type Packed = u128;

const ID_BITS: u32 = 24;

/// All that is to happen.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Packed>>,
    arranged: u32,
}

impl Events {
    /// Arranges for an event; its order, which is not 0, stands for it.
    #[inline(always)]
    pub(super) fn push(&mut self, at: Ps, what: What, id: u32) -> u32 {
        // After 2^32 events orders come again; of two at the same time the wrong one may come first then.
        self.arranged = self.arranged.wrapping_add(1).max(1);
        debug_assert!(id < 1 << ID_BITS);
        let low = u64::from(self.arranged) << 32 | (what as u64) << ID_BITS | u64::from(id);
        self.heap
            .push(Reverse(u128::from(at) << 64 | u128::from(low)));
        self.arranged
    }

    /// When the next is to happen.
    #[inline(always)]
    pub(super) fn next_at(&self) -> Option<Ps> {
        self.heap.peek().map(|packed| at(packed.0))
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "fields of the word")]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let Reverse(packed) = self.heap.pop()?;
        let low = packed as u64;
        Some(Event {
            at: at(packed),
            order: (low >> 32) as u32,
            what: WHATS[(low >> ID_BITS) as u8 as usize],
            id: low as u32 & ((1 << ID_BITS) - 1),
        })
    }
}

fn at(packed: Packed) -> Ps {
    (packed >> 64) as Ps
}
