//! What cannot be found out is unknown, which is not 0: without /proc, without file descriptors for KVM's
//! statistics, without context switches.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{json, stderr, stdout};
use machines::machines;
use serde_json::Value;
use std::process::{Command, Output};

/// Runs pvlab with the words of `line` from a shell that has done `before`, or says loudly that it cannot.
fn after(unshare: bool, before: &str, line: &str) -> Option<Output> {
    let mut command = if unshare {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user"]);
        if !command
            .args(["--", "true"])
            .status()
            .is_ok_and(|s| s.success())
        {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no mount namespace of its own can be had here\n{line}");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let script = format!("{before} && exec \"$0\" {line}");
    let pvlab = env!("CARGO_BIN_EXE_pvlab");
    let output = command.args(["-c", &script, pvlab]).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{script}: {}",
        stderr(&output)
    );
    Some(output)
}

fn warnings<'a>(report: &'a Value, code: &str) -> Vec<&'a str> {
    let all = report["warnings"].as_array().unwrap().iter();
    let of_code = all.filter(|warning| warning["code"] == code);
    of_code.map(|w| w["text"].as_str().unwrap()).collect()
}

#[test]
fn without_proc_switches_are_unknown_and_cpu_time_is_not() {
    let hidden = "mount -t tmpfs none /proc";
    for machine in machines(4) {
        let line = format!(
            "run --machine {machine} --lock tas --vcpus 4 --cpus 0 --duration 100ms --warm-up 20ms --format"
        );
        let Some(output) = after(true, hidden, &format!("{line} json")) else {
            return;
        };
        let report = json(stdout(&output));
        let record = &report["record"];
        for vcpu in record["vms"][0]["vcpus"].as_array().unwrap() {
            assert_eq!(vcpu["voluntary_switches"], Value::Null, "{vcpu}");
            assert_eq!(vcpu["involuntary_switches"], Value::Null, "{vcpu}");
            assert!(vcpu["cpu_ns"].is_u64(), "{vcpu}");
        }
        // Known, and no more than that: on a busy host 100 ms may pass without a CPU for any of them.
        assert!(report["summaries"][0]["cpu_ns"].is_u64(), "{report}");
        assert_eq!(report["summaries"][0]["voluntary_switches"], Value::Null);
        assert_eq!(record["start"]["reason"], "preemptions_unknown");
        assert_eq!(record["surroundings"]["others_cpus"], Value::Null);
        let said = warnings(&report, "unknown");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("there is no /proc"), "{said:?}");
        // And in tables.
        let table = after(true, hidden, &format!("{line} table")).unwrap();
        assert!(stdout(&table).contains("unknown | "), "{}", stdout(&table));
    }
}

#[test]
fn without_descriptors_kvms_statistics_are_unknown_and_the_limit_is_named() {
    // A vCPU and its kick take two descriptors, its statistics one more.
    for (vcpus, files) in [(256, 600), (16, 50)] {
        if !machines(vcpus).contains(&"kvm") {
            continue;
        }
        let line = format!(
            "run --machine kvm --lock pv-qspinlock --vcpus {vcpus} --duration 50ms --warm-up 10ms --format json"
        );
        let of = |report: &Value| {
            report["record"]["vms"][0]["vcpus"]
                .as_array()
                .unwrap()
                .clone()
        };
        let output = after(false, &format!("ulimit -n {files}"), &line).unwrap();
        let report = json(stdout(&output));
        for vcpu in of(&report) {
            assert_eq!(vcpu["kvm"], Value::Null, "of all or of none");
            assert!(!vcpu["involuntary_switches"].is_null(), "that is known");
        }
        let said = warnings(&report, "unknown");
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["statistics", &format!("{files} open"), "ulimit -n"] {
            assert!(said[0].contains(part), "{said:?}");
        }
        // A soft limit is no limit.
        let output = after(false, &format!("ulimit -Sn {files}"), &line).unwrap();
        let report = json(stdout(&output));
        assert!(of(&report).iter().all(|vcpu| vcpu["kvm"].is_object()));
        assert!(warnings(&report, "unknown").is_empty());
    }
}

#[test]
fn a_trace_without_descriptors_for_context_switches_tells_so() {
    let line = "trace --machine threads --lock tas --vcpus 64 --duration 50ms --warm-up 10ms";
    let Some(output) = after(false, "ulimit -n 40", line) else {
        return;
    };
    let text = stdout(&output);
    assert!(text.contains("cannot be recorded"), "{text}");
    assert!(text.contains("ulimit -n"), "{text}");
}

#[test]
fn niceness_shows_where_it_matters() {
    let line = "run --machine threads --lock tas --vcpus 1 --duration 30ms --warm-up 0 --format";
    let output = after(false, "true", &format!("{line} json")).unwrap();
    let before = json(stdout(&output))["host"]["limits"].clone();
    assert!(before["policy"].is_string(), "{before}");
    let nice = before["nice"].as_i64().unwrap() + 3;
    let script = format!("{line} table");
    let pvlab = env!("CARGO_BIN_EXE_pvlab");
    let mut command = Command::new("nice");
    command.args(["-n", "3", pvlab]).args(script.split(' '));
    let output = command.output().unwrap();
    let first = stdout(&output).lines().next().unwrap().to_owned();
    assert!(first.contains(&format!("nice {nice}")), "{first}");
}
