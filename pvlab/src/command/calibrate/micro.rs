//! What this host's CPUs take for what locks are made of, measured on plain threads.

use crate::figures::median;
use host::sched::join_load;
use host::thread::set_affinity;
use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Batches of a measurement; their median is taken, so that some may be disturbed.
const BATCHES: usize = 31;
const BATCH: u64 = 20_000;
/// Times that a line goes to the other CPU and back, in a batch.
const ROUND_TRIPS: u64 = 2_000;
/// How long to let threads fight for a CPU.
const FIGHT: Duration = Duration::from_millis(800);
/// A thread that has not run for this long has been off its CPU.
const OFF_CPU: Duration = Duration::from_micros(300);

/// A line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Median time of one of `operations`, ns, of several batches of what `batch` does.
fn per_operation(operations: u64, mut batch: impl FnMut()) -> f64 {
    let times = [(); BATCHES].map(|()| {
        let begun = Instant::now();
        batch();
        begun.elapsed().as_secs_f64() * 1e9 / operations as f64
    });
    median(times).unwrap_or(0.0)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OneCpu {
    pub(crate) hit_ns: f64,
    pub(crate) rmw_ns: f64,
    pub(crate) pause_ns: f64,
}

/// Measures on the calling thread.
pub(crate) fn one_cpu() -> OneCpu {
    let line = Line::default();
    let hit_ns = per_operation(BATCH, || {
        // Each address depends on the load before: what is measured is the latency.
        let mut place = 0_usize;
        let words = [&line.0; 1];
        for _ in 0..BATCH {
            #[expect(clippy::cast_possible_truncation, reason = "it is 0")]
            let next = black_box(words)[place].load(Ordering::Relaxed) as usize;
            place = next;
        }
        black_box(place);
    });
    let rmw_ns = per_operation(BATCH, || {
        for _ in 0..BATCH {
            line.0.fetch_add(1, Ordering::AcqRel);
        }
    });
    let pause_ns = per_operation(BATCH / 10, || (0..BATCH / 10).for_each(|_| spin_loop()));
    OneCpu {
        hit_ns,
        rmw_ns,
        pause_ns,
    }
}

/// How long a line takes from one CPU to the other, ns.
pub(crate) fn transfer_ns([here, there]: [usize; 2]) -> io::Result<f64> {
    let line = Line::default();
    let word = &line.0;
    // The line's value only grows, and whose turn it is shows in the lowest bit: who is late for a batch
    // finds the turn that is its own.
    let pass = |batch: u64, own: u64| {
        for turn in batch * ROUND_TRIPS..(batch + 1) * ROUND_TRIPS {
            while word.load(Ordering::Acquire) != 2 * turn + own {}
            word.store(2 * turn + own + 1, Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        // Neither begins without the other: there may be no room for a second thread.
        let (go, both) = mpsc::channel::<()>();
        let other = Builder::new().spawn_scoped(scope, move || {
            if both.recv().is_err() {
                return Ok(());
            }
            join_load();
            let placed = set_affinity(&[there]);
            (0..BATCHES as u64).for_each(|batch| pass(batch, 1));
            placed
        })?;
        let placed = Builder::new().spawn_scoped(scope, move || {
            let _ = go.send(());
            join_load();
            let placed = set_affinity(&[here]);
            let mut batch = 0;
            let ns = per_operation(2 * ROUND_TRIPS, || {
                pass(batch, 0);
                batch += 1;
            });
            placed.map(|()| ns)
        })?;
        let (ns, placed) = (joined(placed)?, joined(other)?);
        placed.and(ns)
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("panic"))
}

/// How long the host's scheduler lets threads run that always want to, two on a CPU: the median, and half
/// the distance between the quartiles, ns.
pub(crate) fn slice_ns(cpu: usize) -> io::Result<(f64, f64)> {
    let over = AtomicBool::new(false);
    let mut gaps = std::thread::scope(|scope| {
        let fighter = || {
            // Two real-time threads would not take turns.
            join_load();
            set_affinity(&[cpu])?;
            let mut gaps = Vec::new();
            let mut last = Instant::now();
            while !over.load(Ordering::Relaxed) {
                let now = Instant::now();
                if now - last >= OFF_CPU {
                    gaps.push((now - last).as_secs_f64() * 1e9);
                }
                last = now;
            }
            Ok::<_, io::Error>(gaps)
        };
        let start = |_| Builder::new().spawn_scoped(scope, fighter);
        let fighters: Vec<_> = (0..2).map(start).collect();
        if fighters.iter().all(Result::is_ok) {
            std::thread::sleep(FIGHT);
        }
        over.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for fighter in fighters {
            all.extend(joined(fighter?)??);
        }
        Ok::<_, io::Error>(all)
    })?;
    gaps.sort_unstable_by(f64::total_cmp);
    let quantile = |share: usize| gaps.get(gaps.len() * share / 4).copied();
    let middle = quantile(2).ok_or_else(|| {
        io::Error::other("two busy threads on one CPU were not seen to take turns")
    })?;
    let spread = quantile(3).unwrap_or(middle) - quantile(1).unwrap_or(middle);
    Ok((middle, spread / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_sent_to_and_fro_always_arrives() {
        let cpus = crate::host::allowed_cpus();
        let [a, b, ..] = cpus[..] else {
            eprintln!("SKIPPED: it takes two CPUs");
            return;
        };
        // A thread that is descheduled between two batches must not miss anything.
        for _ in 0..20 {
            assert!(transfer_ns([a, b]).unwrap() > 0.0);
        }
    }
}
