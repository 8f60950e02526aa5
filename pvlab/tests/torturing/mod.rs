//! Runs of `pvlab torture`, for the tests of it.

use serde_json::Value;
use std::process::{Command, Output};

pub(crate) fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
    command
        .arg("torture")
        .args(line.split_whitespace())
        .env_remove("RUST_LOG");
    command
}

pub(crate) fn torture(line: &str) -> Output {
    command(line).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The report of a test, which must end with that exit code.
pub(crate) fn report(line: &str, code: i32) -> Value {
    let output = torture(&format!("{line} --format json"));
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "pvlab.torture/1");
    report
}

pub(crate) fn sum(report: &Value, field: &str) -> u64 {
    let threads = report["record"]["threads"].as_array().unwrap();
    threads.iter().map(|t| t[field].as_u64().unwrap()).sum()
}
