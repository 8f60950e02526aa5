//! The orderings in the source of the locks, each with a name that stays when lines move.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An ordering in the source that is not Relaxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The file, below `pvlock/src`.
    pub file: String,
    /// The function.
    pub function: String,
    /// What is called with it, and which of such calls in the function, from 1.
    pub call: String,
    /// Line and column of the call, from 1.
    pub at: (u32, u32),
    /// 0 if it is the call's first ordering, 1 if it is the second.
    pub which: u8,
    /// Acquire, Release, AcqRel or SeqCst; `Barrier` for the sides of an asymmetric one.
    pub ordering: String,
}

impl Ordered {
    /// Its name.
    pub fn name(&self) -> String {
        let Self {
            file,
            function,
            call,
            ordering,
            ..
        } = self;
        let which = if self.which == 0 { "" } else { ", on failure" };
        format!("{file} {function}() {call} {ordering}{which}")
    }
}

/// Files of `pvlock/src` whose orderings are no lock's: lists and traits, negative controls, words that only pass
/// on what they are told, the suite, and the platform's defaults.
const NO_LOCKS: [&str; 10] = [
    "atomic.rs",
    "busted",
    "conformance",
    "conformance.rs",
    "lock_api.rs",
    "platform.rs",
    "trace.rs",
    "traced.rs",
    "within.rs",
    "word",
];

/// All of them in the locks' source, in the order of the files' names.
///
/// # Errors
/// If the source cannot be read.
pub fn orderings(src: &Path) -> io::Result<Vec<Ordered>> {
    let mut files = vec![];
    collect(src, &mut files)?;
    files.sort();
    let mut all = vec![];
    for file in files {
        let name = file.strip_prefix(src).unwrap_or(&file);
        let first = name.iter().next().and_then(|part| part.to_str());
        let last = name.file_name().and_then(|part| part.to_str());
        if [first, last]
            .iter()
            .flatten()
            .any(|part| NO_LOCKS.contains(part))
        {
            continue;
        }
        let name = name.display().to_string();
        all.extend(in_file(&name, &fs::read_to_string(&file)?));
    }
    Ok(all)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// A call whose end has not been read yet.
struct Call {
    name: String,
    at: (u32, u32),
    /// Orderings read in it.
    orderings: u8,
}

/// The words of a line and the signs between them, with their columns, without comments and texts.
fn tokens(line: &str) -> Vec<(u32, &str)> {
    let line = line.split("//").next().unwrap_or("");
    let mut tokens = vec![];
    let mut rest = line;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() && first != '"' {
            tokens.push((column, &rest[..length]));
        }
        column += u32::try_from(length).unwrap_or(0);
        rest = &rest[length..];
    }
    tokens
}

fn in_file(file: &str, text: &str) -> Vec<Ordered> {
    let mut found: Vec<Ordered> = vec![];
    let mut function = String::new();
    let mut calls: Vec<Call> = vec![];
    // The path that is being read, and where it began.
    let mut path: Option<(String, (u32, u32))> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("use ") {
            continue;
        }
        let mut before = "";
        for (column, token) in tokens(line) {
            let at = (number, column);
            if before == "fn" {
                function = token.into();
            }
            match token {
                "(" => {
                    let (name, at) = path.take().unwrap_or_default();
                    calls.push(Call {
                        name,
                        at,
                        orderings: 0,
                    });
                }
                ")" => _ = calls.pop(),
                "::" | "<" | ">" | "_" => {}
                word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    path = match path.take() {
                        // `P::fence`, `fence::<..>`
                        Some((_, start)) if before == "::" => Some((word.into(), start)),
                        Some(kept) if before == "<" => Some(kept),
                        _ => Some((word.into(), at)),
                    };
                    let ordering = matches!(
                        word,
                        "Relaxed" | "Acquire" | "Release" | "AcqRel" | "SeqCst"
                    );
                    if let Some(call) = calls.last_mut().filter(|_| ordering) {
                        if word != "Relaxed" {
                            found.push(Ordered {
                                file: file.into(),
                                function: function.clone(),
                                call: call.name.clone(),
                                at: call.at,
                                which: call.orderings,
                                ordering: word.into(),
                            });
                        }
                        call.orderings += 1;
                    } else if matches!(word, "light_barrier" | "heavy_barrier") && before == "::" {
                        found.push(Ordered {
                            file: file.into(),
                            function: function.clone(),
                            call: word.into(),
                            at: path.as_ref().map_or(at, |(_, start)| *start),
                            which: 0,
                            ordering: "Barrier".into(),
                        });
                    }
                }
                _ => path = None,
            }
            before = token;
        }
    }
    number_calls(&mut found);
    found
}

/// Tells equal calls of one function apart.
fn number_calls(found: &mut [Ordered]) {
    for i in 0..found.len() {
        let same = |other: &&Ordered| {
            other.function == found[i].function
                && other.call.split('#').next() == Some(&found[i].call)
                && other.at != found[i].at
        };
        let mut places: Vec<_> = found[..i]
            .iter()
            .filter(same)
            .map(|other| other.at)
            .collect();
        places.dedup();
        let number = places.len() + 1;
        let call = format!("{}#{number}", found[i].call);
        found[i].call = call;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orderings_are_read_with_what_they_are_given_to() {
        let text = "\
use core::sync::atomic::Ordering::{Acquire, Release};
fn first(&self) {
    // Acquire in a comment
    self.word.load(Relaxed);
    self
        .word
        .compare_exchange(f(a), \"Acquire\", AcqRel, Acquire);
    P::fence(SeqCst);
}
fn second(&self) {
    let x = P::spin_until(&self.word, Acquire, |word| word & 1 != 0);
    self.a.store(1, Release);
    self.b.store(1, Release);
    next.node::<P>().locked.store(1, Release);
    P::light_barrier();
}
";
        let found = in_file("a.rs", text);
        let names: Vec<String> = found.iter().map(Ordered::name).collect();
        assert_eq!(
            names,
            [
                "a.rs first() compare_exchange#1 AcqRel",
                "a.rs first() compare_exchange#1 Acquire, on failure",
                "a.rs first() fence#1 SeqCst",
                "a.rs second() spin_until#1 Acquire",
                "a.rs second() store#1 Release",
                "a.rs second() store#2 Release",
                "a.rs second() store#3 Release",
                "a.rs second() light_barrier#1 Barrier",
            ]
        );
        let places: Vec<_> = found.iter().map(|point| point.at).collect();
        assert_eq!(places[..4], [(7, 10), (7, 10), (8, 5), (11, 13)]);
        assert_eq!(places[6], (14, 29));
    }
}
