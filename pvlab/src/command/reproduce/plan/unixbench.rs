//! UnixBench as the lock footprints of its items: how often an iteration takes a spinlock, and what else it
//! does, as one length of work. That is an emulation, and says no more than what the locks cost.

use super::super::published::{Place, Publication, Use};
use super::super::trial::{Reading, Trial};
use super::{POWER8, called, ms, work_for};
use crate::scenario::Length;
use pvlock::LockKind;
use std::time::Duration;

/// An item of the benchmark.
pub(crate) struct Item {
    pub(crate) name: &'static str,
    /// What its index of 10 is, iterations each second, or KB.
    baseline: f64,
    /// How much of that an iteration is: KB of a block, or 1; for scripts, minutes in a second.
    of_iteration: f64,
    /// Spinlocks that an iteration takes and releases in the kernel, about.
    pairs: f64,
}

const fn item(name: &'static str, baseline: f64, of_iteration: f64, pairs: f64) -> Item {
    Item {
        name,
        baseline,
        of_iteration,
        pairs,
    }
}

/// The items, with the baselines of byte-unixbench. How many locks there are in an iteration is a rough count.
pub(crate) const ITEMS: [Item; 10] = [
    item("Execl Throughput", 43.0, 1.0, 150.0),
    item("File Copy 1024 bufsize 2000 maxblocks", 3960.0, 1.0, 1.0),
    item("File Copy 256 bufsize 500 maxblocks", 1655.0, 0.25, 1.0),
    item("File Copy 4096 bufsize 8000 maxblocks", 5800.0, 4.0, 1.0),
    item("Pipe Throughput", 12440.0, 1.0, 2.0),
    item("Pipe-based Context Switching", 4000.0, 1.0, 4.0),
    item("Process Creation", 126.0, 1.0, 100.0),
    item("Shell Scripts (1 concurrent)", 42.4, 60.0, 2000.0),
    item("Shell Scripts (8 concurrent)", 6.0, 60.0, 16000.0),
    item("System Call Overhead", 15000.0, 1.0, 2.0),
];

/// The row of a machine's score.
pub(crate) const SCORE: &str = "System Benchmarks Index Score";

impl Item {
    /// Seconds that an iteration takes at that index.
    fn seconds(&self, index: f64) -> f64 {
        10.0 * self.of_iteration / (index * self.baseline)
    }

    /// What makes an index of acquisitions each second.
    fn index_of_rate(&self) -> f64 {
        10.0 * self.of_iteration / (self.pairs * self.baseline)
    }
}

/// The score: the geometric mean of the indices.
pub(crate) fn score(indices: &[f64]) -> f64 {
    (indices.iter().map(|index| index.ln()).sum::<f64>() / indices.len() as f64).exp()
}

/// Columns of each machine and their locks; `true`: reached by a call through a pointer.
type Columns = [(&'static str, LockKind, bool)];

const NATIVE: &Columns = &[
    ("pv-qspinlock and qspinlock", LockKind::QSpinLock, true),
    (CURRENT, LockKind::PpcSpinLock, false),
];
const GUEST: &Columns = &[
    ("pv-qspinlock", LockKind::PvQSpinLock48, true),
    ("qspinlock", LockKind::QSpinLock, false),
    (CURRENT, LockKind::PpcSpinLock, false),
];
const CURRENT: &str = "current-spinlock";

/// Nanoseconds of a pair of the current spinlock that nobody else wants: an exchange and a store.
fn pair_ns() -> f64 {
    let spec = sim::presets::find(POWER8.preset);
    spec.map_or(13.0, |spec| spec.costs.rmw_ns + spec.costs.hit_ns)
}

/// Table 003-unixbench.
pub(super) fn trials(published: &Publication) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (block, columns) in [("PowerNV", NATIVE), ("pHyp", GUEST), ("KVM", GUEST)] {
        for item in &ITEMS {
            let Some(seconds) = iteration(published, block, item) else {
                continue;
            };
            let between = (seconds * 1e9 / item.pairs - pair_ns()).max(1.0);
            for &(column, lock, by_pointer) in columns {
                // A few thousand iterations' worth of locks at most, and of time.
                let length = Duration::from_secs_f64((between * 1e-9 * 2000.0).clamp(2e-4, 5e-3));
                let mut scenario = POWER8.scenario(lock, 1, Length::Duration(length));
                if by_pointer {
                    scenario.vms[0].lock = called(lock);
                }
                scenario.workload.outside = work_for(between * 1e-9);
                scenario.warm_up = ms(1);
                trials.push(Trial {
                    name: format!("{block} {} {column}", item.name),
                    scenario,
                    reading: Reading::Acquisitions {
                        place: Place::new(block, item.name, column),
                        scale: item.index_of_rate(),
                    },
                });
            }
        }
    }
    trials
}

/// How long an iteration takes on that machine with its current spinlock, s: by the figure that it is fitted to;
/// or as on the first machine that has one, times how much slower this one is where both have one.
fn iteration(published: &Publication, block: &str, item: &Item) -> Option<f64> {
    let fitted = |block: &str, item: &Item| {
        let place = Place::new(block, item.name, CURRENT);
        let figure = published
            .figures
            .iter()
            .find(|figure| figure.place == place)?;
        (figure.usage == Use::Fitted).then(|| item.seconds(figure.value))
    };
    if let Some(seconds) = fitted(block, item) {
        return Some(seconds);
    }
    let like = "pHyp";
    let ratios: Vec<f64> = ITEMS
        .iter()
        .filter_map(|item| Some(fitted(block, item)? / fitted(like, item)?))
        .collect();
    let slower = if ratios.is_empty() {
        1.0
    } else {
        score(&ratios)
    };
    Some(fitted(like, item)? * slower)
}

#[cfg(test)]
mod tests {
    use super::super::super::tables::TableName;
    use super::*;

    #[test]
    fn the_printed_scores_follow_from_the_printed_items() {
        let published = Publication::of(TableName::UnixBench, None).unwrap();
        let scores: Vec<_> = published
            .figures
            .iter()
            .filter(|figure| figure.place.row == SCORE)
            .collect();
        assert_eq!(scores.len(), 8);
        for printed in scores {
            let Place { block, column, .. } = &printed.place;
            let of = |item: &Item| published.at(&Place::new(block, item.name, column)).unwrap();
            let indices: Vec<f64> = ITEMS.iter().map(of).collect();
            let found = score(&indices);
            // They were printed with one digit after the point, and so were the items.
            assert!((found - printed.value).abs() < 0.11, "{found} {printed:?}");
        }
    }

    #[test]
    fn an_index_is_ten_times_the_result_over_the_baseline() {
        let syscall = &ITEMS[9];
        // 15,000 iterations a second are 10.
        assert!((syscall.seconds(10.0) - 1.0 / 15_000.0).abs() < 1e-15);
        assert!((syscall.index_of_rate() * 2.0 * 15_000.0 - 10.0).abs() < 1e-12);
        // 42.4 scripts a minute are 10.
        assert!((ITEMS[7].seconds(10.0) - 60.0 / 42.4).abs() < 1e-12);
    }
}
