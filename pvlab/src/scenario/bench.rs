//! The microbenchmarks, as parts of a scenario.

use super::MachineKind;
use abi::Workload;
use guest::workload::{futex_hash, pipe};
use pvlock::LockKind;
use serde::{Deserialize, Serialize};

/// A microbenchmark and its threads, which are tasks that share the vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bench {
    /// What the threads do.
    pub workload: BenchKind,
    /// How many there are.
    pub threads: usize,
    /// Turns of a busy-wait loop inside the critical section.
    pub pauses: u64,
    /// Each operation reads by chance, instead of reads being evenly spread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random_mix: bool,
}

/// What the threads of a microbenchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchKind {
    /// All take one lock, for reading or writing.
    RwsemBench,
    /// Each waits on futexes of its own, which have the wrong value.
    FutexHash,
    /// All take one lock, and sleep while they hold it.
    LockPi,
    /// Pairs send a number to and fro.
    Pipe,
}

impl BenchKind {
    /// Every microbenchmark.
    pub const ALL: [Self; 4] = [Self::RwsemBench, Self::FutexHash, Self::LockPi, Self::Pipe];

    /// Its name, the guest's workload, and the lock that the kernel has in that place.
    const fn facts(self) -> (&'static str, Workload, LockKind) {
        match self {
            Self::RwsemBench => ("rwsem-bench", Workload::RwsemBench, LockKind::Rwsem),
            Self::FutexHash => ("futex-hash", Workload::FutexHash, LockKind::QSpinLock),
            Self::LockPi => ("lock-pi", Workload::LockPi, LockKind::Mutex),
            Self::Pipe => ("pipe", Workload::Pipe, LockKind::Mutex),
        }
    }

    /// The name, as users write it.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// What it is, in lines for its help.
    pub const fn about(self) -> &'static [&'static str] {
        match self {
            Self::RwsemBench => &[
                "all threads take one lock, with some pauses inside: a table of rates of wlock, rlock and",
                "mixed (every second acquisition reads), or, with --ratios or several --loads, a table of",
                "execution times",
            ],
            Self::FutexHash => &[
                "each thread waits on 1,024 futexes of its own which have the wrong value, so that it takes",
                "and releases the lock of the futex's hash bucket",
            ],
            Self::LockPi => &[
                "all threads take one lock and sleep for 1us (and the host's timer slack) while they hold it",
            ],
            Self::Pipe => &[
                "pairs of threads send a number to and fro over two pipes, each made of a lock, a ring and",
                "a wait queue",
            ],
        }
    }

    /// The lock that the kernel has in that place.
    pub const fn default_lock(self) -> LockKind {
        self.facts().2
    }

    /// The guest's workload.
    pub const fn workload(self) -> Workload {
        self.facts().1
    }

    /// Lock slots that it needs.
    pub const fn locks(self, vcpus: usize, threads: usize) -> usize {
        match self {
            Self::RwsemBench | Self::LockPi => 1,
            Self::FutexHash => (futex_hash::BUCKETS_PER_CPU * vcpus).next_power_of_two(),
            Self::Pipe => threads * pipe::SLOTS_PER_TASK,
        }
    }
}

impl Bench {
    /// Tasks that each of `vcpus` vCPUs needs, so that there is one for each thread.
    pub const fn tasks(self, machine: MachineKind, vcpus: usize) -> usize {
        match machine.facts().tasks {
            true => self.threads.div_ceil(vcpus),
            false => 1,
        }
    }

    /// The task that is thread number `thread`, by its number in the machine: threads are dealt out to
    /// the vCPUs in turn.
    pub const fn task(self, machine: MachineKind, vcpus: usize, thread: usize) -> usize {
        thread % vcpus * self.tasks(machine, vcpus) + thread / vcpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_dealt_out_to_vcpus() {
        let bench = Bench {
            workload: BenchKind::RwsemBench,
            threads: 5,
            pauses: 1,
            random_mix: false,
        };
        assert_eq!(bench.tasks(MachineKind::Kvm, 2), 3);
        let task = |thread| bench.task(MachineKind::Kvm, 2, thread);
        assert_eq!([0, 1, 2, 3, 4].map(task), [0, 3, 1, 4, 2]);
        let task = |thread| bench.task(MachineKind::Threads, 5, thread);
        assert_eq!([0, 1, 2, 3, 4].map(task), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn there_are_256_hash_buckets_for_each_cpu() {
        let buckets = |vcpus| BenchKind::FutexHash.locks(vcpus, 1);
        assert_eq!([1, 2, 3].map(buckets), [256, 512, 1024]);
        assert_eq!(BenchKind::Pipe.locks(2, 4), 8);
    }
}
