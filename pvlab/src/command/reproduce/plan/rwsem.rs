//! The rwsem microbenchmark, and AIM7 as what it does to a rwsem.

use super::super::published::{Place, Publication};
use super::super::trial::{Reading, Trial};
use super::{BROADWELL, CASCADE_LAKE, Site, WESTMERE, ms, read, work_for};
use crate::scenario::{BenchKind, Length, Spread};
use pvlock::LockKind;

/// A run of the microbenchmark that is read as thousands of operations each second.
fn rate(
    site: Site,
    (block, lock): (&'static str, LockKind),
    threads: usize,
    (column, share): (&'static str, f64),
    row: String,
) -> Trial {
    // Sleeping and waking takes longer to come to rest.
    let (length, warm_up) = match share > 0.0 && share < 1.0 && threads > 1 {
        true => (ms(60), ms(10)),
        false => (ms(3), ms(1)),
    };
    let length = Length::Duration(length);
    let mut scenario = site.bench(BenchKind::RwsemBench, lock, threads, length, warm_up);
    read(&mut scenario, share, 1);
    Trial {
        name: format!("{block} {column} {threads}"),
        scenario,
        reading: Reading::Rate {
            place: Place::new(block, row, column),
            scale: 1e-3,
        },
    }
}

/// Table 000.
pub(super) fn rates_2019() -> Vec<Trial> {
    let locks = [
        ("before", LockKind::RwsemXaddAsm),
        ("after", LockKind::RwsemXadd),
    ];
    let mut trials = Vec::new();
    for lock in locks {
        for threads in [1, 2, 4, 8, 16, 32, 64] {
            for mode in [("wlock", 0.0), ("rlock", 1.0), ("mixed", 0.5)] {
                trials.push(rate(BROADWELL, lock, threads, mode, threads.to_string()));
            }
        }
    }
    trials
}

/// The rates of the rewritten rwsem: those of the cover letter, whose machine is like the preset.
pub(super) fn rates_extra() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (column, lock) in [("before", LockKind::RwsemXadd), ("after", LockKind::Rwsem)] {
        for threads in [2, 4, 8, 16, 32, 64] {
            let mode = (column, 0.5);
            trials.push(rate(
                CASCADE_LAKE,
                ("v8", lock),
                threads,
                mode,
                threads.to_string(),
            ));
        }
    }
    trials
}

/// Operations of each thread in table 004.
const OPERATIONS: u64 = 1_000_000;

/// Table 004.
pub(super) fn times_2014() -> Vec<Trial> {
    let ratios = [("0:1", 0.0), ("1:1", 0.5), ("10:1", 10.0 / 11.0)];
    let mut rows = vec![("mutex", "mutex", 0.0, LockKind::Mutex316)];
    for (block, lock) in [
        ("before", LockKind::RwsemXadd2014),
        ("after", LockKind::RwsemXadd2014Both),
    ] {
        rows.extend(ratios.map(|(ratio, share)| (block, ratio, share, lock)));
    }
    let mut trials = Vec::new();
    for threads in [2, 10] {
        for &(block, row, share, lock) in &rows {
            for load in [1, 5, 10] {
                let made = if threads == 2 { 6_000 } else { 2_500 };
                let length = Length::Iterations(made);
                let mut scenario =
                    WESTMERE.bench(BenchKind::RwsemBench, lock, threads, length, ms(1));
                read(&mut scenario, share, load);
                trials.push(Trial {
                    name: format!("{block} {row} {threads} load {load}"),
                    scenario,
                    reading: Reading::Time {
                        place: Place::new(block, format!("{row} x{threads}"), load),
                        operations: OPERATIONS,
                    },
                });
            }
        }
    }
    trials
}

/// What a mix of AIM7's jobs does to the rwsem that all of its processes share: of each job so many operations.
struct Jobs {
    row: &'static str,
    /// Operations of a job, and the share of them that read.
    operations: f64,
    reads: f64,
    /// The figure that the time between two operations is fitted to.
    fitted_to: &'static str,
}

/// Emulations of lock footprints: how often a job takes the lock is assumed, not known. There is one thread for each
/// CPU, and so nothing tells the ranges of users apart but what is fitted.
const JOBS: [Jobs; 4] = [
    Jobs {
        row: "custom (200-1000)",
        operations: 40.0,
        reads: 0.5,
        fitted_to: "custom (200-1000)",
    },
    Jobs {
        row: "custom (1100-2000)",
        operations: 40.0,
        reads: 0.5,
        fitted_to: "custom (200-1000)",
    },
    Jobs {
        row: "high_systime (200-1000)",
        operations: 40.0,
        reads: 0.5,
        fitted_to: "high_systime (200-1000)",
    },
    Jobs {
        row: "high_systime (1100-2000)",
        operations: 40.0,
        reads: 0.5,
        fitted_to: "high_systime (1100-2000)",
    },
];

/// How long the lock is held in a job's operation, s: a change of a process's mappings.
const HELD: f64 = 1.5e-6;

/// AIM7.
pub(super) fn aim7(published: &Publication) -> Vec<Trial> {
    let mut trials = Vec::new();
    for jobs in &JOBS {
        let fitted = Place::new("AIM7", jobs.fitted_to, "before");
        let Some(per_minute) = published.at(&fitted) else {
            continue;
        };
        // Were there no waiting, all CPUs would be busy with jobs.
        let of_job = 60.0 * WESTMERE.cpus as f64 / per_minute;
        let think = of_job / jobs.operations - HELD;
        for (column, lock) in [
            ("before", LockKind::RwsemXadd2014),
            ("after", LockKind::RwsemXadd2014Both),
        ] {
            let length = Length::Duration(ms(60));
            let kind = BenchKind::RwsemBench;
            let mut scenario = WESTMERE.bench(kind, lock, WESTMERE.cpus, length, ms(10));
            read(&mut scenario, jobs.reads, 0);
            let workload = &mut scenario.workload;
            workload.critical = work_for(HELD);
            workload.outside = work_for(think.max(1e-6));
            workload.outside_spread = Spread::Exp;
            trials.push(Trial {
                name: format!("{} {column}", jobs.row),
                scenario,
                reading: Reading::Rate {
                    place: Place::new("AIM7", jobs.row, column),
                    scale: 60.0 / jobs.operations,
                },
            });
        }
    }
    trials
}
