//! What the tests of files have in common.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "each test uses some of it")]

use crate::commands::{command, json, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A short trace that needs no host.
pub(crate) const TRACE: &str =
    "trace --machine sim:here --lock ticket --vcpus 2 --ring 4096 --warm-up 1ms --duration 1ms";
/// One that is larger than the file systems and limits here.
pub(crate) const LARGE: &str =
    "trace --machine sim:here --lock ticket --vcpus 2 --warm-up 1ms --duration 20ms";
/// A short run.
pub(crate) const RUN: &str =
    "run --machine sim:here --lock tas --vcpus 2 --warm-up 1ms --duration 1ms --format json";

pub(crate) const FORMATS: [&str; 2] = ["perfetto", "json-lines"];

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The account of a trace file, and whether the file ends early.
pub(crate) fn account(path: &Path) -> (serde_json::Value, bool) {
    let mut command = command("trace --account json --summary");
    let output = command.arg(path).output().unwrap();
    assert!(output.status.success(), "{path:?}: {}", stderr(&output));
    let early = stderr(&output).contains("the file ends early");
    (json(stdout(&output)), early)
}

pub(crate) fn shell(script: &str, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_pvlab")])
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

/// Waits for something that comes soon.
pub(crate) fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Some(found) = what() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Waits until the vCPUs have their threads.
pub(crate) fn wait_until_at_work(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    let at_work = || {
        let names = fs::read_dir(&tasks)
            .ok()?
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        (names.filter(|name| name.starts_with("vcpu")).count() >= 2).then_some(())
    };
    wait_for(at_work).expect("it starts its vCPUs");
}

/// The command that writes to `output` and shows nothing, with such files as go away in `temporary`.
pub(crate) fn writing(line: &str, output: &Path, temporary: &Path) -> Command {
    let mut command = command(line);
    command.arg("-o").arg(output).env("TMPDIR", temporary);
    command.stdout(Stdio::null());
    command
}

pub(crate) fn start(line: &str, output: &Path, temporary: &Path) -> Child {
    let mut command = writing(line, output, temporary);
    command.stderr(Stdio::null()).spawn().unwrap()
}
