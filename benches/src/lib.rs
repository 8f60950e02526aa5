//! What the benchmarks share: times as ratios to a floor, the cheapest thing that could do the job.
//!
//! One file in `benches/` per question. Absolute times mean little from one computer, or hour, to the
//! next, and clock rates change from one second to the next; so each batch of turns is timed right after
//! one of its floor, and the median of these ratios is reported.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A number of turns, timed.
type Timed = Box<dyn Fn(u64) -> Duration>;

/// A benchmark group in which everything is compared with its floor.
pub struct Comparison<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    floors: Vec<(String, Timed)>,
    results: Vec<Result>,
}

struct Result {
    name: String,
    /// The floor's name.
    floor: String,
    /// Least time per turn, ns.
    least: f64,
    /// Median ratio of a batch to the batch of its floor before it.
    ratio: f64,
}

impl<'a> Comparison<'a> {
    /// Starts the group `name`.
    pub fn new(criterion: &'a mut Criterion, name: &str) -> Self {
        Self {
            group: criterion.benchmark_group(name),
            floors: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Adds a floor: `turn`, which is given `subject` at a place the compiler does not know.
    pub fn floor<T: 'static>(&mut self, name: &str, subject: T, turn: impl Fn(&T) + 'static) {
        let timed = Box::new(move |turns| timed(&subject, &turn, turns));
        self.floors.push((name.to_owned(), timed));
    }

    /// Measures `turn`, which is given `subject` at a place the compiler does not know, beside the floor
    /// of that name.
    ///
    /// # Panics
    /// If there is no such floor.
    pub fn measure<T>(&mut self, name: &str, floor: &str, subject: &T, turn: impl Fn(&T)) {
        let mut least = f64::INFINITY;
        let mut ratios = Vec::new();
        let named = self.floors.iter().find(|(other, _)| other == floor);
        let (_, beside) = named.expect("a floor of that name");
        self.group.bench_function(name, |bencher| {
            bencher.iter_custom(|turns| {
                let floor = beside(turns);
                let time = timed(subject, &turn, turns);
                // A trial run, as `cargo test` makes it, measures nothing; nor do a few turns.
                if turns > 1000 {
                    least = least.min(time.as_secs_f64() * 1e9 / turns as f64);
                    ratios.push(time.as_secs_f64() / floor.as_secs_f64());
                }
                time
            });
        });
        ratios.sort_by(f64::total_cmp);
        // Otherwise it was not measured at all, for instance filtered out on the command line.
        if let Some(&ratio) = ratios.get(ratios.len() / 2) {
            self.results.push(Result {
                name: name.to_owned(),
                floor: floor.to_owned(),
                least,
                ratio,
            });
        }
    }

    /// Ends the group, and prints what each member takes relative to its floor.
    pub fn finish(self) {
        self.group.finish();
        if self.results.is_empty() {
            return;
        }
        println!("{:<44} {:>9} {:>7}   to", "", "least", "ratio");
        for result in &self.results {
            let Result {
                name,
                floor,
                least,
                ratio,
            } = result;
            println!("{name:<44} {least:>6.1} ns {ratio:>7.2}   {floor}");
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
