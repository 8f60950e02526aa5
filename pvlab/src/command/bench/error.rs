//! What is wrong with how `pvlab bench` was called.

use crate::options::error::Ends;
use crate::options::exit::USAGE;
/// What is wrong with how `pvlab bench` was called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchUsage {
    /// An option of another workload.
    #[error("{option} is of rwsem-bench; {workload} has no reads and no load")]
    NotOfWorkload {
        /// The option.
        option: &'static str,
        /// The workload asked for.
        workload: &'static str,
    },
    /// Several loads in a table of rates.
    #[error("--modes: the table of several loads has rows for --ratios instead, such as 0:1,1:1")]
    ModesOfTimes,
    /// Threads come in pairs.
    #[error("--threads {0}: pipe's threads come in pairs; give even numbers")]
    OddThreads(usize),
    /// Threads that cannot be split.
    #[error(
        "--split: {threads} threads cannot be split {ratio} into those that read and those that write; \
         choose other --threads"
    )]
    NotSplit {
        /// How many threads.
        threads: usize,
        /// Reads to writes.
        ratio: String,
    },
    /// Nothing is both read and written.
    #[error("--split: nothing is both read and written; choose other --modes or --ratios")]
    NothingToSplit,
    /// More threads than there can be.
    #[error(
        "--threads {threads}: {vcpus} vCPUs have at most {most} tasks; give fewer, or more --vcpus"
    )]
    TooManyThreads {
        /// Threads asked for.
        threads: usize,
        /// vCPUs that share them.
        vcpus: usize,
        /// What they can have.
        most: usize,
    },
    /// More threads than host threads are allowed.
    #[error("--threads {threads}: at most {most} host threads, as the lock word can name no more")]
    TooManyHostThreads {
        /// Threads asked for.
        threads: usize,
        /// How many there can be.
        most: usize,
    },
    /// vCPUs are threads there.
    #[error("--vcpus is of --machine kvm; each host thread is a vCPU of its own")]
    VcpusOfThreads,
    /// The same cell twice.
    #[error("{option}: {value} is there twice")]
    Twice {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
    },
}

impl Ends for BenchUsage {
    fn exit_code(&self) -> u8 {
        USAGE
    }
}
