//! Runs fuzz targets on inputs made from their corpora: `mutate [TARGET|all] [EXECUTIONS] [SEED]`.
//!
//! An input that makes a target panic is kept in `fuzz/artifacts`, and ends it with code 1.

use fuzz_targets::{Mutator, TARGETS, Target};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, io};

/// An input that takes longer is kept, as one that makes its target hang.
const LONGEST: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "all".to_owned());
    let executions = arguments.next().map_or(Some(10_000), |n| n.parse().ok());
    let seed = arguments.next().map_or(Some(1), |n| n.parse().ok());
    let targets: Vec<_> = TARGETS
        .into_iter()
        .filter(|target| name == "all" || name == target.name)
        .collect();
    let (Some(executions), Some(seed), [_, ..]) = (executions, seed, &*targets) else {
        eprintln!("usage: mutate [TARGET|all] [EXECUTIONS] [SEED]");
        return ExitCode::from(2);
    };
    for target in targets {
        if let Err(why) = fuzz(target, executions, seed) {
            eprintln!("{}: {why}", target.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn fuzz(target: Target, executions: u64, seed: u64) -> io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Vec::new();
    for file in fs::read_dir(home.join("corpus").join(target.name))? {
        seeds.push(file?.path());
    }
    // In an order of their own, so that a seed makes the same inputs everywhere.
    seeds.sort();
    let seeds: Vec<_> = seeds.iter().map(fs::read).collect::<Result<_, _>>()?;
    let mut mutator = Mutator::new(seeds, seed);
    let begun = Instant::now();
    for execution in 0..executions {
        let input = mutator.input();
        let before = Instant::now();
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        if outcome.is_err() {
            let path = keep(&home, target, &input)?;
            return Err(io::Error::other(format!(
                "execution {execution} of seed {seed} panicked; its input is {}",
                path.display()
            )));
        }
        if before.elapsed() > LONGEST {
            let path = keep(&home, target, &input)?;
            eprintln!(
                "{}: {:?} for {}",
                target.name,
                before.elapsed(),
                path.display()
            );
        }
    }
    println!(
        "{}: {executions} executions of seed {seed} in {:.0} s, no panic",
        target.name,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn keep(home: &Path, target: Target, input: &[u8]) -> io::Result<PathBuf> {
    let artifacts = home.join("artifacts").join(target.name);
    fs::create_dir_all(&artifacts)?;
    let path = artifacts.join(format!("panic-{}", std::process::id()));
    fs::write(&path, input)?;
    Ok(path)
}
