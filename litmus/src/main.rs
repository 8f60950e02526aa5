//! `litmus`: makes the locks worse, one ordering or mistake at a time, and tells what finds it.
//!
//! ```text
//! cargo run -p litmus orderings [WORD]     each ordering weakened, under the models of this crate
//! cargo run -p litmus mistakes [WORD]      each of mistakes.txt, under those and the tests of pvlock
//! ```
//!
//! WORD: only those whose name has it. The product has none of this: orderings are weakened by the models'
//! platform, and mistakes are made in a copy below `target`.

use litmus::mistakes::{self, Copy, Tests};
use litmus::mutants::{Fate, of, passing, try_to_kill};
use litmus::source::orderings;
use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["orderings"] => weaken(""),
        ["orderings", word] => weaken(word),
        ["mistakes"] => make_mistakes(""),
        ["mistakes", word] => make_mistakes(word),
        _ => {
            eprintln!("litmus: usage: litmus orderings|mistakes [WORD]");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("litmus: {error}");
            ExitCode::from(1)
        }
    }
}

fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

fn weaken(word: &str) -> io::Result<()> {
    let orderings = orderings(&root().join("pvlock/src"))?;
    let models = passing(|case, states| {
        eprintln!("{}, {}: {states} states", case.kind, case.name);
    });
    let (mut killed, mut left) = (0, 0);
    for mutant in of(&orderings) {
        let name = mutant.name();
        if !name.contains(word) {
            continue;
        }
        let fate = match try_to_kill(&mutant, &models) {
            Fate::Killed { by, how } => {
                killed += 1;
                format!("killed | {by}: {how}")
            }
            Fate::Survived(models) => {
                left += 1;
                format!("survived | {models} models pass it")
            }
            Fate::NotPassed => {
                left += 1;
                "survived | no model passes it".into()
            }
        };
        println!("| {name} | {fate} |");
    }
    println!("{killed} killed, {left} left");
    Ok(())
}

fn make_mistakes(word: &str) -> io::Result<()> {
    let copy = Copy::new(root(), root().join("target/mistakes"))?;
    let wanted = mistakes::all().into_iter();
    let mut left: Vec<_> = wanted
        .filter(|mistake| mistake.name.contains(word))
        .collect();
    let all = left.len();
    // The quick ones first.
    for by in [Tests::Models, Tests::Others] {
        for mistake in std::mem::take(&mut left) {
            match copy.try_out(&mistake, by)? {
                Some(by) => println!("| {} | {} | killed | {by} |", mistake.file, mistake.name),
                None => left.push(mistake),
            }
        }
    }
    for mistake in &left {
        println!("| {} | {} | survived | |", mistake.file, mistake.name);
    }
    println!("{} killed, {} left", all - left.len(), left.len());
    Ok(())
}
