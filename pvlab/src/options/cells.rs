//! Runs of a command that are independent of each other: one after another on a real machine, side by side
//! on simulated ones.

use super::common::Common;
use super::error::CliError;
use super::exit::watch;
use super::machine::{JobsArgs, jobs};
use super::output::{ReportArgs, Target};
use super::pool::in_order;
use super::progress::{Progress, Watcher};
use crate::record::Record;
use crate::scenario::{MachineKind, Scenario};
use crate::session::{self, Observer, RunError};
use clap::Args;
use std::ops::ControlFlow;
use std::time::Duration;

/// Options of every command that runs what the user likes many times.
#[derive(Debug, Args)]
pub(crate) struct CellArgs {
    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

impl CellArgs {
    /// How many runs may go on at the same time, and where the report of them goes, which is watched.
    pub(crate) fn start(&self, machine: MachineKind) -> Result<(usize, Target), CliError> {
        let jobs = jobs(self.jobs, machine)?;
        let target = Target::check(self.report.output.as_deref())?;
        watch(&target);
        Ok((jobs, target))
    }
}

pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
}

/// Runs the cells, at most `jobs` at the same time (or as many as there can be threads), and hands what came out to `each`, in the order of the
/// cells, until it breaks; cells that are being run by then are run to their end.
///
/// What `each` is given does not depend on `jobs`, if the machine is simulated.
pub(crate) fn run_all(
    cells: &[Cell],
    jobs: usize,
    progress: &mut Progress,
    mut each: impl FnMut(usize, Result<Record, RunError>) -> ControlFlow<()>,
) {
    let silent = |number: usize| run(&cells[number], &mut Silent);
    in_order(cells.len(), jobs, silent, |number, made| {
        let cell = &cells[number];
        progress.begin(cell.name.clone());
        let result = made().unwrap_or_else(|| run(cell, &mut Watcher::new(progress)));
        each(number, result)?;
        progress.end();
        ControlFlow::Continue(())
    });
}

/// [`run_all`], as far as runs are complete: their records, and whether all are.
///
/// # Errors
/// That of the first run that failed.
pub(crate) fn records(
    cells: &[Cell],
    jobs: usize,
    expected: Option<Duration>,
) -> Result<(Vec<Record>, bool), RunError> {
    let mut progress = Progress::new(cells.len(), expected);
    let mut records = Vec::new();
    let mut end = Ok(true);
    run_all(cells, jobs, &mut progress, |_, result| {
        end = match result {
            Ok(record) if !record.interrupted => {
                records.push(record);
                return ControlFlow::Continue(());
            }
            Ok(_) | Err(RunError::Interrupted) => Ok(false),
            Err(error) => Err(error),
        };
        ControlFlow::Break(())
    });
    Ok((records, end?))
}

fn run(cell: &Cell, observer: &mut dyn Observer) -> Result<Record, RunError> {
    session::run_undisturbed(&cell.scenario, observer)
}

/// Several runs at the same time have no phase to show.
struct Silent;

impl Observer for Silent {}
