//! The corpora, and a few inputs made from each, as plain tests.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use fuzz_targets::{Mutator, TARGETS};
use std::fs;
use std::path::Path;

/// Inputs made from each corpus: a taste; `mutate` makes as many as wanted.
const MADE: usize = 300;

#[test]
fn every_target_takes_its_corpus_and_what_is_made_from_it() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    for target in TARGETS {
        let mut seeds = Vec::new();
        for file in fs::read_dir(corpora.join(target.name)).unwrap() {
            seeds.push(fs::read(file.unwrap().path()).unwrap());
        }
        assert!(!seeds.is_empty(), "{} has no corpus", target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        let mut mutator = Mutator::new(seeds, 7);
        for _ in 0..MADE {
            let input = mutator.input();
            let outcome = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(outcome.is_ok(), "{}: {input:02x?}", target.name);
        }
    }
}

/// What cargo-fuzz finds is what is tested here.
#[test]
fn every_target_is_one_of_cargo_fuzz() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(home.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let file = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&file), "{file} is not in fuzz/Cargo.toml");
        let text = fs::read_to_string(home.join(&file)).unwrap();
        assert!(text.contains(&format!("run(\"{}\"", target.name)), "{text}");
    }
    let targets = fs::read_dir(home.join("fuzz_targets")).unwrap().count();
    assert_eq!(targets, TARGETS.len());
}
