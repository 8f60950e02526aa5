//! What guests do: how long the work is, what data it touches, and how the locks are taken.

use super::error::{CliError, usage};
use super::numbers::{NumberUsage, count, named, reads_to_writes, share};
use super::times::{OutsideArg, outside, work_time};
use crate::machine::lock_bytes;
use crate::scenario::limits::{MOST_LOCKS, MOST_NODES, MOST_SKEW};
use crate::scenario::{Data, Lock, Mix, VmSpec, Work, WorkTime};
use abi::LOCK_BYTES_BESIDE_DATA;
use clap::Args;
use guest::workload::nested::MAX_CONTEXTS;
use pvlock::LockKind;

/// What guests do.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkArgs {
    /// Length of the critical section, with unit, such as 130ns or 4.2ns.
    #[arg(long, value_name = "TIME", default_value = "130ns", value_parser = work_time)]
    critical: WorkTime,
    /// Length of the work between two critical sections, with unit; TIME:exp, such as 130ns:exp, is its mean,
    /// and it is random (exponentially distributed, by --seed), so that vCPUs do not fall into step.
    #[arg(long, value_name = "TIME[:exp]", default_value = "130ns", value_parser = outside)]
    outside: OutsideArg,
    #[command(flatten)]
    data: DataArgs,
    /// Number of locks in each guest, from which each acquisition picks one at random [default: 1].
    #[arg(long, value_name = "N",
          value_parser = |text: &str| count::<usize>(text, 1, MOST_LOCKS as u64))]
    lock_count: Option<usize>,
    /// Share of reads in each vCPU's acquisitions, such as 80%, or its reads to its writes, such as
    /// 4:1; for reader-writer locks.
    #[arg(long, value_name = "SHARE|R:W", value_parser = reads, conflicts_with = "readers")]
    reads: Option<f64>,
    /// This many vCPUs of each guest, the last, only read, and the others only write; for
    /// reader-writer locks.
    #[arg(long, value_name = "N", value_parser = super::guests::vcpus)]
    readers: Option<usize>,
    /// How unevenly the locks are chosen: exponent of a Zipf distribution over them, such as 1; 0: all
    /// alike.
    #[arg(long, value_name = "EXPONENT", value_parser = skew)]
    skew: Option<f64>,
    /// Contexts of each vCPU, 1 to 5, one interrupting the other while it holds a lock or waits for it;
    /// each takes a lock of its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = contexts)]
    contexts: u32,
    /// NUMA nodes that the vCPUs of each guest are told they are on, in equal runs.
    #[arg(long, value_name = "N", default_value = "1", value_parser = numa_nodes)]
    pub(super) numa_nodes: u32,
}

/// What data a critical section touches.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DataArgs {
    /// Where the data lies that critical sections touch, and by which exclusion is checked: own-line, 128
    /// bytes away from the lock; same-line, in the lock's line behind it, for locks of at most 48 bytes; or
    /// none [default: own-line].
    #[arg(long, value_name = "WHERE", value_parser = named(&[
        ("own-line", Data::OwnLine), ("same-line", Data::SameLine), ("none", Data::None)]))]
    data: Option<Data>,
    /// Touch no data, and so do not check exclusion: the same as --data none.
    #[arg(long)]
    no_check: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkUsage {
    #[error(
        "'{0}' is no share of reads; write a percentage such as 80%, or reads to writes such as 4:1"
    )]
    NoReads(String),
    #[error("0:0 is neither reads nor writes; write for example 4:1")]
    NothingToDo,
    #[error("'{0}' is no exponent from 0 to {MOST_SKEW}; write for example 1")]
    NoSkew(String),
    #[error(
        "a vCPU has 1 to {MAX_CONTEXTS} contexts: a task, a soft interrupt, an interrupt and an NMI use the \
         four queue nodes of a CPU, and a fifth shows what a lock does without; '{0}' is none of these"
    )]
    NoContexts(String),
    #[error(
        "--no-check leaves the data alone, so there is none to lie somewhere; leave out --data, or --no-check"
    )]
    CheckOfNothing,
    #[error(
        "--data same-line: {lock} has {bytes} bytes, and only locks of at most {LOCK_BYTES_BESIDE_DATA} leave \
         room for data in their line of 64; leave it out, or choose another lock"
    )]
    NoRoomBesideLock { lock: Lock, bytes: usize },
    #[error("{option}: '{lock}' is taken exclusively and has no read side; {rw} can be read")]
    NoReadSide {
        option: &'static str,
        lock: String,
        rw: String,
    },
    #[error(
        "{option}: '{lock}' can only be written that way; its reads are compiled in, use {}", .lock.kind
    )]
    ReadsNotDirect { option: &'static str, lock: Lock },
    #[error("--readers {readers}: there are {vcpus} vCPUs; give at most as many")]
    TooManyReaders { readers: usize, vcpus: usize },
    #[error("--skew applies only to several locks, but there is one; give --lock-count")]
    SkewOfOneLock,
    #[error(
        "--skew with --contexts: each context takes the one lock that is its own; leave one out"
    )]
    SkewOfContexts,
    #[error(
        "--lock-count {locks} with --contexts {contexts}: each context takes the one lock that is its \
         own, so there are {contexts}; leave --lock-count out"
    )]
    LocksOfContexts { locks: usize, contexts: u32 },
    #[error(
        "--contexts: '{0}' puts its waiters to sleep, which an interrupt cannot do; use a spinning lock"
    )]
    SleepsInInterrupt(Lock),
    #[error("--numa-nodes {nodes}: {vcpus} vCPUs cannot be spread over more nodes than they are")]
    TooManyNodes { nodes: u32, vcpus: usize },
}

usage!(WorkUsage);

/// A share of reads, as a percentage or as a ratio of reads to writes.
pub(crate) fn reads(text: &str) -> Result<f64, WorkUsage> {
    let one = |share: &f64| *share <= 1.0;
    match reads_to_writes(text).map(|(reads, writes)| (f64::from(reads), f64::from(writes))) {
        Some((0.0, 0.0)) => Err(WorkUsage::NothingToDo),
        Some((reads, writes)) => Ok(reads / (reads + writes)),
        None => (share(text).ok().filter(one)).ok_or_else(|| WorkUsage::NoReads(text.to_owned())),
    }
}

/// The exponent of a Zipf distribution.
pub(crate) fn skew(text: &str) -> Result<f64, WorkUsage> {
    let number = text.trim().parse().ok();
    let skew = number.filter(|skew| (0.0..=MOST_SKEW).contains(skew));
    skew.ok_or_else(|| WorkUsage::NoSkew(text.to_owned()))
}

pub(crate) fn contexts(text: &str) -> Result<u32, WorkUsage> {
    let number = text.trim().parse().ok();
    let contexts = number.filter(|contexts| (1..=MAX_CONTEXTS).contains(contexts));
    contexts.ok_or_else(|| WorkUsage::NoContexts(text.to_owned()))
}

pub(crate) fn numa_nodes(text: &str) -> Result<u32, NumberUsage> {
    count(text, 1, MOST_NODES.into())
}

impl WorkArgs {
    /// Whether some acquisitions are for reading.
    pub(crate) const fn reads(&self) -> bool {
        self.reads.is_some() || self.readers.is_some()
    }

    /// The workload of `vms`, if that can be done with each of `locks`.
    pub(super) fn workload(&self, vms: &[VmSpec], locks: &[Lock]) -> Result<Work, CliError> {
        let (mix, reads) = match (self.reads, self.readers) {
            (Some(share), _) => (Mix::ReadShare(share), Some("--reads")),
            (None, Some(readers)) => (Mix::Readers(readers), Some("--readers")),
            (None, None) => (Mix::Exclusive, None),
        };
        if let Some(&lock) = locks.iter().find(|lock| lock.traits().sleeps)
            && self.contexts > 1
        {
            return Err(WorkUsage::SleepsInInterrupt(lock).into());
        }
        let data = self.data.resolve(locks)?;
        if let Some(option) = reads {
            check_reads(option, locks)?;
        }
        for &VmSpec { vcpus, .. } in vms {
            let nodes = self.numa_nodes;
            if usize::try_from(nodes).is_ok_and(|nodes| nodes > vcpus) {
                return Err(WorkUsage::TooManyNodes { nodes, vcpus }.into());
            }
            if let Some(readers) = self.readers.filter(|readers| *readers > vcpus) {
                return Err(WorkUsage::TooManyReaders { readers, vcpus }.into());
            }
        }
        Ok(Work {
            critical: self.critical,
            outside: self.outside.mean,
            outside_spread: self.outside.spread,
            data,
            locks: self.locks()?,
            skew: self.skew.unwrap_or(0.0),
            mix,
            contexts: self.contexts,
        })
    }

    /// The number of locks: contexts have one each.
    fn locks(&self) -> Result<usize, WorkUsage> {
        let contexts = self.contexts;
        if contexts == 1 {
            return match self.lock_count.unwrap_or(1) {
                1 if self.skew.is_some() => Err(WorkUsage::SkewOfOneLock),
                locks => Ok(locks),
            };
        }
        if self.skew.is_some() {
            return Err(WorkUsage::SkewOfContexts);
        }
        let own = usize::try_from(contexts).unwrap_or(usize::MAX);
        match self.lock_count {
            Some(locks) if locks != own => Err(WorkUsage::LocksOfContexts { locks, contexts }),
            _ => Ok(own),
        }
    }
}

impl DataArgs {
    /// Where the data is to lie, if that is clear, and all of the locks leave room for it there.
    pub(crate) fn resolve(self, locks: &[Lock]) -> Result<Data, WorkUsage> {
        let data = match self.data {
            None if self.no_check => Data::None,
            given => given.unwrap_or_default(),
        };
        if self.no_check && data.is_checked() {
            return Err(WorkUsage::CheckOfNothing);
        }
        for &lock in locks {
            let bytes = lock_bytes(lock.kind);
            if data == Data::SameLine && bytes > LOCK_BYTES_BESIDE_DATA {
                return Err(WorkUsage::NoRoomBesideLock { lock, bytes });
            }
        }
        Ok(data)
    }
}

/// Whether each of the locks can be read, as `option` asks for.
pub(crate) fn check_reads(option: &'static str, locks: &[Lock]) -> Result<(), WorkUsage> {
    match locks.iter().find(|lock| !lock.can_be_read()) {
        None => Ok(()),
        Some(&lock) if lock.kind.is_rw() => Err(WorkUsage::ReadsNotDirect { option, lock }),
        Some(lock) => Err(no_read_side(option, lock.name())),
    }
}

/// What to say where `option` asks for reads of a lock that has no read side.
pub(crate) fn no_read_side(option: &'static str, lock: String) -> WorkUsage {
    let all = LockKind::ALL.iter();
    let rw = all.filter(|kind| kind.is_rw() && !kind.traits().control);
    let rw = rw.map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    WorkUsage::NoReadSide { option, lock, rw }
}
