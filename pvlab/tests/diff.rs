//! Two saved reports against each other, from the command line, as in a CI job.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{json, pvlab, stderr, stdout};
use serde_json::Value;
use std::path::Path;

const RUN: &str = "compare --machine sim:here --locks tas,pv-qspinlock --vcpus 4 --cpus 0-1 --rounds 4 \
                   --duration 20ms --warm-up 5ms --format json -o";

/// A report of a run, with those options added.
fn saved(folder: &Path, name: &str, options: &str) -> String {
    let file = folder.join(name).display().to_string();
    let output = pvlab(&format!("{RUN} {file} {options}"));
    assert!(output.status.success(), "{}", stderr(&output));
    file
}

#[test]
fn a_change_is_found_and_nothing_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let old = saved(folder.path(), "old.json", "");
    let again = saved(folder.path(), "again.json", "");
    let output = pvlab(&format!(
        "diff {old} {again} --fail-if-slower 5% --format json"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(stdout(&output));
    assert_eq!(report["schema"], "pvlab.diff/1");
    assert_eq!(report["conditions"], Value::Array(vec![]));
    for lock in report["locks"].as_array().unwrap() {
        assert_eq!(lock["ratio"], 1.0, "{lock}");
        assert_eq!(lock["verdict"], "no difference", "{lock}");
    }
    // A longer section: fewer acquisitions, whatever else.
    let slower = saved(folder.path(), "slower.json", "--critical 2us --outside 2us");
    for (rest, code) in [
        ("", 0),
        ("--fail-if-slower 5%", 4),
        ("--fail-if-slower 1000%", 0),
    ] {
        let output = pvlab(&format!("diff {old} {slower} {rest}"));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{rest}: {}",
            stderr(&output)
        );
        let text = stdout(&output);
        for part in [
            "not the same: scenario.run.workload.critical_ns, 130 and 2000",
            "slower",
            "--relative-to",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    for format in ["csv", "markdown"] {
        let output = pvlab(&format!(
            "diff {old} {slower} --relative-to tas --format {format}"
        ));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("pv-qspinlock"));
    }
}

#[test]
fn what_cannot_be_compared_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let old = saved(folder.path(), "old.json", "");
    let whole = std::fs::read_to_string(&old).unwrap();
    let cut = file("cut.json", &whole[..whole.len() / 3]);
    let newer = file(
        "newer.json",
        &whole.replace("pvlab.compare/1", "pvlab.compare/9"),
    );
    let table = file("table.txt", "Throughput of all vCPUs together");
    for (line, code, part) in [
        (format!("{old} {cut}"), 2, "column"),
        (format!("{newer} {old}"), 2, "versions up to 1"),
        (format!("{old} {table}"), 2, "no JSON"),
        (
            format!("{old} {old} --relative-to mcs"),
            2,
            "it has tas, pv-qspinlock",
        ),
        (format!("{old} /nowhere/new.json"), 1, "cannot read"),
        (format!("{old} {old} --fail-if-slower 5"), 2, "percentage"),
    ] {
        let output = pvlab(&format!("diff {line}"));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            stderr(&output)
        );
        let said = stderr(&output);
        assert!(
            said.contains(part) && said.trim().lines().count() == 1,
            "{line}: {said}"
        );
    }
}
