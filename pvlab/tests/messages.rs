//! Messages of errors, as they stand in the sources: those that no test provokes are read too.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The text of the string literal that `source` begins with, line continuations taken out.
fn literal(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source.strip_prefix('"').unwrap().chars().peekable();
    loop {
        match rest.next().unwrap() {
            '"' => return text,
            '\\' => match rest.next().unwrap() {
                '\n' => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
}

#[test]
fn no_error_has_two_blanks_in_a_row() {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut messages = 0;
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        for (place, attribute) in source.match_indices("#[error(") {
            let rest = source[place + attribute.len()..].trim_start();
            if rest.starts_with('"') {
                let text = literal(rest);
                let broken = text.contains("  ") || text.contains('\n');
                assert!(!broken, "{}: {text:?}", file.display());
                messages += 1;
            }
        }
    }
    assert!(messages > 100, "{messages} messages were found");
}
