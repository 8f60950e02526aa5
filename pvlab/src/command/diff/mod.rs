//! `pvlab diff`.

mod report;
mod result;
mod saved;
#[cfg(test)]
mod tests;

use crate::options::{CliError, DONE, ReportArgs, SLOWER, Target, share, usage, watch};
use crate::report::Report;
use clap::Args;
use result::Difference;
use saved::Saved;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab compare --format json -o old.json              before the patch
  pvlab compare --format json -o new.json              after it
  pvlab diff old.json new.json
  pvlab diff old.json new.json --relative-to tas       if the host was not equally fast both times
  pvlab diff old.json new.json --fail-if-slower 5%     for CI: exit code 4

The interval is Welch's t on the logarithms of the rounds. It knows how much rounds of one run differ, not how
much the host has changed from one day to the next: a lock that nobody has touched, in both runs, shows that, and
--relative-to takes it out.";

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// What `pvlab compare --format json` has written before.
    old: PathBuf,
    /// What it has written since.
    new: PathBuf,
    /// Compare the ratios to this lock in the same round, which both reports must have, instead of the rates.
    #[arg(long, value_name = "LOCK")]
    relative_to: Option<String>,
    /// Least difference worth a verdict, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share)]
    min_effect: f64,
    /// End with exit code 4 if a lock has become slower by more than that, in percent, and the interval is all below 1.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    fail_if_slower: Option<f64>,
    #[command(flatten)]
    report: ReportArgs,
}

/// The reports have nothing in common that was asked for.
#[derive(Debug, thiserror::Error)]
enum DiffUsage {
    #[error("{file} has no lock '{lock}'; it has {has}")]
    NoSuchLock {
        file: String,
        lock: String,
        has: String,
    },
    #[error("the two reports have no lock in common: {old} in one, {new} in the other")]
    NothingInCommon { old: String, new: String },
}

usage!(DiffUsage);

/// Reports what has changed between two saved reports.
pub(crate) fn diff(args: &DiffArgs) -> Result<u8, CliError> {
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    let [old, new] = [Saved::read(&args.old)?, Saved::read(&args.new)?];
    let difference = Difference::of(&old, &new, args.relative_to.as_deref(), args.min_effect)?;
    target.write(&difference.render(args.report.format))?;
    Ok(match args.fail_if_slower {
        Some(most) if difference.is_slower_by(most) => SLOWER,
        _ => DONE,
    })
}
