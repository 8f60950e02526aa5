//! rwsem-bench: all tasks take one lock, over and over; how often, or how long it takes.
//!
//! After the microbenchmark that Waiman Long's mails on kernel rwsems give figures of (LKML 2014 and
//! 2019). Tasks read in the share [`Params::read_share`] of their operations, evenly spread: of one
//! half, every second operation reads; with [`flags::RANDOM_MIX`] each reads by chance. Or the last [`Params::readers`] tasks only read, and the others
//! only write. Inside they spend [`Params::pauses`] turns of a busy-wait loop, and
//! [`Params::critical_ns`].

use super::bench::{self, Bench, Member};
use super::choice::Choice;
use super::lengths::Section;
use super::subject::Subject;
use crate::{Machine, work};
use abi::{LockSlot, Params, VcpuArea, flags};

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    bench::run::<M, RwsemBench>(vcpu, params);
}

struct RwsemBench;

impl<M: Machine> Bench<M> for RwsemBench {
    const READS: bool = true;

    fn work<S: Subject>(mut member: Member, slots: &'static [LockSlot]) {
        let params = member.params;
        let [slot, ..] = slots else {
            panic!("there is no lock");
        };
        let costs = work::costs::<M>(member.vcpu);
        let timed = params.flags & flags::LATENCY != 0;
        let units = Section::new(params, &costs, timed).units(false);
        let mut mix = Mix::of(params, member.rank);
        while member.goes_on::<M>() {
            let read = mix.next_reads();
            member.locked::<M, S, _>(slot, read, || {
                for _ in 0..params.pauses {
                    M::relax();
                }
                M::work(units);
            });
            member.count(read);
            member.give_way::<M>();
        }
    }
}

/// Which operations read: evenly spread, as the pixels of a line are between two of its ends
/// (Bresenham 1965), or by chance.
#[derive(Clone, Debug)]
struct Mix {
    /// As a multiple of 2^-32.
    share: u64,
    sum: u64,
    chance: Option<Choice>,
}

impl Mix {
    const ALL: u64 = 1 << 32;

    /// That of the task of this rank.
    fn of(params: &Params, rank: u64) -> Self {
        let share = match params.readers {
            0 => params.read_share,
            readers if rank + readers >= params.threads => Self::ALL,
            _ => 0,
        };
        #[expect(clippy::cast_possible_truncation, reason = "less than 2^20 tasks")]
        let chance =
            (params.flags & flags::RANDOM_MIX != 0).then(|| Choice::new(params, rank as u32));
        Self {
            share,
            sum: 0,
            chance,
        }
    }

    #[inline(always)]
    fn next_reads(&mut self) -> bool {
        if let Some(chance) = &mut self.chance {
            return chance.happens(self.share);
        }
        self.sum += self.share;
        let reads = self.sum >= Self::ALL;
        if reads {
            self.sum -= Self::ALL;
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(params: &Params, rank: u64, operations: usize) -> usize {
        let mut mix = Mix::of(params, rank);
        (0..operations).filter(|_| mix.next_reads()).count()
    }

    #[test]
    fn reads_have_their_share_exactly() {
        let of = |share| Params {
            read_share: share,
            ..Params::default()
        };
        assert_eq!(reads(&of(0), 0, 1000), 0);
        assert_eq!(reads(&of(1 << 32), 0, 1000), 1000);
        assert_eq!(reads(&of(1 << 31), 0, 1000), 500);
        assert_eq!(reads(&of(1 << 31), 0, 1001), 500);
        // 10:1, rounded to a multiple of 2^-32.
        assert_eq!(reads(&of(3_904_515_724), 0, 1_100_000), 1_000_000);
    }

    #[test]
    fn reads_by_chance_have_their_share_about_and_no_pattern() {
        let params = Params {
            read_share: 1 << 31,
            flags: flags::RANDOM_MIX,
            ..Params::default()
        };
        let found = reads(&params, 0, 100_000);
        assert!((49_000..51_000).contains(&found), "{found}");
        let mut mix = Mix::of(&params, 0);
        let pairs = (0..1000).filter(|_| mix.next_reads() == mix.next_reads());
        assert!((400..600).contains(&pairs.count()));
    }

    #[test]
    fn groups_read_or_write() {
        let params = Params {
            readers: 2,
            threads: 5,
            ..Params::default()
        };
        let reads: [usize; 5] = core::array::from_fn(|rank| reads(&params, rank as u64, 10));
        assert_eq!(reads, [0, 0, 0, 10, 10]);
    }
}
