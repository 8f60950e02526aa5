//! Reports and gotchas of others that must come out right here. Without /dev/kvm those that need it
//! say loudly that they were skipped.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use serde_json::Value;
use std::process::{Command, Output};

/// The machines that there are.
fn machines() -> &'static [&'static str] {
    match vmm::check_host(8) {
        Ok(()) => &["kvm", "threads"],
        Err(e) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED on kvm, no guest was run: {e}\n{line}");
            &["threads"]
        }
    }
}

fn pvlab(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
    command.args(line.split_whitespace()).output().unwrap()
}

/// The report of a command that succeeds.
fn report(line: &str) -> Value {
    let output = pvlab(line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A guest that is not offered PV unhalt runs another slow path, and users took it for the
/// paravirtual one: every report says which one ran, and why.
#[test]
fn which_slow_path_runs_and_why_is_in_the_report() {
    for machine in machines() {
        let run = |options: &str| {
            report(&format!(
                "run --machine {machine} --lock auto --duration 60ms --warm-up 10ms --spin-threshold \
                 200 --format json {options}"
            ))
        };
        for (options, algorithm, waiters, why) in [
            (
                "--vcpus 4",
                "pv-qspinlock",
                "halt",
                "auto: pv unhalt is offered, 4 vCPUs",
            ),
            (
                "--vcpus 4 --no-pv-unhalt",
                "virt-tas",
                "spin",
                "auto: no pv unhalt",
            ),
            ("--vcpus 2 --no-pv", "qspinlock", "spin", "auto: --no-pv"),
            (
                "--vcpus 2 --realtime-hint",
                "qspinlock",
                "spin",
                "auto: real-time hint",
            ),
            ("--vcpus 1", "qspinlock", "spin", "auto: 1 vCPU"),
        ] {
            let report = run(options);
            let path = &report["slow_paths"][0];
            assert_eq!(path["algorithm"], algorithm, "{options}");
            assert_eq!(path["waiters"], waiters, "{options}");
            assert_eq!(path["why"], why, "{options}");
            // Not only said, but so: halting is what nobody but the paravirtual lock does.
            let halted = report["summaries"][0]["halts"].as_u64().unwrap() > 0;
            assert_eq!(halted, waiters == "halt", "{options}: {report}");
            let lock = format!("auto={algorithm}");
            assert_eq!(report["record"]["scenario"]["vms"][0]["lock"], *lock);
        }
    }
}

#[test]
fn a_paravirtual_lock_where_halts_cannot_work_is_refused() {
    let output = pvlab("run --lock pv-qspinlock --no-pv-unhalt");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in ["'pv-qspinlock'", "--no-pv-unhalt", "virt-tas", "qspinlock"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}
