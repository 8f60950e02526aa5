//! Per-vCPU counters: the workload's own, followed by every lock event.

use pvlock::LockEvent;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A per-vCPU counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
            /// An event counted by a lock.
            Lock(LockEvent),
        }

        impl Counter {
            const OWN: &'static [Self] = &[$(Self::$variant,)+];
            /// How many counters there are.
            pub const COUNT: usize = Self::OWN.len() + LockEvent::COUNT;

            /// The counter's stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ Self::Lock(event) => event.name() }
            }

            /// Its place in [`VcpuArea::counters`](super::VcpuArea::counters).
            #[inline(always)]
            pub const fn index(self) -> usize {
                /// The variants without payload, for their numbers.
                enum Own { $($variant,)+ }
                match self {
                    $(Self::$variant => Own::$variant as usize,)+
                    Self::Lock(event) => Self::OWN.len() + event as usize,
                }
            }
        }
    };
}

counters! {
    /// Lock acquisitions.
    Acquisitions = "acquisitions",
    /// Those of them that were for reading.
    Reads = "reads",
    /// Acquisitions that were made in a context that had interrupted another.
    Nested = "nested",
    /// Acquisitions during which somebody else was seen holding the lock.
    Violations = "violations",
    /// Acquisitions of locks that are held around the one under torture.
    Around = "around",
    /// Acquisitions that took longer than the limit set for them.
    Late = "late",
    /// Halts that gave up the CPU (not those spared by their check).
    Halts = "halts",
    /// Kicks sent.
    Kicks = "kicks",
    /// Directed yields.
    Yields = "yields",
    /// Directed yields that gave nothing: the target ran already, was halted, or did not get to run.
    FutileYields = "futile_yields",
    /// Of them, to a vCPU that ran already.
    YieldsToRunning = "yields_to_running",
    /// Of them, to a vCPU that was halted.
    YieldsToHalted = "yields_to_halted",
}

impl Counter {
    /// All counters, in the order of their index.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OWN
            .iter()
            .copied()
            .chain(LockEvent::ALL.iter().copied().map(Self::Lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_up_without_gaps_and_names_differ() {
        let all: Vec<_> = Counter::all().collect();
        assert_eq!(all.len(), Counter::COUNT);
        for (i, counter) in all.iter().enumerate() {
            assert_eq!(counter.index(), i);
            assert!(all.iter().filter(|c| c.name() == counter.name()).count() == 1);
        }
    }
}
