//! `pvlab bench`: short runs of each microbenchmark on host threads and in KVM guests. Without /dev/kvm
//! the latter say loudly that they were skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{begin, cases, end_within, ended, ended_in_a_line, pvlab, send, stderr, stdout};
use machines::machines;
use pvlock::LockKind;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Output;
use std::time::Duration;

fn bench(line: &str) -> Output {
    pvlab(&format!("bench {line}"))
}

/// The cells of a report of one round, which must have succeeded.
fn cells(line: &str) -> Vec<Value> {
    let output = bench(&format!("{line} --rounds 1 --warm-up 10ms --format json"));
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "pvlab.bench/1");
    assert_eq!(report["ended"], "complete");
    let Value::Array(cells) = report["cells"].take() else {
        panic!("{report}");
    };
    cells
}

fn run(cell: &Value, field: &str) -> u64 {
    let runs = cell["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{cell}");
    runs[0][field].as_u64().unwrap()
}

#[test]
fn a_fixed_number_of_operations_is_made_by_each_thread() {
    for machine in machines(2) {
        // Five threads on two vCPUs: two on one, three on the other.
        for cell in cells(&format!(
            "rwsem-bench --machine {machine} --locks rwlock --threads 1,5 --ops 2000"
        )) {
            let threads = cell["threads"].as_u64().unwrap();
            assert_eq!(run(&cell, "operations"), 2000 * threads, "{cell}");
            assert_eq!(run(&cell, "thread_min"), 2000, "{cell}");
            assert_eq!(run(&cell, "thread_max"), 2000, "{cell}");
            let reads = match cell["column"]["name"].as_str().unwrap() {
                "wlock" => 0,
                "rlock" => 2000 * threads,
                "mixed" => 1000 * threads,
                other => panic!("{other}"),
            };
            assert_eq!(run(&cell, "reads"), reads, "{cell}");
        }
    }
}

#[test]
fn ratios_are_kept_in_each_thread_and_between_groups() {
    for machine in machines(2) {
        let line = format!(
            "rwsem-bench --machine {machine} --locks rwlock --threads 4 --ratios 3:1 --loads 0,50ns \
             --ops 4000"
        );
        for split in ["", "--split"] {
            let cells = cells(&format!("{line} {split}"));
            assert_eq!(cells.len(), 2);
            for cell in cells {
                assert_eq!(run(&cell, "operations"), 16_000, "{cell}");
                assert_eq!(run(&cell, "reads"), 12_000, "{cell}");
                assert_eq!(cell["figures"][0]["unit"], "ms");
            }
        }
    }
}

#[test]
fn every_workload_gets_on_and_waits_are_timed() {
    for machine in machines(2) {
        for (workload, lock) in [
            ("rwsem-bench", "ticket"),
            ("rwsem-bench", "pv-qspinlock"),
            ("futex-hash", "qspinlock"),
            ("rwsem-bench", "rwsem"),
            ("lock-pi", "ticket"),
            ("lock-pi", "mutex"),
            ("pipe", "mutex"),
            ("pipe", "pv-qspinlock"),
        ] {
            let line = format!(
                "{workload} --machine {machine} --locks {lock} --threads 2,6 --duration 500ms --latency"
            );
            for cell in cells(&line) {
                assert!(run(&cell, "operations") > 0, "{line}: {cell}");
                let writes = run(&cell, "operations") > run(&cell, "reads");
                assert_eq!(
                    run(&cell, "write_wait_max_ns") > 0,
                    writes,
                    "{line}: {cell}"
                );
            }
        }
    }
}

#[test]
fn every_sound_lock_can_be_measured() {
    let sound = LockKind::ALL.iter().filter(|kind| !kind.traits().control);
    let locks: Vec<_> = sound.map(|kind| kind.name()).collect();
    let locks = locks.join(",");
    for machine in machines(2) {
        // Without --modes, a lock that cannot be read only writes.
        let line = format!("rwsem-bench --machine {machine} --locks {locks} --threads 3 --ops 500");
        for cell in cells(&line) {
            assert_eq!(run(&cell, "operations"), 1500, "{cell}");
        }
    }
}

#[test]
fn workloads_that_wait_also_end_by_number() {
    for machine in machines(2) {
        for workload in ["futex-hash", "lock-pi", "pipe"] {
            let line = format!("{workload} --machine {machine} --threads 4 --ops 300");
            let cells = cells(&line);
            let counted = if workload == "pipe" { 2 } else { 4 };
            assert_eq!(run(&cells[0], "operations"), 300 * counted, "{line}");
            assert_eq!(run(&cells[0], "thread_min"), 300, "{line}");
        }
    }
}

#[test]
fn a_thousand_threads_on_two_vcpus() {
    if !machines(2).contains(&"kvm") {
        return;
    }
    for workload in [
        "rwsem-bench --modes mixed --locks rwsem",
        "rwsem-bench --modes mixed --locks rwlock",
        "pipe --locks mutex",
    ] {
        let line = format!("{workload} --machine kvm --threads 1000 --ops 20");
        let cells = cells(&line);
        assert_eq!(
            (&cells[0]["threads"], &cells[0]["vcpus"]),
            (&1000.into(), &2.into())
        );
        assert_eq!(run(&cells[0], "thread_min"), 20, "{line}");
        assert_eq!(run(&cells[0], "thread_max"), 20, "{line}");
    }
}

#[test]
fn two_locks_are_before_and_after() {
    let line = "rwsem-bench --machine threads --locks rwlock,rwlock --threads 1,2 --ops 1000 \
                --rounds 2 --warm-up 0";
    let output = bench(line);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress without a terminal");
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert!(
        lines[0].starts_with("machine: threads (as asked), 2 vCPUs"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1],
        "rwsem-bench, 1 pause inside: kops/s; 1000 operations by each thread, median of 2 interleaved \
         rounds"
    );
    assert_eq!(
        lines[4],
        "   # of Threads  wlock   rlock   mixed     wlock   rlock   mixed"
    );
    assert!(
        lines.contains(&"% Change from rwlock to rwlock:"),
        "{lines:?}"
    );

    let output = bench(&format!("{line} --loads 1,5"));
    let out = stdout(&output);
    assert!(
        out.contains("\nBefore (rwlock):\n  rwlock/0:1          1         1:"),
        "{out}"
    );
    assert!(
        out.contains("\n% Change:\n  rwlock/0:1          1         1:"),
        "{out}"
    );
}

#[test]
fn a_broken_lock_is_caught() {
    for machine in machines(2) {
        let output = bench(&format!(
            "rwsem-bench --machine {machine} --locks busted --threads 2 --rounds 1 --loads 2us \
             --duration 500ms"
        ));
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert!(
            errors.starts_with("busted broke mutual exclusion: "),
            "{errors}"
        );
    }
}

#[test]
fn a_run_that_gets_stuck_is_told_of() {
    // Each of the pair waits for the other's wake-up.
    let output =
        bench("pipe --machine threads --threads 2 --duration 10s --watchdog 1s --drop-kicks");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "", "nothing is complete");
    let errors = stderr(&output);
    assert!(errors.contains("it is stuck"), "{errors}");
    assert!(errors.contains("all vCPUs are halted"), "{errors}");
}

#[test]
fn a_run_that_gets_stuck_leaves_those_before_it_in_the_report() {
    for machine in machines(2) {
        // The second lock forgets one wake-up in 64.
        let output = bench(&format!(
            "rwsem-bench --machine {machine} --locks ticket,busted-wakeup --threads 2 --ops 20000 \
             --loads 5us --rounds 1 --warm-up 10ms --watchdog 2s --format json"
        ));
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{machine}: {errors}");
        assert!(errors.contains("it is stuck"), "{machine}: {errors}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["ended"], "interrupted", "{machine}");
        let Value::Array(cells) = &report["cells"] else {
            panic!("{report}");
        };
        assert_eq!(run(&cells[0], "operations"), 40_000, "{machine}");
        let stuck = cells.iter().find(|cell| cell["lock"] == "busted-wakeup");
        assert_eq!(stuck.unwrap()["runs"], serde_json::json!([]), "{machine}");
    }
}

#[test]
fn ctrl_c_keeps_what_is_complete() {
    let child = begin(
        "bench rwsem-bench --machine threads --locks tas --threads 1,2 --duration 1s --warm-up 0 --rounds 100",
    );
    std::thread::sleep(Duration::from_millis(2600));
    send(&child, Signal::INT);
    let (code, out, errors) = end_within(child, Duration::from_secs(5));
    assert_eq!(code, Some(1));
    assert!(errors.starts_with("interrupted after "), "{errors}");
    assert!(
        errors.contains(" of 200 runs; the report is of these"),
        "{errors}"
    );
    assert!(out.contains("\nnot complete: "), "{out}");
}

const WRONG: &str = "\
rwsem => rwsem | rwsem-bench
 => WORKLOAD
rwsem-bench --threads 0 => --threads | at least 1
rwsem-bench --threads 4,4 => --threads | 4 is there twice
rwsem-bench --machine kvm --threads 5000 => --threads 5000 | 2048
rwsem-bench --machine kvm --vcpus 1001 => 1001 vCPUs | at most | this KVM
rwsem-bench --machine threads --threads 20000 => --threads 20000 | 16383
rwsem-bench --machine threads --vcpus 2 => --vcpus | kvm
rwsem-bench --ratios 0:0 => --ratios | neither
rwsem-bench --ratios 1 => --ratios | '1' | 1:1
rwsem-bench --loads 99999999999999999999 => --loads | too long
rwsem-bench --loads 2min => --watchdog
rwsem-bench --locks tas --modes rlock => --modes | 'tas' | no read side | rwlock
rwsem-bench --locks rwlock,tas --ratios 1:1 => --ratios | 'tas' | no read side
rwsem-bench --modes mixed --loads 1,5 => --modes | --ratios
rwsem-bench --split --threads 3 => --split | 3 threads | 1:1
rwsem-bench --split --modes wlock => --split
rwsem-bench --ops 5 --duration 1s => --ops | --duration
pipe --threads 3 => --threads 3 | pairs
pipe --ratios 1:1 => --ratios | rwsem-bench | pipe
futex-hash --loads 5 => --loads | futex-hash
lock-pi --split => --split | lock-pi";

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    for (line, parts) in cases(WRONG) {
        let output = bench(line);
        let errors = stderr(&output);
        // A host without KVM may say so first.
        if errors.contains("/dev/kvm") {
            continue;
        }
        if line.is_empty() {
            ended(&output, 2, line, &parts);
        } else {
            ended_in_a_line(&output, 2, line, &parts);
        }
        assert_eq!(stdout(&output), "", "{line}");
    }
}
