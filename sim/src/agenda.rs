//! The machine's clock, what is to happen, in the order of time, and chance: the engine owns them, and lends
//! them to the parts of the machine.

use crate::units::{NS, Ps};
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

/// What is to happen sooner than this is kept apart from ticks, slices and timers, which are as many as the
/// machine has CPUs: at a contended lock it is a few things at a time, and most of all that happens.
const SOON: Ps = 2_000 * NS;
/// Most of it; more goes to the others.
const MOST_SOON: usize = 16;

/// The clock, all that is to happen, and chance.
#[derive(Debug)]
pub(crate) struct Agenda {
    pub(crate) now: Ps,
    pub(crate) chance: Chance,
    /// A few that are soon, the next at the end.
    soon: Vec<Packed>,
    heap: BinaryHeap<Reverse<Packed>>,
    arranged: u32,
}

impl Agenda {
    pub(crate) fn new(chance: Chance) -> Self {
        Self {
            now: 0,
            chance,
            soon: Vec::with_capacity(MOST_SOON),
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
        let packed = u128::from(at) << 64 | u128::from(low);
        if self.soon.len() < MOST_SOON && at < self.now + SOON {
            // From the end, as what is arranged is for soon, but seldom the next.
            let place = self.soon.iter().rposition(|&other| other > packed);
            self.soon.insert(place.map_or(0, |place| place + 1), packed);
        } else {
            self.heap.push(Reverse(packed));
        }
        self.arranged
    }

    /// The next, and whether it is one of the few.
    #[inline(always)]
    fn first(&self) -> Option<(Packed, bool)> {
        let soon = self.soon.last().copied();
        let other = self.heap.peek().map(|packed| packed.0);
        match (soon, other) {
            (Some(soon), Some(other)) => Some((soon.min(other), soon < other)),
            (Some(soon), None) => Some((soon, true)),
            (None, other) => Some((other?, false)),
        }
    }

    /// When the next is to happen.
    #[inline(always)]
    pub(crate) fn next_at(&self) -> Option<Ps> {
        self.first().map(|(packed, _)| at(packed))
    }

    /// The next, if it is due by `end`: the clock is what it says then.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "fields of the word")]
    pub(crate) fn next(&mut self, end: Ps) -> Option<Due> {
        let (packed, soon) = self.first().filter(|(packed, _)| at(*packed) <= end)?;
        if soon {
            self.soon.pop();
        } else {
            self.heap.pop();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is kept where, things happen in the order of time, and of two at once the one arranged first.
    #[test]
    fn things_happen_in_order() {
        let mut agenda = Agenda::new(Chance::new(1, 0));
        let mut random = Chance::new(7, 0);
        let mut arranged = Vec::new();
        let mut happened = Vec::new();
        for round in 0..20_000u32 {
            // Sooner and later than what is soon, and often at the same time.
            let after = random.below(8) * SOON / 4;
            for _ in 0..random.below(4) {
                arranged.push((
                    agenda.now + after,
                    agenda.arrange(agenda.now + after, What::Step, round),
                ));
            }
            for _ in 0..random.below(4) {
                let next = agenda.next_at();
                if let Some(due) = agenda.next(Ps::MAX) {
                    assert_eq!(next, Some(agenda.now));
                    happened.push((agenda.now, due.order));
                }
            }
        }
        while let Some(due) = agenda.next(Ps::MAX) {
            happened.push((agenda.now, due.order));
        }
        assert!(arranged.len() > 10_000);
        arranged.sort_unstable();
        assert_eq!(happened, arranged);
    }

    #[test]
    fn nothing_happens_before_its_time() {
        let mut agenda = Agenda::new(Chance::new(1, 0));
        agenda.arrange(5, What::Wake, 3);
        agenda.arrange(10 * SOON, What::Tick, 4);
        assert!(agenda.next(4).is_none());
        assert_eq!(
            agenda.next(5).map(|due| (due.what, due.id)),
            Some((What::Wake, 3))
        );
        assert!(agenda.next(9 * SOON).is_none());
        assert_eq!(agenda.next(10 * SOON).map(|due| due.id), Some(4));
        assert_eq!((agenda.now, agenda.next_at()), (10 * SOON, None));
    }
}
