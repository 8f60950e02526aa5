//! The structure of Perfetto traces, checked with Perfetto's own descriptors.
//!
//! Needs Python with the package `perfetto` (`PVLAB_PYTHON` names the interpreter). Without it the
//! tests say that they are skipped, or fail if `PVLAB_REQUIRE_PERFETTO=1`. `PVLAB_PERFETTO_TRACE`
//! names one more trace to check, of a real run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod streams;

use pvlab::trace::Event;
use pvlab::trace::sink::Format;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use streams::{Scratch, end, nonsense, orderly, story, write};

/// Exit code of the check if the package is missing.
const NO_PACKAGE: i32 = 77;

/// Checks the file, and returns what is in it; `None`: it cannot be checked here.
fn check(file: &Path) -> Option<String> {
    let python = std::env::var("PVLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_check.py");
    let output = Command::new(&python)
        .arg(script)
        .arg("--dump")
        .arg(file)
        .output();
    let missing = match output {
        Err(error) => format!("{python}: {error}"),
        Ok(output) if output.status.code() == Some(NO_PACKAGE) => {
            String::from_utf8(output.stderr).unwrap()
        }
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {complaint}", file.display());
            return Some(String::from_utf8(output.stdout).unwrap());
        }
    };
    let required = std::env::var_os("PVLAB_REQUIRE_PERFETTO").is_some_and(|value| value == "1");
    assert!(!required, "cannot check Perfetto traces: {missing}");
    // Not eprintln, which the test harness keeps to itself when a test passes.
    let line = "=".repeat(80);
    let _ = writeln!(
        std::io::stderr(),
        "{line}\nSKIPPED: the structure of a Perfetto trace was not checked: {}\n\
         pip install perfetto, or name a Python that has it in PVLAB_PYTHON\n{line}",
        missing.trim()
    );
    None
}

fn check_events(name: &str, events: &[Event], end_ns: u64) -> Option<String> {
    let file = Scratch::new(&format!("{name}.pftrace"));
    write(&file.0, Format::Perfetto, events, end(end_ns)).unwrap();
    check(&file.0)
}

#[test]
fn the_story_is_told() {
    let Some(told) = check_events("told", &story(), 40_000_000) else {
        return;
    };
    let expected = include_str!("perfetto_story.txt");
    for (told, expected) in told.lines().zip(expected.lines()) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.lines().count(), expected.lines().count());
}

#[test]
fn random_events_are_well_formed() {
    for seed in 100..104 {
        println!("seed {seed}");
        let events = nonsense(seed, 1_500);
        let last = events.last().unwrap().at;
        check_events("nonsense", &events, last);
    }
}

/// Long enough for the state to be cleared several times.
#[test]
fn a_long_trace_can_be_read_from_its_middle() {
    let events = orderly(20_000).collect::<Vec<_>>();
    check_events("long", &events, 30_000_000);
}

#[test]
fn a_trace_without_its_end_is_well_formed() {
    let file = Scratch::new("endless.pftrace");
    write(&file.0, Format::Perfetto, &story(), end(40_000_000)).unwrap();
    let bytes = std::fs::read(&file.0).unwrap();
    // The last packet is the end alone, longer than this.
    let mut sink =
        pvlab::trace::sink::create(&file.0, Format::Perfetto, &streams::header()).unwrap();
    for event in &story() {
        sink.event(event).unwrap();
    }
    drop(sink);
    assert!(std::fs::read(&file.0).unwrap().len() < bytes.len());
    check(&file.0);
}

#[test]
fn a_real_trace_is_well_formed() {
    if let Some(file) = std::env::var_os("PVLAB_PERFETTO_TRACE") {
        check(Path::new(&file));
    }
}
