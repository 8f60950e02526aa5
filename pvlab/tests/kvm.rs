//! The command on real KVM guests. Without /dev/kvm these tests say loudly that they were skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{begin, command, end_within, ended, json, pvlab, send, stderr};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// Whether there is a KVM to test with.
fn kvm_is_here() -> bool {
    match vmm::check_host(8) {
        Ok(()) => true,
        Err(e) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no guest was run: {e}\n{line}");
            false
        }
    }
}

fn on_kvm(line: &str) -> Output {
    pvlab(&format!("{line} --machine kvm"))
}

#[test]
fn compare_runs_every_lock_in_guests_and_each_excludes() {
    if !kvm_is_here() {
        return;
    }
    let output =
        on_kvm("compare --vcpus 4 --duration 100ms --rounds 2 --warm-up 50ms --format json");
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["schema"], &report["machine"]),
        (&"pvlab.compare/1".into(), &"kvm".into())
    );
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 5);
    for result in results {
        assert_eq!(result["exclusion"], "held", "{result}");
        assert!(result["acquisitions"].as_u64().unwrap() > 0, "{result}");
        assert!(
            result["contended"].as_u64().unwrap() > 0,
            "overcommitted, so contended: {result}"
        );
    }
}

#[test]
fn two_guests_with_different_locks_run_at_once() {
    if !kvm_is_here() {
        return;
    }
    let line =
        "run --vm lock=pv-qspinlock,vcpus=2 --vm lock=tas,vcpus=3 --duration 200ms --format json";
    let output = on_kvm(line);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = report.to_string();
    assert!(text.contains("\"lock\":\"pv-qspinlock\"") && text.contains("\"lock\":\"tas\""));
}

#[test]
fn a_lock_that_does_not_exclude_ends_with_code_3() {
    if !kvm_is_here() {
        return;
    }
    let output = on_kvm("run --lock busted --vcpus 4 --duration 300ms --format json");
    ended(&output, 3, "", &["MUTUAL EXCLUSION BROKEN"]);
    serde_json::from_slice::<Value>(&output.stdout).expect("the report is still written");
}

#[test]
fn the_watchdog_reports_registers_lock_word_and_queue() {
    if !kvm_is_here() {
        return;
    }
    // Four spinning vCPUs on each CPU: the holder needs four times its critical section, which is
    // more than the watchdog waits.
    for lock in ["pv-qspinlock --spin-threshold 4000000000", "qspinlock"] {
        let line =
            format!("run --lock {lock} --vcpus 8 --critical 450ms --watchdog 500ms --duration 20s");
        let start = Instant::now();
        let output = on_kvm(&line);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "it ended by the watchdog, not by itself"
        );
        let text = stderr(&output);
        for part in [
            "it is stuck",
            "lock 0: 0x",
            "is inside",
            "queued",
            "rip 0x",
            "rsp 0x",
            "guest::",
        ] {
            assert!(text.contains(part), "'{part}' is missing: {text}");
        }
        for vcpu in 0..8 {
            assert!(text.contains(&format!("vCPU {vcpu}: ")), "{text}");
        }
        assert!(
            output.stdout.is_empty() || !String::from_utf8_lossy(&output.stdout).contains("M/s")
        );
    }
}

#[test]
fn ctrl_c_ends_a_run_with_what_was_measured() {
    if !kvm_is_here() {
        return;
    }
    let child =
        begin("run --lock tas --vcpus 4 --duration 60s --warm-up 50ms --format json --machine kvm");
    std::thread::sleep(Duration::from_secs(1));
    send(&child, Signal::INT);
    let (code, report, errors) = end_within(child, Duration::from_secs(10));
    assert_eq!(code, Some(1));
    assert!(json(&report).to_string().contains("\"interrupted\":true"));
    assert!(errors.contains("interrupted"));
}

#[test]
fn a_killed_vmm_leaves_no_process_behind() {
    if !kvm_is_here() {
        return;
    }
    let mut child = command("run --lock pv-qspinlock --vcpus 8 --duration 60s --machine kvm")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let tasks = format!("/proc/{}/task", child.id());
    assert!(
        std::fs::read_dir(&tasks).unwrap().count() > 8,
        "the vCPUs are threads of the process"
    );
    let children = format!("{tasks}/{}/children", child.id());
    let children = std::fs::read_to_string(children).unwrap_or_default();
    assert!(
        children.trim().is_empty(),
        "it has no child process: {children}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!std::path::Path::new(&tasks).exists());
}

#[test]
fn doctor_measures_in_a_throw_away_guest() {
    if !kvm_is_here() {
        return;
    }
    let output = pvlab("doctor --format json");
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "pvlab.doctor/1");
    assert!(report["kvm"]["tsc_khz"].as_u64().unwrap() > 0);
    for costs in report["costs"].as_array().unwrap() {
        for what in [
            "halt",
            "kick_running",
            "kick_halted",
            "kick_to_run",
            "yield_to",
        ] {
            assert_eq!(
                costs[what]["trials"],
                guest::workload::probe::TRIALS,
                "{what}: {costs}"
            );
        }
        let barriers = match host::membarrier::is_offered() {
            true => guest::workload::probe::TRIALS,
            false => 0,
        };
        assert_eq!(costs["barrier"]["trials"], barriers, "{costs}");
    }
}
