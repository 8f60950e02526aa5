//! What work, and looking at it, costs on this machine.

use core::sync::atomic::{AtomicU64, Ordering};

/// What work, and looking at it, costs: found out once in a run, by one vCPU that is alone, and used by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// 1,024 units of work, ps.
    pub unit_ps: u64,
    /// A look at the clock, ps.
    pub look_ps: u64,
    /// What is in every critical section beside the work, ps: the check, and a look at the clock if
    /// acquisitions are timed.
    pub section_ps: u64,
    /// What is between two acquisitions beside the work, ps: figures, choices, the loop.
    pub outside_ps: u64,
    /// What timing 1,024 acquisitions costs, ps, wherever it falls.
    pub probe_ps: u64,
    /// How much longer a critical section is than two looks at the clock show, ps.
    pub section_more_ps: i64,
    /// How much longer it is between two acquisitions than two looks at the clock show, ps.
    pub outside_more_ps: i64,
    /// 1,024 turns of a loop that waits in a queue, ps; 0 unless it was asked for ([`crate::flags::TURN`]).
    pub turn_ps: u64,
}

/// [`Costs`] in shared memory. It has one writer.
#[derive(Debug)]
#[repr(C)]
pub struct Calibration {
    /// [`Costs::unit_ps`]; not 0 once all of it is there.
    unit_ps: AtomicU64,
    look_ps: AtomicU64,
    section_ps: AtomicU64,
    outside_ps: AtomicU64,
    probe_ps: AtomicU64,
    section_more_ps: AtomicU64,
    outside_more_ps: AtomicU64,
    turn_ps: AtomicU64,
}

impl Calibration {
    /// 64-bit words of it.
    pub const WORDS: usize = size_of::<Self>() / 8;

    /// What is there, if it is there.
    #[inline]
    pub fn load(&self) -> Option<Costs> {
        // Acquire pairs with the Release in store(): all words are there if the first one is.
        let words = self.words();
        let unit = words[0].load(Ordering::Acquire);
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        (unit != 0).then(|| {
            let mut costs = core::array::from_fn(word);
            costs[0] = unit;
            Costs::of_words(costs)
        })
    }

    /// Puts `costs` there.
    pub fn store(&self, costs: &Costs) {
        let words = self.words();
        let [unit, rest @ ..] = costs.words();
        for (word, cost) in words[1..].iter().zip(rest) {
            word.store(cost, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in load(), or in the host's load.
        words[0].store(unit, Ordering::Release);
    }

    fn words(&self) -> [&AtomicU64; Self::WORDS] {
        [
            &self.unit_ps,
            &self.look_ps,
            &self.section_ps,
            &self.outside_ps,
            &self.probe_ps,
            &self.section_more_ps,
            &self.outside_more_ps,
            &self.turn_ps,
        ]
    }
}

impl Costs {
    /// As they lie in memory.
    pub const fn words(&self) -> [u64; Calibration::WORDS] {
        [
            self.unit_ps,
            self.look_ps,
            self.section_ps,
            self.outside_ps,
            self.probe_ps,
            self.section_more_ps.cast_unsigned(),
            self.outside_more_ps.cast_unsigned(),
            self.turn_ps,
        ]
    }

    /// Those that lie in memory like that.
    pub const fn of_words(words: [u64; Calibration::WORDS]) -> Self {
        let [
            unit_ps,
            look_ps,
            section_ps,
            outside_ps,
            probe_ps,
            section,
            outside,
            turn_ps,
        ] = words;
        Self {
            unit_ps,
            look_ps,
            section_ps,
            outside_ps,
            probe_ps,
            section_more_ps: section.cast_signed(),
            outside_more_ps: outside.cast_signed(),
            turn_ps,
        }
    }
}
