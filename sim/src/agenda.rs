//! The machine's clock, what is to happen, in the order of time, and chance: the engine owns them, and lends
//! them to the parts of the machine.

use crate::units::Ps;
use guest::workload::choice::bits;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

macro_rules! whats {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What happens to the vCPU, CPU or line whose number goes with it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum What {
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

/// Something whose time has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// Of two at the same time, the one that was arranged first comes first.
    pub(crate) order: u32,
    pub(crate) what: What,
    pub(crate) id: u32,
}

/// What is to happen, in 128 bits that compare in the order of time: from the top 64 bits for the time, 32 for
/// the order, 8 for what happens, and 24 for the number. A word and no struct: half of the time goes into
/// comparing.
type Packed = u128;

const ID_BITS: u32 = 24;

/// The clock, all that is to happen, and chance.
#[derive(Debug)]
pub(crate) struct Agenda {
    pub(crate) now: Ps,
    pub(crate) chance: Chance,
    heap: BinaryHeap<Reverse<Packed>>,
    arranged: u32,
}

impl Agenda {
    pub(crate) fn new(chance: Chance) -> Self {
        Self {
            now: 0,
            chance,
            heap: BinaryHeap::new(),
            arranged: 0,
        }
    }

    /// Arranges for something; its order, which is not 0, stands for it.
    #[inline(always)]
    pub(crate) fn arrange(&mut self, at: Ps, what: What, id: u32) -> u32 {
        // After 2^32 times orders come again; of two at the same time the wrong one may come first then.
        self.arranged = self.arranged.wrapping_add(1).max(1);
        debug_assert!(id < 1 << ID_BITS);
        let low = u64::from(self.arranged) << 32 | (what as u64) << ID_BITS | u64::from(id);
        self.heap
            .push(Reverse(u128::from(at) << 64 | u128::from(low)));
        self.arranged
    }

    /// When the next is to happen.
    #[inline(always)]
    pub(crate) fn next_at(&self) -> Option<Ps> {
        self.heap.peek().map(|packed| at(packed.0))
    }

    /// The next, if it is due by `end`: the clock is what it says then.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "fields of the word")]
    pub(crate) fn next(&mut self, end: Ps) -> Option<Due> {
        if self.next_at().is_none_or(|at| at > end) {
            return None;
        }
        let Reverse(packed) = self.heap.pop()?;
        let low = packed as u64;
        self.now = at(packed);
        Some(Due {
            order: (low >> 32) as u32,
            what: WHATS[(low >> ID_BITS) as u8 as usize],
            id: low as u32 & ((1 << ID_BITS) - 1),
        })
    }
}

fn at(packed: Packed) -> Ps {
    (packed >> 64) as Ps
}

/// All that varies by chance.
#[derive(Debug)]
pub(crate) struct Chance {
    state: u64,
    /// How much times vary to either side, in 1/1024 of them.
    jitter: Ps,
}

impl Chance {
    pub(crate) fn new(seed: u64, jitter: Ps) -> Self {
        Self {
            // Never 0, which the generator could not leave.
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            jitter,
        }
    }

    /// A random number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: Ps) -> Ps {
        ((u128::from(bits(&mut self.state)) * u128::from(bound)) >> 64) as Ps
    }

    pub(crate) fn jittered(&mut self, time: Ps) -> Ps {
        let span = time * self.jitter / 1024;
        time - span + self.below(2 * span + 1)
    }
}
