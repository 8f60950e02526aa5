//! docs/verification.md says what has been checked: here it is held to the list of locks, the models, the tests and
//! the source, so that none of them goes on without it.
//!
//! `LITMUS_WRITE=1 cargo test -p litmus --test verification` writes the table of models anew.

#![allow(clippy::unwrap_used)]

use litmus::cases::{Case, of};
use litmus::{mutants, source};
use pvlock::LockKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- models: written by litmus/tests/verification.rs -->\n";
const END: &str = "<!-- end of models -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/verification.md")).unwrap()
}

fn sound() -> impl Iterator<Item = LockKind> {
    let kinds = LockKind::ALL.iter().copied();
    kinds.filter(|kind| !kind.traits().control)
}

fn row(case: &Case) -> String {
    let bound = |bound: Option<u32>| bound.map_or("any".into(), |bound| bound.to_string());
    let far = if case.far == case.bound {
        String::new()
    } else {
        format!(", {}", bound(case.far))
    };
    let models: Vec<&str> = case.models.iter().map(|model| model.name()).collect();
    format!(
        "| `{}` | {} | {} | {}{far} | {} |\n",
        case.kind,
        case.name,
        case.cpus(),
        bound(case.bound),
        models.join("; ")
    )
}

#[test]
fn the_table_of_models_is_that_of_the_models() {
    let mut table = String::from(
        "| lock | model | CPUs | preemptions, with `LITMUS_FAR=1` | memory |\n|---|---|---|---|---|\n",
    );
    table.extend(sound().flat_map(of).map(|case| row(&case)));
    let text = document();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("LITMUS_WRITE").is_some_and(|value| value == "1") {
        let text = format!("{before}{BEGIN}{table}{END}{after}");
        fs::write(root().join("docs/verification.md"), text).unwrap();
    } else {
        assert_eq!(written, table, "LITMUS_WRITE=1 writes it anew");
    }
}

/// The lines of the table below that heading, as cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = document();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_string()).collect()
    };
    rows.skip(1).map(cells).collect()
}

/// Each lock has its row, and what the row names exists.
#[test]
fn every_lock_has_a_row_whose_tests_exist() {
    let rows = table("Locks, properties, tools");
    let names: BTreeSet<String> = rows.iter().map(|row| row[0].replace('`', "")).collect();
    for kind in sound() {
        assert!(names.contains(kind.name()), "{kind} has no row");
        assert!(
            of(kind).iter().any(|case| case.cpus() >= 3),
            "{kind}: fewer than three CPUs"
        );
    }
    assert!(
        names.iter().all(|name| LockKind::from_name(name).is_some()),
        "{names:?}"
    );
    let mut tests = 0;
    for row in &rows {
        for test in row[2].split(", ").map(|test| test.replace('`', "")) {
            let (file, function) = test.split_once("::").unwrap();
            let path = if file == "locks" {
                root().join("litmus/tests/locks.rs")
            } else {
                root().join(format!("pvlock/tests/{file}.rs"))
            };
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(&format!("#[test]\nfn {function}()")),
                "{test}"
            );
            tests += 1;
        }
    }
    assert!(tests > 60, "{tests}");
}

/// What is said to survive is a mutant of the source as it is, and says why.
#[test]
fn survivors_are_mutants_and_have_reasons() {
    let orderings = source::orderings(&root().join("pvlock/src")).unwrap();
    let mutants: BTreeSet<String> = mutants::of(&orderings).iter().map(|m| m.name()).collect();
    assert!(mutants.len() > 100, "{}", mutants.len());
    let rows = table("Orderings that survive");
    for row in &rows {
        let name = row[0].replace('`', "");
        assert!(mutants.contains(&name), "{name} is no mutant now");
        assert!(row[1].len() > 20, "{name} has no reason");
    }
}

#[test]
fn surviving_mistakes_are_on_the_list_and_have_reasons() {
    let all = litmus::mistakes::all();
    for row in table("Mistakes that survive") {
        assert!(
            all.iter().any(|mistake| mistake.name == row[0]),
            "{}",
            row[0]
        );
        assert!(row[1].len() > 20, "{} has no reason", row[0]);
    }
}
