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
    /// Name and least time per turn, in nanoseconds.
    results: Vec<(String, f64)>,
}

impl<'a> Comparison<'a> {
    /// Starts the group `name`.
    pub fn new(criterion: &'a mut Criterion, name: &str) -> Self {
        Self {
            group: criterion.benchmark_group(name),
            results: Vec::new(),
        }
    }

    /// Measures `turn`, which is given `subject` at a place the compiler does not know.
    pub fn measure<T>(&mut self, name: &str, subject: &T, turn: impl Fn(&T)) {
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
            self.results.push((name.to_owned(), least));
        }
    }

    /// Ends the group, and prints what each member takes relative to the first.
    pub fn finish(self) {
        self.group.finish();
        let Some((floor_name, floor)) = self.results.first() else {
            return;
        };
        println!("{:<32} {:>8}   (1 = {floor_name})", "", "ratio");
        for (name, least) in &self.results {
            println!("{name:<32} {:>8.2}", least / floor);
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
