//! What the benchmarks share: times as ratios to a floor measured in the same run.
//!
//! One file in `benches/` per question. Absolute times mean little from one computer, or hour, to the
//! next; so each file names a floor, the cheapest thing that could do the job, and reports
//! multiples of it.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A benchmark group that compares everything in it with its first member.
pub struct Comparison<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    /// Name, floor (the first member if none is named) and least time per turn, in nanoseconds.
    results: Vec<(String, Option<String>, f64)>,
}

impl<'a> Comparison<'a> {
    /// Starts the group `name`.
    pub fn new(criterion: &'a mut Criterion, name: &str) -> Self {
        Self {
            group: criterion.benchmark_group(name),
            results: Vec::new(),
        }
    }

    /// Measures `turn`, which is given `subject` at a place the compiler does not know. Its ratio will
    /// be to the member of the name `floor`, or to the first.
    pub fn measure<T>(&mut self, name: &str, floor: Option<&str>, subject: &T, turn: impl Fn(&T)) {
        let mut least = f64::INFINITY;
        self.group.bench_function(name, |bencher| {
            bencher.iter_custom(|turns| {
                let time = timed(subject, &turn, turns);
                let mean = time.as_secs_f64() * 1e9 / (turns.max(1) as f64);
                // A trial run, as `cargo test` makes it, measures nothing.
                if turns > 1 {
                    least = least.min(mean);
                }
                time
            });
        });
        // Otherwise it was not measured at all, for instance filtered out on the command line.
        if least.is_finite() {
            let floor = floor.map(ToOwned::to_owned);
            self.results.push((name.to_owned(), floor, least));
        }
    }

    /// Ends the group, and prints what each member takes relative to its floor.
    pub fn finish(self) {
        self.group.finish();
        let least = |name: &str| {
            let named = self.results.iter().find(|(other, ..)| other == name);
            named.map(|&(.., least)| least)
        };
        let Some((first, ..)) = self.results.first() else {
            return;
        };
        println!("{:<40} {:>9} {:>7}   to", "", "least", "ratio");
        for (name, floor, time) in &self.results {
            let floor = floor.as_ref().unwrap_or(first);
            let ratio = least(floor).map_or("-".to_owned(), |floor| format!("{:.2}", time / floor));
            println!("{name:<40} {time:>6.1} ns {ratio:>7}   {floor}");
        }
        println!();
    }
}

#[inline(always)]
fn timed<T>(subject: &T, turn: &impl Fn(&T), turns: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..turns {
        turn(black_box(subject));
    }
    start.elapsed()
}
