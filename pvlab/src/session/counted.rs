//! What a vCPU had counted at one moment. What it did is the difference of two.
//!
//! A look from outside finds a vCPU in the middle of a turn, where one figure is of this turn and
//! another of the one before. So there is one truth where acquisitions are timed: each is in one
//! histogram of waits, and the numbers of acquisitions and of reads are what the histograms have gained.
//! Where a fixed number of acquisitions is made, vCPUs say themselves where they stood ([`Mark`]).

use super::snapshot::ns;
use crate::machine::RunningVm;
use crate::record::{Figures, Waits};
use crate::scenario::{Mix, Scenario};
use abi::hist::bucket_values;
use abi::{Counter, Mark, VcpuArea};
use host::region::RegionError;
use pvlock::LockEvent;
use std::mem::offset_of;

#[derive(Clone)]
pub(super) struct Counted {
    /// When, on the VM's clock.
    pub(super) at: u64,
    counters: Vec<u64>,
    writes: Side,
    reads: Side,
}

/// Waits of one kind.
#[derive(Clone)]
struct Side {
    hist: Vec<u64>,
    /// The longest that has ended, ticks.
    longest: u64,
    /// When the wait began that was going on; 0: none was.
    since: u64,
}

/// What figures there are to be.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    /// Acquisitions are timed by the vCPUs.
    timed: bool,
    reads: bool,
    /// vCPUs take locks as such, not as threads of a microbenchmark.
    spins: bool,
}

impl Kinds {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let spins = scenario.bench.is_none() && scenario.torture.is_none();
        Self {
            timed: scenario.latency && spins,
            reads: scenario.workload.mix != Mix::Exclusive,
            spins,
        }
    }
}

impl Counted {
    /// What vCPU `vcpu` has counted now, which is `at`.
    pub(super) fn now(
        vm: &dyn RunningVm,
        vcpu: usize,
        at: u64,
        kinds: Kinds,
    ) -> Result<Self, RegionError> {
        let side = |hist, longest, since| {
            let word = |field| vm.region().vcpu_word(vcpu, field);
            let before = word(since)?;
            let hist = vm.region().hist(vcpu, hist)?;
            let longest = word(longest)?;
            Ok::<_, RegionError>(Side {
                hist,
                longest,
                // One that has ended meanwhile may be in the histogram, and has not been a long one.
                since: if word(since)? == before { before } else { 0 },
            })
        };
        let longest = offset_of!(VcpuArea, wait_max);
        let writes = side(abi::HIST_WAIT, longest, offset_of!(VcpuArea, wait_since))?;
        let longest = offset_of!(VcpuArea, read_wait_max);
        let since = offset_of!(VcpuArea, read_wait_since);
        let reads = side(abi::HIST_READ_WAIT, longest, since)?;
        let mut counters = vm.region().counters(vcpu)?;
        if kinds.timed {
            counters[Counter::Acquisitions.index()] = writes.ended() + reads.ended();
            counters[Counter::Reads.index()] = reads.ended();
        }
        Ok(Self {
            at,
            counters,
            writes,
            reads,
        })
    }

    /// What vCPU `vcpu` had counted at a mark of its own, if it has set that. `mark`: offset in its area.
    pub(super) fn at(
        vm: &dyn RunningVm,
        vcpu: usize,
        mark: usize,
    ) -> Result<Option<Self>, RegionError> {
        let region = vm.region();
        let word = |field| region.vcpu_word(vcpu, mark + field);
        // Acquire (in the load) pairs with the vCPU's Release store: the rest is complete.
        let at = word(offset_of!(Mark, at))?;
        if at == 0 {
            return Ok(None);
        }
        let side = |hist, longest| {
            Ok::<_, RegionError>(Side {
                hist: region.hist_of_mark(vcpu, mark, hist)?,
                longest: word(longest)?,
                since: 0,
            })
        };
        Ok(Some(Self {
            at,
            counters: region.counters_of_mark(vcpu, mark)?,
            writes: side(offset_of!(Mark, waits), offset_of!(Mark, wait_max))?,
            reads: side(
                offset_of!(Mark, read_waits),
                offset_of!(Mark, read_wait_max),
            )?,
        }))
    }

    /// What the vCPU did between `self` and `to`.
    pub(super) fn figures_until(&self, to: &Self, kinds: Kinds, khz: u64) -> Figures {
        let mut gained = self.gained(&to.counters);
        if kinds.spins {
            limit(&mut gained);
        }
        let counters = Counter::all().map(|c| (c.name().to_owned(), gained[c.index()]));
        let counters = counters.filter(|&(_, n)| n > 0).collect();
        let waits = |from: &Side, side: &Side| from.waits_until(side, to.at, khz);
        let read = kinds.timed && kinds.reads;
        Figures {
            counters,
            waits: kinds.timed.then(|| waits(&self.writes, &to.writes)),
            read_waits: read.then(|| waits(&self.reads, &to.reads)),
        }
    }

    /// What the counters have gained since, if they are `now` so.
    fn gained(&self, now: &[u64]) -> Vec<u64> {
        let pairs = now.iter().zip(&self.counters);
        pairs.map(|(now, from)| now.saturating_sub(*from)).collect()
    }

    /// What a vCPU that takes locks as such has done since, if its counters are `now` so.
    pub(super) fn done_since(&self, now: &[u64]) -> Vec<u64> {
        let mut gained = self.gained(now);
        limit(&mut gained);
        gained
    }
}

/// A lock counts when a wait begins; one that has not ended is no acquisition yet.
fn limit(gained: &mut [u64]) {
    let most = gained[Counter::Acquisitions.index()];
    let contended = &mut gained[Counter::Lock(LockEvent::Contended).index()];
    *contended = (*contended).min(most);
}

impl Side {
    /// Waits that have ended.
    fn ended(&self) -> u64 {
        self.hist.iter().sum()
    }

    fn waits_until(&self, to: &Self, at: u64, khz: u64) -> Waits {
        let buckets: Vec<_> = (0u16..)
            .zip(to.hist.iter().zip(&self.hist))
            .map(|(bucket, (to, from))| (bucket, to.saturating_sub(*from)))
            .filter(|&(_, n)| n > 0)
            .collect();
        // The vCPU notices an interval's start after the turn in which it began, and the longest of its
        // waits may be of another interval: the histogram decides.
        let longest = buckets.last().map_or(0, |&(bucket, _)| {
            let values = bucket_values(bucket.into());
            let longest = Some(to.longest).filter(|longest| values.contains(longest));
            longest.unwrap_or(*values.end())
        });
        let cut_off = (to.since != 0).then(|| ns(at.saturating_sub(to.since), khz));
        Waits {
            buckets,
            khz,
            max_ns: ns(longest, khz).max(cut_off.unwrap_or(0)),
            cut_off_ns: cut_off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::hist::{BUCKETS, bucket_of};

    fn side(waits: &[(u64, u64)], longest: u64, since: u64) -> Side {
        let mut hist = vec![0; BUCKETS];
        for &(wait, n) in waits {
            hist[bucket_of(wait)] += n;
        }
        Side {
            hist,
            longest,
            since,
        }
    }

    fn counted(at: u64, contended: u64, writes: Side, reads: Side) -> Counted {
        let mut counters = vec![0; Counter::COUNT];
        counters[Counter::Acquisitions.index()] = writes.ended() + reads.ended();
        counters[Counter::Reads.index()] = reads.ended();
        counters[Counter::Lock(LockEvent::Contended).index()] = contended;
        Counted {
            at,
            counters,
            writes,
            reads,
        }
    }

    #[test]
    fn a_wait_that_has_begun_is_no_acquisition() {
        let from = counted(10, 50, side(&[(5, 98)], 5, 0), side(&[(7, 2)], 7, 0));
        let reads = side(&[(7, 4), (9, 1)], 9, 0);
        let to = counted(1_000, 155, side(&[(5, 190)], 5, 0), reads);
        let kinds = Kinds {
            timed: true,
            reads: true,
            spins: true,
        };
        let figures = from.figures_until(&to, kinds, 1_000_000);
        assert_eq!(figures.counter(Counter::Acquisitions), 95);
        assert_eq!(figures.counter(Counter::Reads), 3);
        assert_eq!(figures.counter(Counter::Lock(LockEvent::Contended)), 95);
        assert_eq!(figures.waits.unwrap().ended(), 92);
        let untimed = Kinds {
            timed: false,
            ..kinds
        };
        let figures = from.figures_until(&to, untimed, 1_000_000);
        assert_eq!((figures.waits, figures.read_waits), (None, None));
    }

    #[test]
    fn the_longest_wait_is_of_the_same_interval_as_the_others() {
        let waits = |longest| {
            let from = side(&[(1_000_000, 1)], 1_000_000, 0);
            let to = side(&[(1_000_000, 1), (100, 3)], longest, 0);
            from.waits_until(&to, 5, 1_000_000).max_ns
        };
        assert_eq!(waits(101), 101, "in the last bucket");
        assert_eq!(waits(1_000_000), 103, "of a wait before the interval");
        assert_eq!(waits(0), 103, "the vCPU began anew after it");
    }

    #[test]
    fn a_wait_that_goes_on_is_told_and_is_in_no_bucket() {
        let waits = side(&[], 0, 0).waits_until(&side(&[(100, 3)], 100, 400), 5_000, 1_000_000);
        assert_eq!((waits.ended(), waits.max_ns), (3, 4_600));
        assert_eq!(waits.cut_off_ns, Some(4_600));
    }
}
