//! Runs of `pvlab torture`, for the tests of it.

use crate::commands::{ended, pvlab, stdout};
use serde_json::Value;
use std::process::Output;

pub(crate) fn torture(line: &str) -> Output {
    pvlab(&format!("torture {line}"))
}

/// The report of a test, which must end with that exit code.
pub(crate) fn report(line: &str, code: i32) -> Value {
    let output = torture(&format!("{line} --format json"));
    let what = format!("{line}: {}", stdout(&output));
    ended(&output, code, &what, &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "pvlab.torture/1");
    report
}

pub(crate) fn sum(report: &Value, field: &str) -> u64 {
    let threads = report["record"]["threads"].as_array().unwrap();
    threads.iter().map(|t| t[field].as_u64().unwrap()).sum()
}
