//! `pvlab` as users run it.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "each test uses some of it")]

use std::process::{Command, Output};

/// The command with the words of `line`.
pub(crate) fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
    command.args(line.split_whitespace()).env_remove("RUST_LOG");
    command
}

/// What comes of it.
pub(crate) fn pvlab(line: &str) -> Output {
    command(line).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}
