//! Fuzz targets: each is a function that takes any bytes and must return. What is wrong with the bytes is an error
//! that it handles; a panic, a hang or ever more memory is a mistake of pvlab's.
//!
//! The same functions are run by libFuzzer (`fuzz/fuzz_targets`), by the driver of this crate, which needs nothing
//! but stable Rust (`cargo run --release -p fuzz-targets --bin mutate`), and over the corpora in `fuzz/corpus` as a
//! plain test.

mod contract;
mod files;
mod image;
mod mutate;
mod region;

pub use mutate::Mutator;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 9] = [
    Target {
        name: "image",
        run: image::image,
    },
    Target {
        name: "records",
        run: contract::records,
    },
    Target {
        name: "doorbells",
        run: contract::doorbells,
    },
    Target {
        name: "region",
        run: region::region,
    },
    Target {
        name: "merge",
        run: contract::merge,
    },
    Target {
        name: "trace",
        run: files::trace,
    },
    Target {
        name: "scenario",
        run: files::scenario,
    },
    Target {
        name: "preset",
        run: files::preset,
    },
    Target {
        name: "command_line",
        run: files::command_line,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Runs the target of that name, which there is, for libFuzzer.
///
/// # Panics
/// If there is none, or the target does.
pub fn run(name: &str, input: &[u8]) {
    let Some(target) = target(name) else {
        panic!("there is no target '{name}'");
    };
    (target.run)(input);
}

/// The bytes as little-endian words; what is left over is left out.
fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks().0.iter();
    words.map(|&word| u64::from_le_bytes(word)).collect()
}
