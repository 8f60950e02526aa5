//! `litmus`: weakens each ordering in the source of the locks, one at a time, and tells which model finds it.
//!
//! ```text
//! cargo run -p litmus [WORD]     only those whose name has that word in it
//! ```

use litmus::mutants::{Fate, of, passing, try_to_kill};
use litmus::source::orderings;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (word, more) = (arguments.next(), arguments.next());
    if more.is_some() || word.as_ref().is_some_and(|word| word.starts_with('-')) {
        eprintln!("litmus: usage: litmus [WORD]");
        return ExitCode::from(2);
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pvlock/src");
    let orderings = match orderings(&src) {
        Ok(orderings) => orderings,
        Err(error) => {
            eprintln!("litmus: {}: {error}", src.display());
            return ExitCode::from(1);
        }
    };
    let models = passing(|case, states| {
        eprintln!("{}, {}: {states} states", case.kind, case.name);
    });
    let wanted = |name: &str| {
        word.as_ref()
            .is_none_or(|word| name.contains(word.as_str()))
    };
    let (mut killed, mut left) = (0, 0);
    for mutant in of(&orderings) {
        let name = mutant.name();
        if !wanted(&name) {
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
    ExitCode::SUCCESS
}
