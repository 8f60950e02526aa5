//! What is wrong with how `pvlab bench` was called.

use crate::options::error::usage;

/// What is wrong with how `pvlab bench` was called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchUsage {
    #[error("{option} applies only to rwsem-bench; {workload} has no reads and no load")]
    NotOfWorkload {
        option: &'static str,
        workload: &'static str,
    },
    #[error("--modes: the table of several loads has rows for --ratios instead, such as 0:1,1:1")]
    ModesOfTimes,
    #[error("--threads {0}: pipe's threads come in pairs; give even numbers")]
    OddThreads(usize),
    #[error(
        "--split: {threads} threads cannot be split {ratio} into those that read and those that write; \
         choose other --threads"
    )]
    NotSplit { threads: usize, ratio: String },
    #[error("--split: nothing is both read and written; choose other --modes or --ratios")]
    NothingToSplit,
    #[error(
        "--threads {threads}: {vcpus} vCPUs have at most {most} tasks; give fewer, or more --vcpus"
    )]
    TooManyThreads {
        threads: usize,
        vcpus: usize,
        most: usize,
    },
    #[error("--threads {threads}: at most {most} host threads, as the lock word can name no more")]
    TooManyHostThreads { threads: usize, most: usize },
    #[error(
        "--vcpus applies only to --machine kvm and simulated ones; each host thread is a vCPU of its own"
    )]
    VcpusOfThreads,
    #[error("{option}: {value} is there twice")]
    Twice { option: &'static str, value: String },
}

usage!(BenchUsage);
