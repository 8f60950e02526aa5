//! What torture must find: locks that are broken on purpose, each in its own way, and those that starve
//! somebody. Without /dev/kvm the runs in guests say loudly that they were skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;
mod torturing;

use commands::stdout;
use machines::machines;
use serde_json::Value;
use std::time::{Duration, Instant};
use torturing::{report, sum, torture};

/// Without pauses, which would only make the tests longer.
const STEADY: &str = "--stutter 0 --shuffle-interval 0";

#[test]
fn every_broken_lock_is_caught_every_time() {
    for machine in machines(8) {
        for (lock, says) in [
            ("busted", "mutual exclusion was broken"),
            ("busted-rw", "mutual exclusion was broken"),
            ("busted-wakeup", "a wake-up was lost"),
        ] {
            for seed in 1..=3 {
                let line = format!(
                    "--machine {machine} --lock {lock} {STEADY} --duration 30s --seed {seed}"
                );
                // A lock that goes on is judged in the end; none needs all of it.
                let line = if lock == "busted-wakeup" {
                    line
                } else {
                    line.replace("30s", "1s")
                };
                let begun = Instant::now();
                let output = torture(&line);
                let (text, took) = (stdout(&output), begun.elapsed());
                assert_eq!(output.status.code(), Some(3), "{line}: {text}");
                assert!(text.contains("\nEnd of test: FAILURE\n"), "{line}: {text}");
                assert!(text.contains(says), "{line}: {text}");
                // 5 s is what is promised of a host that does nothing else.
                assert!(took < Duration::from_secs(15), "{line}: took {took:?}");
            }
        }
    }
}

fn threads<'a>(report: &'a Value, role: &'a str) -> impl Iterator<Item = &'a Value> {
    let threads = report["record"]["threads"].as_array().unwrap().iter();
    threads.filter(move |thread| thread["role"] == role)
}

#[test]
fn a_starved_thread_is_named_and_is_no_failure() {
    for machine in machines(8) {
        let line = format!("--machine {machine} --lock busted-starve {STEADY} --duration 3s");
        let report = report(&line, 0);
        assert_eq!(report["verdict"], "success", "{report}");
        let of = |thread: &Value| thread["acquisitions"].as_u64().unwrap();
        let mut writers: Vec<_> = threads(&report, "writer").collect();
        writers.sort_by_key(|&thread| of(thread));
        // Where the host takes the CPU from all others for long enough, it does get the lock.
        let [starved, others @ ..] = &writers[..] else {
            unreachable!("writers were asked for")
        };
        assert_eq!(starved["vcpu"], 0, "{report}");
        assert!(of(starved) * 50 < of(others[0]), "{report}");
        let waited = starved["longest_wait_ns"].as_u64().unwrap();
        assert!(
            waited < 1_500_000_000 || !starved["starved"].is_null(),
            "{report}"
        );
    }
}

/// A public report: readers of an unfair lock keep writers out for as long as they come, and the
/// queued one bounds their wait.
#[test]
fn scenario_1_writers_of_the_unfair_lock_starve_and_those_of_the_queued_one_do_not() {
    for machine in machines(8) {
        let run = |lock: &str| {
            report(
                &format!(
                    "--machine {machine} --lock {lock} --writers 2 --readers 8 {STEADY} \
                     --duration 6s"
                ),
                0,
            )
        };
        let (unfair, queued) = (run("rwlock"), run("qrwlock+pv-qspinlock"));
        let starved = |thread: &Value| !thread["starved"].is_null();
        assert!(threads(&unfair, "writer").any(starved), "{unfair}");
        let longest = |report: &Value| -> u64 {
            threads(report, "writer")
                .map(|thread| thread["longest_wait_ns"].as_u64().unwrap())
                .max()
                .unwrap()
        };
        assert!(longest(&queued) < longest(&unfair), "{queued}");
        let share = |report: &Value| {
            let writers = threads(report, "writer");
            let writes = writers.map(|thread| thread["acquisitions"].as_u64().unwrap());
            writes.sum::<u64>() as f64 / sum(report, "acquisitions") as f64
        };
        let (unfair, queued) = (share(&unfair), share(&queued));
        assert!(
            queued > 3.0 * unfair,
            "writers' share {unfair}, queued {queued}"
        );
    }
}
