//! Readers and writers, each for themselves: they do different things, so a figure of both together
//! says little about either.

use super::run::{Fairness, Run};
use super::waits::WaitNs;
use crate::record::VcpuRecord;
use crate::scenario::Mix;
use abi::Counter;
use serde::Serialize;

/// A side starves if it gets less than this part of the share of acquisitions that it asks for. With
/// four readers for each writer that is a writer share of 1 %.
const STARVED: f64 = 0.05;
/// A vCPU that both reads and writes starves on one side if it never got there, though chance alone
/// would have it there this often: leaving all of these out is less likely than one in 10^8.
const SURELY: f64 = 20.0;

/// How readers and writers fared. Counts are sums over vCPUs and runs, of the measurements alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sharing {
    pub reads: Side,
    pub writes: Side,
}

/// The readers, or the writers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Side {
    /// vCPUs that are to make such acquisitions.
    pub vcpus: usize,
    pub acquisitions: u64,
    /// Their share in all acquisitions, if there are any.
    pub share: Option<f64>,
    /// The share that the vCPUs ask for, if none has to wait longer for one kind than for the other.
    pub share_asked: f64,
    /// How evenly those vCPUs made them.
    pub fairness: Fairness,
    /// How long they waited, if they were timed.
    pub wait_ns: Option<WaitNs>,
    /// vCPUs that made none in a run in which they were to make some: the most of any run.
    pub idle_vcpus: usize,
}

impl Side {
    /// Whether they get next to nothing of what they ask for while the others get on.
    pub(crate) fn starves(&self) -> bool {
        let too_little = |share| share < STARVED * self.share_asked;
        self.idle_vcpus > 0 || self.share.is_some_and(too_little)
    }
}

impl Sharing {
    /// Of `runs`, which have the same mix; `None` if nobody was to read.
    pub(crate) fn of(runs: &[Run<'_>]) -> Option<Self> {
        if runs.iter().all(|run| run.mix == Mix::Exclusive) {
            return None;
        }
        let side = |reads| side(runs, reads);
        Some(Self {
            reads: side(true),
            writes: side(false),
        })
    }
}

fn side(runs: &[Run<'_>], reads: bool) -> Side {
    let total: u64 = (runs.iter().map(|run| run.vm.total(Counter::Acquisitions))).sum();
    let counted = runs.iter().flat_map(|run| &run.vm.vcpus);
    let acquisitions: u64 = counted.map(|vcpu| count(vcpu, reads)).sum();
    let (mut vcpus, mut asked) = (0, 0.0);
    if let Some(&run) = runs.first() {
        for (_, share) in members(run, reads) {
            vcpus += 1;
            asked += share / run.vm.vcpus.len() as f64;
        }
    }
    let each = runs.iter().copied();
    let waits = each.clone().flat_map(|run| members(run, reads));
    let shares: Vec<_> = each.clone().map(|run| shares(run, reads)).collect();
    Side {
        vcpus,
        acquisitions,
        share: (total > 0).then(|| acquisitions as f64 / total as f64),
        share_asked: asked,
        fairness: Fairness::of(&shares),
        wait_ns: WaitNs::pooled(waits.filter_map(|(vcpu, _)| match reads {
            true => vcpu.read_waits(),
            false => vcpu.waits(),
        })),
        idle_vcpus: each.map(|run| idle(run, reads)).max().unwrap_or(0),
    }
}

/// The vCPUs of that side in a run, each with the share of its acquisitions that it wants to be such.
fn members(run: Run<'_>, reads: bool) -> impl Iterator<Item = (&VcpuRecord, f64)> {
    let vcpus = &run.vm.vcpus;
    let share = move |number| {
        let read_share = match run.mix {
            Mix::Exclusive => 0.0,
            Mix::ReadShare(share) => share,
            Mix::Readers(readers) if number + readers >= vcpus.len() => 1.0,
            Mix::Readers(_) => 0.0,
        };
        if reads { read_share } else { 1.0 - read_share }
    };
    let shares = (0..vcpus.len()).map(share);
    vcpus.iter().zip(shares).filter(|&(_, share)| share > 0.0)
}

fn count(vcpu: &VcpuRecord, reads: bool) -> u64 {
    let read = vcpu.counter(Counter::Reads);
    match reads {
        true => read,
        false => vcpu.counter(Counter::Acquisitions).saturating_sub(read),
    }
}

fn shares(run: Run<'_>, reads: bool) -> Vec<f64> {
    let members = members(run, reads);
    members.map(|(vcpu, _)| count(vcpu, reads) as f64).collect()
}

/// vCPUs of that side that made no such acquisition, though others made some.
fn idle(run: Run<'_>, reads: bool) -> usize {
    if run.vm.total(Counter::Acquisitions) == 0 {
        return 0;
    }
    let idle = |&(vcpu, share): &(&VcpuRecord, f64)| {
        let expected = vcpu.counter(Counter::Acquisitions) as f64 * share;
        let wanted = matches!(run.mix, Mix::Readers(_)) || expected >= SURELY;
        count(vcpu, reads) == 0 && wanted
    };
    members(run, reads).filter(idle).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::fixture;
    use crate::record::VmRecord;

    /// vCPUs that made that many acquisitions, and of them that many reads.
    fn vm(counts: &[(u64, u64)]) -> VmRecord {
        let totals: Vec<u64> = counts.iter().map(|&(all, _)| all).collect();
        let mut vm = fixture::vm("rwlock", &totals);
        for (vcpu, &(_, reads)) in vm.vcpus.iter_mut().zip(counts) {
            let reads = fixture::counters(&[(Counter::Reads, reads)]);
            vcpu.whole.counters.extend(reads);
        }
        vm
    }

    fn sharing(vm: &VmRecord, mix: Mix) -> Sharing {
        Sharing::of(&[fixture::run(vm, mix)]).unwrap()
    }

    #[test]
    fn exclusive_runs_have_no_sides() {
        let vm = vm(&[(5, 0)]);
        assert_eq!(Sharing::of(&[fixture::run(&vm, Mix::Exclusive)]), None);
    }

    #[test]
    fn each_group_has_its_own_fairness_and_share() {
        // Two writers, then two readers; the readers are far ahead, but even among themselves.
        let vm = vm(&[(10, 0), (30, 0), (500, 500), (460, 460)]);
        let Sharing { reads, writes } = sharing(&vm, Mix::Readers(2));
        assert_eq!((reads.vcpus, writes.vcpus), (2, 2));
        assert_eq!((reads.acquisitions, writes.acquisitions), (960, 40));
        assert_eq!(writes.share, Some(0.04));
        assert_eq!((reads.share_asked, writes.share_asked), (0.5, 0.5));
        assert_eq!(writes.fairness.jain, Some(0.8));
        assert_eq!(writes.fairness.max_over_min, Some(3.0));
        assert!(reads.fairness.jain.unwrap() > 0.99);
        assert!(!writes.starves() && !reads.starves());
    }

    #[test]
    fn a_side_that_gets_next_to_nothing_starves() {
        let starving = vm(&[(9, 0), (500, 500), (491, 491), (0, 0), (0, 0)]);
        let Sharing { reads, writes } = sharing(&starving, Mix::Readers(4));
        assert_eq!(writes.share, Some(0.009), "below 1 % with four readers");
        assert!(writes.starves());
        assert_eq!(reads.idle_vcpus, 2);
        assert!(reads.starves(), "two readers never came in");

        let one_never = vm(&[(0, 0), (500, 0), (500, 500)]);
        let writes = sharing(&one_never, Mix::Readers(1)).writes;
        assert_eq!((writes.share, writes.idle_vcpus), (Some(0.5), 1));
        assert!(writes.starves());
    }

    #[test]
    fn few_acquisitions_without_a_write_are_chance_and_many_are_not() {
        let few = vm(&[(10, 10), (10, 5)]);
        assert!(!sharing(&few, Mix::ReadShare(0.8)).writes.starves());
        let many = vm(&[(1000, 1000), (1000, 500)]);
        assert!(sharing(&many, Mix::ReadShare(0.8)).writes.starves());
        // Nobody asks for writes, so nobody misses them.
        let readers = vm(&[(1000, 1000), (1000, 1000)]);
        let writes = sharing(&readers, Mix::ReadShare(1.0)).writes;
        assert_eq!((writes.vcpus, writes.starves()), (0, false));
    }
}
