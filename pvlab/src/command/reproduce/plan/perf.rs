//! perf bench on powerpc, and what that mail says of contention and leaves out: overcommitted CPUs.

use super::super::published::Place;
use super::super::trial::{Reading, Trial};
use super::{POWER8, Site, ms};
use crate::scenario::{BenchKind, Length, Placement, WorkTime};
use pvlock::LockKind;
use std::time::Duration;

const LOCKS: [(&str, LockKind); 3] = [
    ("pv-qspinlock", LockKind::PvQSpinLock48),
    ("qspinlock", LockKind::QSpinLock),
    ("current-spinlock", LockKind::PpcSpinLock),
];

/// vCPUs of the partition.
const VCPUS: usize = 32;
/// CPUs of the partition where vCPUs outnumber them.
const CPUS: usize = 16;

/// Table 003-perf, and two blocks that have no published figures.
pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (column, lock) in LOCKS {
        for (row, kind, threads, length) in [
            ("futex hash", BenchKind::FutexHash, VCPUS, ms(2)),
            ("futex lock-pi", BenchKind::LockPi, VCPUS, ms(150)),
            ("sched pipe", BenchKind::Pipe, 2, ms(20)),
        ] {
            // The spinlock within what sleeps hardly matters, as the mail's figures say.
            let used = match kind {
                BenchKind::LockPi => LockKind::PiMutex,
                _ => lock,
            };
            let length = Length::Duration(length);
            let place = Place::new("pHyp", row, column);
            trials.push(Trial {
                name: format!("{row} {column}"),
                scenario: POWER8.bench(kind, used, threads, length, ms(1)),
                reading: match kind {
                    BenchKind::Pipe => Reading::Rate { place, scale: 1.0 },
                    _ => Reading::RatePerThread { place },
                },
            });
        }
        for vcpus in [1, VCPUS] {
            trials.push(spin(
                POWER8,
                "contended",
                (column, lock),
                (vcpus, vcpus),
                ms(4),
            ));
        }
    }
    for (column, lock) in LOCKS.into_iter().chain([("pv-next", LockKind::PvNext)]) {
        for times in [1, 2, 4, 8] {
            let site = Site {
                set: &[],
                cpus: CPUS,
                ..POWER8
            };
            let vcpus = (CPUS * times, times);
            trials.push(spin(site, "overcommit", (column, lock), vcpus, ms(250)));
        }
    }
    trials
}

/// `vcpus` that want the lock all the time; `row` is what they are called.
fn spin(
    site: Site,
    block: &str,
    (column, lock): (&str, LockKind),
    (vcpus, row): (usize, usize),
    length: Duration,
) -> Trial {
    let mut scenario = site.scenario(lock, vcpus, Length::Duration(length));
    scenario.cpus = (0..site.cpus.min(vcpus)).collect();
    scenario.placement = Placement::Pinned;
    scenario.workload.critical = WorkTime::from_ns(200);
    scenario.workload.outside = WorkTime::from_ns(300);
    scenario.warm_up = ms(1);
    Trial {
        name: format!("{block} {column} {row}"),
        scenario,
        reading: Reading::Spin {
            place: Place::new(block, row, column),
            scale: 1e-3,
        },
    }
}
