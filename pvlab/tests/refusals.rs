//! What the host refuses: threads, memory, descriptors. Each refusal is one line with its remedy, exit code 1,
//! and nothing is left running.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{stderr, stdout};
use machines::machines;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Runs pvlab with the words of `line` after a shell has set limits, hard and soft, as a user without
/// privileges where that takes one.
fn limited(limits: &str, line: &str, unprivileged: bool) -> Output {
    let script = format!("{limits} && exec \"$1\" {line}");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_pvlab")])
        .env_remove("RUST_LOG");
    if unprivileged && rustix::process::geteuid().is_root() {
        // Root may have any number of threads.
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
    }
    command.output().unwrap()
}

/// Nobody's, so that nobody else's threads are counted.
const UNPRIVILEGED: u32 = 54_321;

/// It ends soon, with code 1 and one line that has these parts.
fn refused(limits: &str, line: &str, unprivileged: bool, parts: &[&str]) {
    let begun = Instant::now();
    let output = limited(limits, line, unprivileged);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{limits}: {line}: {text}");
    let errors: Vec<_> = text.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{limits}: {line}: {text}");
    assert!(!text.contains("panicked"), "{limits}: {line}: {text}");
    for part in parts {
        assert!(
            errors[0].contains(part),
            "{limits}: {line}: '{part}' in {text}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{line}");
}

const THREADS: &str = "--machine threads --duration 100ms --warm-up 10ms";

#[test]
fn threads_that_cannot_be_made_are_told_with_their_remedy() {
    // Those of other users are not counted.
    let limit = "ulimit -u 12";
    let remedy = "ulimit -u";
    for line in [
        format!("run --lock tas --vcpus 64 {THREADS}"),
        format!("run --lock pv-qspinlock --vcpus 64 {THREADS}"),
        format!("run --lock tas --vcpus 2 --noise 40 {THREADS}"),
        format!("trace --lock tas --vcpus 64 {THREADS}"),
        "torture --lock tas --writers 64 --machine threads --duration 1s".to_owned(),
        "bench rwsem-bench --threads 64 --machine threads --duration 100ms".to_owned(),
        format!("compare --locks tas,ticket --vcpus 64 --rounds 1 {THREADS}"),
    ] {
        refused(limit, &line, true, &[remedy]);
    }
}

#[test]
fn what_was_measured_is_reported_where_there_can_be_no_further_thread() {
    // The vCPU's own threads have just room enough; a trace is then written without threads of its own.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace.jsonl");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), permissions).unwrap();
    let line = format!(
        "trace --machine sim:here --lock ticket --vcpus 2 --warm-up 1ms --duration 1ms -o {}",
        file.display()
    );
    let output = limited("ulimit -u 1", &line, true);
    assert!(output.status.success(), "{}", stderr(&output));
    let line = format!("trace --summary {}", file.display());
    let read = limited("true", &line, false);
    assert!(!stderr(&read).contains("ends early"), "{}", stderr(&read));
    // So are simulations that would have been side by side.
    let line = "compare --machine sim:here --locks tas,ticket --vcpus 2 --rounds 2 --jobs 4 \
                --duration 1ms --warm-up 1ms --format json";
    let output = limited("ulimit -u 1", line, true);
    assert!(output.status.success(), "{}", stderr(&output));
    let unlimited = limited("true", line, true);
    let summaries = |output| commands::json(stdout(output))["summaries"].clone();
    assert_eq!(summaries(&output), summaries(&unlimited));
}

#[test]
fn memory_that_is_not_there_is_told_with_its_remedy() {
    // Rings of 512 MiB each, in 2 GB.
    let limit = "ulimit -v 2000000";
    for machine in machines(16).into_iter().chain(["sim:here"]) {
        let line = format!(
            "trace --machine {machine} --lock tas --vcpus 16 --duration 10ms --ring 67108864"
        );
        refused(limit, &line, false, &["memory"]);
    }
    let line = "run --machine sim:here --lock tas --vcpus 4000 --iterations 1";
    refused("ulimit -v 200000", line, false, &["ulimit -v"]);
    let many = "--vm lock=tas,vcpus=16 ".repeat(40);
    let line = format!("trace {many} --machine threads --duration 10ms --ring 1048576");
    refused(limit, &line, false, &["ulimit -v"]);
}

#[test]
fn descriptors_that_are_not_there_are_told_with_their_remedy() {
    for machine in machines(64) {
        if *machine != *"kvm" {
            continue;
        }
        let line = format!("run --machine {machine} --lock tas --vcpus 64 --duration 10ms");
        for limit in ["ulimit -n 40", "ulimit -n 10", "ulimit -n 7"] {
            refused(limit, &line, false, &["open files"]);
        }
    }
    for limit in ["ulimit -n 4", "ulimit -n 6"] {
        let line = format!("run --lock tas --vcpus 2 {THREADS}");
        refused(limit, &line, false, &["open files"]);
    }
}
