//! A process that is stopped in the middle of a run, as by Ctrl-Z: what passes then is not measured.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{command, json, stderr, stdout};
use machines::machines;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What comes of `line` if it is stopped for that long, some time after its first line on standard error if
/// there are intervals that it tells of, else after its start; and how long it took.
fn stopped(line: &str, after: Duration, length: Duration) -> (Output, Duration) {
    let begun = Instant::now();
    let mut child = command(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    if line.contains("--stat-interval") {
        told.read_line(&mut first).unwrap();
    }
    sleep(after);
    kill_process(pid, Signal::STOP).unwrap();
    sleep(length);
    kill_process(pid, Signal::CONT).unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = (first + &rest).into_bytes();
    (output, begun.elapsed())
}

const STOP: Duration = Duration::from_secs(2);

/// Of one absence, which must be the stop: its length in s.
fn the_stop(absences: &Value) -> f64 {
    let absences = absences.as_array().unwrap();
    assert_eq!(absences.len(), 1, "{absences:?}");
    assert_eq!(absences[0]["cause"], "stopped", "{absences:?}");
    assert!(absences[0]["at_s"].as_f64().unwrap() >= 0.0, "{absences:?}");
    absences[0]["ms"].as_f64().unwrap() / 1e3
}

#[test]
fn a_stop_in_a_run_is_no_measured_time() {
    for machine in machines(2) {
        for lock in ["tas", "pv-qspinlock"] {
            let line = format!(
                "run --machine {machine} --lock {lock} --vcpus 2 --duration 1500ms --warm-up 10ms \
                 --watchdog 1s --stat-interval 500ms --format json"
            );
            let (output, took) = stopped(&line, Duration::from_millis(200), STOP);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let report = json(stdout(&output));
            let lost = the_stop(&report["record"]["without_cpu"]);
            assert!((1.7..2.6).contains(&lost), "{lost} s: {line}");
            // All that was asked for has been measured, beside the stop.
            let measured = report["record"]["measured_s"].as_f64().unwrap();
            assert!(measured >= 1.45, "{measured} s: {line}");
            assert!(
                measured + lost <= took.as_secs_f64(),
                "{measured} + {lost} s"
            );
            let warnings = report["warnings"].to_string();
            assert!(warnings.contains("\"without_cpu\""), "{warnings}");
            assert!(warnings.contains("the process was stopped"), "{warnings}");
            let said = stderr(&output).matches("s without CPU)").count();
            assert_eq!(said, 1, "one interval line tells: {}", stderr(&output));
        }
    }
}

#[test]
fn a_fixed_count_is_not_slower_for_a_stop() {
    let line = "run --machine threads --lock tas --vcpus 1 --iterations 6000000 --warm-up 10ms \
                --critical 200ns --outside 100ns --format json";
    let (output, took) = stopped(line, Duration::from_millis(700), STOP);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(stdout(&output));
    let lost = the_stop(&report["record"]["without_cpu"]);
    let measured = report["record"]["measured_s"].as_f64().unwrap();
    assert!(
        measured + lost <= took.as_secs_f64(),
        "{measured} + {lost} s"
    );
}

#[test]
fn a_run_of_a_comparison_is_made_again() {
    let line = "compare --machine threads --locks tas --rounds 1 --vcpus 2 --duration 1200ms \
                --warm-up 10ms --format json";
    let (output, _) = stopped(line, Duration::from_millis(800), STOP);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warnings = json(stdout(&output))["warnings"].to_string();
    assert!(warnings.contains("\"repeated\""), "{warnings}");

    let line = "bench rwsem-bench --machine threads --modes wlock --threads 2 --rounds 1 \
                --duration 1200ms --format json";
    let (output, _) = stopped(line, Duration::from_millis(800), STOP);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(stdout(&output)).to_string();
    assert!(report.contains("\"repeated\":1"), "{report}");
}

#[test]
fn a_lock_does_not_fail_under_torture_for_a_stop() {
    for machine in machines(2) {
        let line = format!(
            "torture --machine {machine} --lock ticket --writers 2 --duration 1500ms --watchdog 1s \
             --acq-writer-lim 900ms --stat-interval 400ms --format json"
        );
        let (output, _) = stopped(&line, Duration::from_millis(200), STOP);
        let report = json(stdout(&output));
        assert_eq!(output.status.code(), Some(0), "{report}");
        let lost = the_stop(&report["record"]["without_cpu"]);
        assert!((1.7..2.6).contains(&lost), "{lost} s: {line}");
        let measured = report["record"]["measured_s"].as_f64().unwrap();
        assert!(measured >= 1.45, "{measured} s: {line}");
        for thread in report["record"]["threads"].as_array().unwrap() {
            assert_eq!(thread["starved"], Value::Null, "{report}");
        }
    }
}

#[test]
fn a_trace_tells_of_a_stop() {
    let line =
        "trace --machine threads --lock pv-qspinlock --vcpus 2 --duration 1500ms --warm-up 10ms";
    let (output, _) = stopped(line, Duration::from_millis(900), STOP);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("s without CPU (the process was stopped)"),
        "{}",
        stdout(&output)
    );
}
