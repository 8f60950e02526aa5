//! `pvlab reproduce`: the tables of some mails about kernel locks, published beside simulated.

mod claims;
mod closeness;
mod notes;
mod plan;
mod published;
pub(crate) mod report;
mod result;
mod tables;
mod trial;

use crate::ending;
use crate::options::error::CliError;
use crate::options::exit::{DONE, interrupted, watch};
use crate::options::machine::{JobsArgs, jobs};
use crate::options::numbers::rounds;
use crate::options::output::{ReportArgs, Target};
use crate::options::pool::in_order;
use crate::options::progress::Progress;
use crate::report::Report as _;
use crate::scenario::Simulated;
use crate::session::RunError;
use clap::Args;
use published::Publication;
use report::Reproduction;
use result::TableResult;
use std::ops::ControlFlow;
use std::path::PathBuf;
use tables::{TableName, UnknownTable};
use trial::{Found, Trial};

/// What follows the help: examples, and what the tables are.
pub(crate) fn after_help() -> String {
    let mut text = "\
Examples:
  pvlab reproduce                                  all tables, in a few minutes
  pvlab reproduce 000 004 --seeds 5
  pvlab reproduce --format markdown -o docs/reproduction.md

Tables:"
        .to_owned();
    for table in TableName::ALL {
        text += &format!("\n  {:<14} {}", table.name(), table.about());
    }
    text
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The tables [default: all].
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
    /// Runs of each figure, each with a seed of its own; tables show medians.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    seeds: usize,
    /// Take the published figures from the files TABLE.csv in this folder instead of those that are built in.
    #[arg(long, value_name = "FOLDER")]
    published: Option<PathBuf>,
    /// Change a parameter of the simulated machine of each table, such as loop_ns=20; repeat it to change several.
    #[arg(long, value_name = "PARAMETER=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// The published figures of each table that was asked for.
fn publications(args: &ReproduceArgs) -> Result<Vec<Publication>, CliError> {
    let given = args.tables.iter().map(|text| TableName::parse(text));
    let given = given.collect::<Result<Vec<_>, UnknownTable>>()?;
    let wanted = TableName::ALL
        .into_iter()
        .filter(|table| given.is_empty() || given.contains(table));
    let folder = args.published.as_deref();
    let all = wanted.map(|table| Publication::of(table, folder));
    Ok(all.collect::<Result<_, _>>()?)
}

/// How the runs ended.
enum End {
    Complete,
    Interrupted,
    Failed(RunError),
}

/// Runs what the tables need, and reports those that are complete.
pub(crate) fn run(args: &ReproduceArgs) -> Result<u8, CliError> {
    let published = publications(args)?;
    let jobs = jobs(args.jobs, Simulated::KIND)?;
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    ending::heed();
    let runs = runs(&published, args)?;
    let (results, end) = run_all(&published, args.seeds, jobs, &runs);
    let (done, all) = (results.len(), published.len());
    if done > 0 {
        let report = Reproduction::new(results);
        target.write(&report.render(args.report.format))?;
    }
    match end {
        End::Complete => Ok(DONE),
        End::Interrupted if done == 0 => Ok(interrupted(
            "interrupted before the first table was complete; there is nothing to report",
        )),
        End::Interrupted => Ok(interrupted(&format!(
            "interrupted after {done} of {all} tables; the report is of these"
        ))),
        End::Failed(error) => Err(error.into()),
    }
}

/// A run: its table's place among those that are published, what it is, and the number of its seed.
type Run = (usize, Trial, usize);

/// All runs, table by table, so that those that come first are complete first.
fn runs(published: &[Publication], args: &ReproduceArgs) -> Result<Vec<Run>, CliError> {
    let mut runs = Vec::new();
    for (table, publication) in published.iter().enumerate() {
        for mut trial in plan::trials(publication) {
            if let Some(simulated) = &mut trial.scenario.simulated {
                simulated.set.extend(args.set.iter().cloned());
                // Whether there is such a machine, before anything runs.
                crate::machine::spec(simulated)?;
            }
            runs.extend((0..args.seeds).map(|seed| (table, trial.clone(), seed)));
        }
    }
    Ok(runs)
}

/// The complete tables, and how the runs ended.
fn run_all(
    published: &[Publication],
    seeds: usize,
    jobs: usize,
    runs: &[Run],
) -> (Vec<TableResult>, End) {
    let mut progress = Progress::new(runs.len(), None);
    let mut found: Vec<Vec<Found>> = published.iter().map(|_| Vec::new()).collect();
    let mut end = End::Complete;
    let run = |number: usize| {
        let (_, trial, seed) = &runs[number];
        trial.run(*seed)
    };
    in_order(runs.len(), jobs, run, |number, made| {
        let (table, trial, seed) = &runs[number];
        progress.begin(format!(
            "{} {}, seed {}",
            published[*table].table,
            trial.name,
            seed + 1
        ));
        end = match made().unwrap_or_else(|| run(number)) {
            Ok(Some(figures)) => {
                found[*table].push(figures);
                progress.end();
                return ControlFlow::Continue(());
            }
            Ok(None) => End::Interrupted,
            Err(error) => End::Failed(error),
        };
        ControlFlow::Break(())
    });
    let made = |table: usize| runs.iter().filter(|(of, ..)| *of == table).count();
    let complete = (0..published.len()).take_while(|&table| found[table].len() == made(table));
    let complete: Vec<usize> = complete.collect();
    let results = complete.into_iter().map(|table| {
        let figures = std::mem::take(&mut found[table]);
        TableResult::new(&published[table], seeds, figures)
    });
    (results.collect(), end)
}
