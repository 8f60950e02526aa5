//! `pvlab trace` on real KVM guests and on host threads: the account adds up, finds what was injected,
//! and comes out of the files again. Without /dev/kvm the KVM half says loudly that it was skipped.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{command, ended, pvlab, stderr};
use machines::machines;
use serde_json::Value;
use std::path::PathBuf;

/// Whether the kernel lets us record context switches; without, nothing is known of preemption.
fn switches_are_recorded() -> bool {
    match host::switches::SwitchRecorder::start(rustix::thread::gettid()) {
        Ok(_) => true,
        Err(e) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: context switches cannot be recorded: {e}\n{line}");
            false
        }
    }
}

/// The account of a run, which must be in order.
fn account(line: &str) -> Value {
    let output = pvlab(&format!("{line} --account json"));
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {value}"))
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pvlab-trace-{}-{name}", std::process::id()))
}

#[test]
fn the_parts_of_all_waits_add_up_to_them() {
    for machine in machines(8) {
        for lock in [
            "tas",
            "ticket",
            "qspinlock",
            "pv-qspinlock",
            "rwlock",
            "qrwlock+ticket",
            "qrwlock-2014",
        ] {
            let line =
                format!("trace --machine {machine} --lock {lock} --vcpus 8 --duration 400ms");
            let account = account(&line);
            let total = &account["vms"][0]["total"];
            assert_eq!(account["sum_violations"], 0, "{line}");
            let parts: f64 = total["parts_ns"]
                .as_object()
                .unwrap()
                .values()
                .map(|v| v.as_f64().unwrap())
                .sum();
            let wait = number(total, "wait_ns");
            assert!(number(total, "acquisitions") > 0.0, "{line}");
            assert!(
                (parts - wait).abs() <= wait * 0.01,
                "{line}: {parts} against {wait}"
            );
        }
    }
}

#[test]
fn the_collapse_of_the_native_queue_is_explained_by_preemption() {
    if !switches_are_recorded() {
        return;
    }
    for machine in machines(8) {
        let line = format!(
            "trace --machine {machine} --lock qspinlock --vcpus 8 --cpus 0-1 --duration 1s"
        );
        let account = account(&line);
        let total = &account["vms"][0]["total"];
        let parts = &total["parts_ns"];
        let wait = number(total, "wait_ns");
        let part = |name| number(parts, name);
        assert!(part("unattributed") < 0.05 * wait, "{line}: {parts}");
        let preempted = part("holder_preempted") + part("next_preempted") + part("own_preemption");
        assert!(preempted > 0.5 * wait, "{line}: {parts}");
    }
}

#[test]
fn injected_preemption_of_holders_is_found() {
    if !switches_are_recorded() {
        return;
    }
    for machine in machines(8) {
        for lock in ["tas", "qspinlock", "pv-qspinlock"] {
            let line = format!(
                "trace --machine {machine} --lock {lock} --vcpus 2 --duration 1500ms --preempt holder:5ms@5%"
            );
            let account = account(&line);
            let injected = &account["vms"][0]["total"]["injected"];
            let (asked, found) = (
                number(injected, "holder_ns"),
                number(injected, "holder_found_ns"),
            );
            assert!(number(injected, "holder") > 20.0, "{line}: {injected}");
            assert!((found / asked - 1.0).abs() < 0.05, "{line}: {injected}");
        }
    }
}

#[test]
fn injected_preemption_of_the_next_waiter_is_seen() {
    for machine in machines(8) {
        let line = format!(
            "trace --machine {machine} --lock qspinlock --vcpus 3 --duration 1s --preempt next-waiter:2ms@10%"
        );
        let account = account(&line);
        let injected = &account["vms"][0]["total"]["injected"];
        assert!(number(injected, "next") > 2.0, "{line}: {injected}");
    }
}

#[test]
fn a_ring_that_is_too_small_drops_counts_and_goes_on() {
    for machine in machines(8) {
        let line = format!(
            "trace --machine {machine} --lock tas --vcpus 2 --duration 300ms --ring 1024 --account table"
        );
        let output = pvlab(&line);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("events found their ring full: take a larger --ring"),
            "{text}"
        );
    }
}

#[test]
fn both_files_give_the_account_of_the_run_again() {
    for machine in machines(8) {
        for (name, format) in [("a.pftrace", "perfetto"), ("a.jsonl", "json-lines")] {
            let file = scratch(name);
            let path = file.display();
            let run = account(&format!(
                "trace --machine {machine} --vm lock=pv-qspinlock,vcpus=4 --vm lock=ticket,vcpus=2 \
                 --lock-count 2 --duration 200ms --format {format} -o {path}"
            ));
            let again = account(&format!("trace --summary {path}"));
            std::fs::remove_file(&file).unwrap();
            for (vm, vm_again) in run["vms"]
                .as_array()
                .unwrap()
                .iter()
                .zip(again["vms"].as_array().unwrap())
            {
                let (total, total_again) = (&vm["total"], &vm_again["total"]);
                for (name, value) in total.as_object().unwrap() {
                    assert!(
                        *value == total_again[name],
                        "{machine}, {format}: {name} differs"
                    );
                }
            }
            assert!(run == again, "{machine}, {format}");
        }
    }
}

#[test]
fn json_lines_without_a_file_go_to_standard_output_and_nothing_else_does() {
    let output =
        pvlab("trace --machine threads --lock tas --vcpus 2 --duration 20ms --format json-lines");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert!(text.lines().count() > 100);
    let account = String::from_utf8_lossy(&output.stderr);
    assert!(account.contains("Where the waiting went"), "{account}");
}

#[test]
fn what_cannot_be_done_is_one_clear_line() {
    for (line, code, part) in [
        ("trace", 2, "--lock"),
        (
            "trace --lock tas -o /nonexistent/run.pftrace",
            1,
            "cannot write",
        ),
        ("trace --lock tas --ring 16 -o x", 2, "too small"),
        ("trace --lock tas --lock-count 5000", 2, "at most"),
        (
            "trace --lock tas --preempt holder:5ms",
            2,
            "holder:TIME@SHARE",
        ),
        ("trace --lock tas --preempt nobody:5ms@1%", 2, "next-waiter"),
        ("trace --lock tas --preempt holder:5s@1%", 2, "at most 4s"),
        ("trace --summary /nonexistent", 1, "/nonexistent"),
        ("trace --summary /etc/passwd", 1, "/etc/passwd"),
        ("trace --summary x --lock tas", 2, "cannot be used with"),
        ("compare --explain --format csv", 2, "--format json"),
    ] {
        let output = pvlab(line);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let line = "trace --machine threads --lock tas --vcpus 2 --duration 20ms -o /dev/full";
    let output = command(line)
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    ended(&output, 1, "", &["No space left"]);
}

#[test]
fn what_was_captured_before_a_run_failed_is_kept_and_readable() {
    // Critical sections that are longer, overcommitted, than the watchdog waits.
    let file = scratch("failed.pftrace");
    let path = file.display();
    let output = pvlab(&format!(
        "trace --lock ticket --vcpus 8 --cpus 0 --critical 300ms --watchdog 400ms --duration 30s -o {path}"
    ));
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("what was captured until then has been kept"),
        "{text}"
    );
    assert!(text.contains("it is stuck"), "{text}");
    let account = account(&format!("trace --summary {path}"));
    std::fs::remove_file(&file).unwrap();
    assert!(number(&account, "events") > 0.0);
}

#[test]
fn a_trace_that_was_cut_off_is_read_as_far_as_it_goes() {
    let file = scratch("cut.pftrace");
    let path = file.display();
    account(&format!(
        "trace --machine threads --lock tas --vcpus 2 --duration 50ms -o {path}"
    ));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let output = pvlab(&format!("trace --summary {path}"));
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the file ends early"),
        "{}",
        stderr(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("Where the waiting went"));
}

#[test]
fn the_vmm_tells_what_it_does_as_structured_events() {
    if !machines(8).contains(&"kvm") {
        return;
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pvlab"))
        .args("run --machine kvm --lock pv-qspinlock --vcpus 4 --spin-threshold 100".split(' '))
        .args("--duration 100ms --warm-up 0".split(' '))
        .env("RUST_LOG", "vmm=trace")
        .output()
        .unwrap();
    let text = stderr(&output);
    for part in [
        "VM started",
        "left the guest",
        "exit=Halt",
        "woken",
        "vcpu=",
        "vCPU ended",
    ] {
        assert!(text.contains(part), "'{part}' is missing");
    }
}

#[test]
fn an_explained_comparison_tells_of_every_lock() {
    let output = pvlab(
        "compare --machine threads --locks tas,ticket --vcpus 4 --rounds 1 --duration 500ms --explain --format json",
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let accounts = report["accounts"].as_array().unwrap();
    assert_eq!(accounts.len(), 2);
    for (account, lock) in accounts.iter().zip(["tas", "ticket"]) {
        assert_eq!(account["lock"], lock);
        assert_eq!(account["account"]["schema"], "pvlab.account/1");
        assert!(number(&account["account"]["vms"][0]["total"], "acquisitions") > 0.0);
    }
}

#[test]
fn the_live_view_names_who_is_preempted_and_leaves_the_report_alone() {
    let output =
        pvlab("run --machine threads --lock tas --vcpus 4 --duration 1200ms --live --format json");
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let text = stderr(&output);
    assert!(
        text.contains("preempted now") && text.contains("VM 0"),
        "{text}"
    );
}
