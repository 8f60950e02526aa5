//! `pvlab reproduce`: published figures beside simulated ones.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{begin, done, end_within, ended_in_a_line, json, pvlab, send, stdout};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

/// The document that the command writes, `pvlab reproduce --format markdown`.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reproduction.md");

#[test]
fn the_same_seeds_have_the_same_figures_whatever_the_number_of_jobs() {
    let run = |jobs| {
        done(&format!(
            "reproduce 000 --seeds 1 --jobs {jobs} --format json"
        ))
    };
    let first = run(1);
    assert_eq!(first, run(2));
    let report = json(&first);
    let table = &report["tables"][0];
    let cells = table["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 42);
    for cell in cells {
        assert!(
            cell["simulated"]["median"].as_f64().unwrap() > 0.0,
            "{cell}"
        );
    }
    assert_eq!(table["all"]["cells"], 42);
    let claims = report["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 5);
}

/// The part of a document that is about that table.
fn section<'a>(text: &'a str, table: &str) -> &'a str {
    let begin = text.find(&format!("\n## {table}: ")).unwrap();
    let rest = &text[begin + 1..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

#[test]
fn the_document_is_what_the_command_writes() {
    let text = done("reproduce 004 --format markdown");
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let inputs = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.contains("checksum of the inputs"));
        line.unwrap().to_owned()
    };
    let how = "run 'pvlab reproduce --format markdown -o docs/reproduction.md'";
    assert_eq!(inputs(&text), inputs(&document), "{how}");
    assert_eq!(section(&text, "004"), section(&document, "004"), "{how}");
    for table in [
        "000",
        "001",
        "003-perf",
        "003-unixbench",
        "004-aim7",
        "extra",
    ] {
        assert!(section(&document, table).contains("held out"), "{table}");
    }
}

#[test]
fn what_is_wrong_is_told_in_a_line() {
    let refused = |line: &str, parts: &[&str]| {
        let output = pvlab(line);
        ended_in_a_line(&output, 2, line, parts);
        assert!(stdout(&output).is_empty(), "{line}");
    };
    refused(
        "reproduce 003-unixbnch",
        &["003-unixbnch", "did you mean '003-unixbench'?"],
    );
    refused("reproduce 000 --set kik_ns=1", &["kik_ns", "kick_ns"]);
    let folder = tempfile::tempdir().unwrap();
    let line = format!("reproduce 004 --published {}", folder.path().display());
    refused(&line, &["004.csv", "cannot read"]);
    let file = folder.path().join("004.csv");
    fs::write(
        &file,
        "# author: A\nblock,row,column,unit,value,use\na,b,1,ms,much,held-out\n",
    )
    .unwrap();
    refused(&line, &["004.csv, line 3, column 10: 'much' is no number"]);
}

#[test]
fn figures_of_ones_own_are_compared_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let text = "block,row,column,unit,value,use\nbefore,1,wlock,kops/s,20000,held-out\n";
    fs::write(folder.path().join("000.csv"), text).unwrap();
    let line = format!(
        "reproduce 000 --seeds 1 --format csv --published {}",
        folder.path().display()
    );
    let csv = done(&line);
    assert_eq!(csv.lines().count(), 2);
    let row: Vec<_> = csv.lines().nth(1).unwrap().split(',').collect();
    let (simulated, ratio): (f64, f64) = (row[7].parse().unwrap(), row[8].parse().unwrap());
    assert!((simulated / 20_000.0 - ratio).abs() < 1e-9);
}

#[test]
fn an_interrupted_command_says_what_it_has() {
    let child = begin("reproduce 000 001 --seeds 1000");
    // Until it has a handler of signals.
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1)
            != 0
    };
    while !catches() {
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, Signal::INT);
    let (code, _, errors) = end_within(child, Duration::from_secs(120));
    // Before there is anything to report it ends at once.
    let at_once = code == Some(130) && errors.is_empty();
    assert!(
        at_once || (code == Some(1) && errors.contains("interrupted")),
        "{code:?} {errors}"
    );
}
