//! How the folders of `pvlab` may depend on each other: docs/architecture.md draws it, and this holds it.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders and files of `src`, each of which imports only what stands before it.
const ORDER: [&str; 14] = [
    "ending", "host", "human", "publish", "machine", "scenario", "trace", "record", "session",
    "figures", "report", "options", "command", "fuzzing",
];

/// What imports what, by the names below `of`, with a file for each.
type Imports = BTreeMap<(String, String), PathBuf>;

#[test]
fn folders_import_only_what_is_below_them() {
    let imports = imports(&src(), "crate::");
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    for ((from, to), file) in &imports {
        let (Some(above), Some(below)) = (place(from), place(to)) else {
            panic!(
                "{}: '{from}' or '{to}' has no place in the order",
                file.display()
            );
        };
        assert!(
            below < above,
            "{} imports {to}, which stands above {from}",
            file.display()
        );
    }
    assert!(
        imports.len() > 30,
        "the reader of imports finds nothing: {imports:?}"
    );
}

#[test]
fn rooms_of_commands_form_no_circle() {
    let imports = imports(&src().join("command"), "crate::command::");
    let mut left: BTreeSet<(String, String)> = imports.into_keys().collect();
    // Rooms from which nothing leads on are done, until there are none.
    loop {
        let leads_on: BTreeSet<_> = left.iter().map(|(from, _)| from.clone()).collect();
        let before = left.len();
        left.retain(|(_, to)| leads_on.contains(to));
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "circles among {left:?}");
}

#[test]
fn no_file_is_longer_than_450_lines() {
    let workspace = src().join("../..");
    let mut seen = 0;
    for package in [
        "pvlock", "abi", "guest", "host", "vmm", "sim", "pvlab", "benches", "fuzz", "litmus",
    ] {
        for file in files(&workspace.join(package)) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 450, "{} has {lines} lines", file.display());
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen} files");
}

#[test]
fn what_is_imported_is_read_from_lists_and_paths() {
    let found = |text: &str| names(text, "crate::").into_iter().collect::<Vec<_>>();
    assert_eq!(
        found("use crate::host::Host; x(crate::a::f)"),
        ["a", "host"]
    );
    assert_eq!(found("use crate::{\n  b, c::{D, E},\n};"), ["b", "c"]);
    assert_eq!(
        found("// crate::not\nuse other::x;\n#[cfg(test)]\nuse crate::z;"),
        [""; 0]
    );
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// What the files below `folder` import of each other by paths that begin with `prefix`, tests left out.
fn imports(folder: &Path, prefix: &str) -> Imports {
    let mut imports = Imports::new();
    let known: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| stem(&entry.unwrap().path()))
        .collect();
    for file in files(folder) {
        if file.to_str().unwrap().contains("tests")
            || file.ends_with("main.rs")
            || file.ends_with("lib.rs")
        {
            continue;
        }
        let from = stem(Path::new(
            file.strip_prefix(folder).unwrap().iter().next().unwrap(),
        ));
        let depth = file.strip_prefix(folder).unwrap().iter().count()
            - usize::from(file.ends_with("mod.rs"));
        let text = fs::read_to_string(&file).unwrap();
        let up = format!(" {}", "super::".repeat(depth));
        for to in names(&text, prefix).into_iter().chain(names(&text, &up)) {
            if to != from && known.contains(&to) {
                imports.insert((from.clone(), to), file.clone());
            }
        }
    }
    imports
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The names that follow `prefix` in the program's text.
fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    let program = text.split("#[cfg(test)]").next().unwrap();
    let program: String = program
        .lines()
        .map(|line| line.split("//").next().unwrap().to_owned() + "\n")
        .collect();
    let mut found = BTreeSet::new();
    for (at, _) in program.match_indices(prefix) {
        let rest = &program[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => found.extend(first_names(list)),
            None => found.extend(identifier(rest)),
        }
    }
    found
}

/// The first name of each item of a list in braces.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut begins, mut found) = (0, true, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                found.extend(identifier(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let name: String = text
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty() && name != "super").then_some(name)
}

/// The Rust files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}
