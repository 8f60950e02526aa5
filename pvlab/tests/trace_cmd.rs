//! A `trace.dat` is what trace-cmd reads: checked with the real one, where it is installed.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{json, pvlab, stderr, stdout};
use std::process::Command;

/// What trace-cmd makes of a file; `None`, said loudly, where there is none.
fn report(file: &str) -> Option<String> {
    match Command::new("trace-cmd")
        .args(["report", "-i", file])
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{}", stderr(&output));
            Some(stdout(&output).to_owned())
        }
        Err(_) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: trace-cmd is not installed\n{line}");
            None
        }
    }
}

#[test]
fn trace_cmd_reads_every_event_under_the_kernels_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.dat").display().to_string();
    let line = "trace --machine sim:here --lock pv-qspinlock --vcpus 4 --cpus 0-1 --duration 10ms --warm-up 2ms \
                --spin-threshold 100 --account json -o";
    let output = pvlab(&format!("{line} {file}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let account = json(stdout(&output));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"\x17\x08\x44tracing6\0"));
    // The pages of two CPUs, after what comes before them.
    assert_eq!(bytes.len() % 4096, 0);
    let Some(text) = report(&file) else { return };
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count() as u64;
    assert!(text.starts_with("cpus=2"), "{}", &text[..100]);
    let total = &account["vms"][0]["total"];
    let acquired = count("lock_step:") - count(": start") - count(": release");
    assert!(acquired > 0);
    // Those whose beginning is before the trace are acquired all the same.
    let acquisitions = total["acquisitions"].as_u64().unwrap();
    let acquired = text
        .lines()
        .filter(|line| line.contains("lock_step:") && line.contains(": acquired"))
        .count() as u64;
    assert!(
        acquired.abs_diff(acquisitions) <= 8,
        "{acquired} and {acquisitions}"
    );
    for (what, part) in [
        ("contention_begin", "(flags=SPIN)"),
        ("contention_end", "(ret=0)"),
        ("sched_switch", "==> swapper"),
        ("kvm_exit", "reason HLT"),
        ("kvm_entry", "vcpu"),
        ("kvm_vcpu_wakeup", "wait time"),
        ("vcpu_blocked", "is halted"),
    ] {
        let there = text
            .lines()
            .any(|line| line.contains(what) && line.contains(part));
        assert!(there, "{what}, {part}");
    }
    assert!(text.contains("vm0/vcpu3-4"), "a vCPU is a task");
    // In the order of time, which trace-cmd does not look after within a CPU.
    let times = text.lines().filter_map(|line| {
        let time = line.split_whitespace().find(|word| word.ends_with(':'))?;
        time.trim_end_matches(':').parse::<f64>().ok()
    });
    let times: Vec<f64> = times.collect();
    assert!(times.is_sorted() && times.len() as u64 > acquired);
}

#[test]
fn a_trace_dat_is_no_input_for_the_account() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace").display().to_string();
    let line = "trace --machine sim:here --lock tas --vcpus 2 --cpus 0-1 --duration 1ms --warm-up 0 --format trace-dat -o";
    let output = pvlab(&format!("{line} {file}"));
    assert!(output.status.success(), "{}", stderr(&output));
    let output = pvlab(&format!("trace --summary {file}"));
    commands::ended_in_a_line(&output, 1, "--summary of a trace.dat", &[]);
}
