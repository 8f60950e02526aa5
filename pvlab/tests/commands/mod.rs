//! `pvlab` as users run it.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "each test uses some of it")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// Panics unless `output`, of what `what` says, ended with that exit code and its errors have all `parts`.
#[track_caller]
pub(crate) fn ended(output: &Output, code: i32, what: &str, parts: &[&str]) {
    let errors = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{what}: {errors}");
    for part in parts {
        assert!(
            errors.contains(part),
            "{what}: '{part}' is not in: {errors}"
        );
    }
}

/// As [`ended`], of a command that also says no more than one line.
#[track_caller]
pub(crate) fn ended_in_a_line(output: &Output, code: i32, what: &str, parts: &[&str]) {
    ended(output, code, what, parts);
    let errors = stderr(output);
    assert_eq!(errors.trim_end().lines().count(), 1, "{what}: {errors}");
}

/// Cases of a table with one a line: a command line, ` => `, and what its message has, separated by ` | `.
pub(crate) fn cases(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    table.lines().map(|case| {
        let (line, parts) = case.split_once(" => ").unwrap();
        (line, parts.split(" | ").collect())
    })
}

/// The standard output of a command that has succeeded.
pub(crate) fn done(line: &str) -> String {
    let output = pvlab(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{line}");
    stdout(&output).to_owned()
}

pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The command, begun, with both outputs in pipes.
pub(crate) fn begin(line: &str) -> Child {
    let mut command = command(line);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits for the end, which must come within `limit`: the exit code, standard output (unless somebody else
/// reads it) and standard error.
pub(crate) fn end_within(mut child: Child, limit: Duration) -> (Option<i32>, String, String) {
    fn text(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
        std::thread::spawn(|| {
            let mut text = String::new();
            if let Some(mut stream) = stream {
                stream.read_to_string(&mut text).unwrap();
            }
            text
        })
    }
    let (out, errors) = (text(child.stdout.take()), text(child.stderr.take()));
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!(
                "it did not end within {limit:?}: {}",
                errors.join().unwrap()
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    (status.code(), out.join().unwrap(), errors.join().unwrap())
}
