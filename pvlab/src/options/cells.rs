//! Runs of a command that are independent of each other: one after another on a real machine, side by side
//! on simulated ones.

use super::common::Common;
use super::error::CliError;
use super::exit::watch;
use super::machine::{JobsArgs, jobs};
use super::output::{ReportArgs, Target};
use super::progress::{Progress, Watcher};
use crate::record::Record;
use crate::scenario::{MachineKind, Scenario};
use crate::session::{self, Observer, RunError};
use clap::Args;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::Builder;
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
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    let work = |sender: mpsc::Sender<_>| {
        while !over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(number) else {
                return;
            };
            // Nobody listens any more if it is over.
            let _ = sender.send((number, run(cell, &mut Silent)));
        }
    };
    std::thread::scope(|scope| {
        let jobs = jobs.min(cells.len());
        let mut started = 0;
        for _ in (0..jobs).filter(|_| jobs > 1) {
            let (sender, work) = (sender.clone(), &work);
            let thread = Builder::new().spawn_scoped(scope, move || work(sender));
            started += usize::from(thread.is_ok());
        }
        drop(sender);
        let mut early = BTreeMap::new();
        for (number, cell) in cells.iter().enumerate() {
            progress.begin(cell.name.clone());
            let result = if started == 0 {
                run(cell, &mut Watcher::new(progress))
            } else {
                // The threads send until all cells are done.
                loop {
                    if let Some(result) = early.remove(&number) {
                        break result;
                    }
                    early.extend(results.recv());
                }
            };
            if each(number, result).is_break() {
                over.store(true, Ordering::Relaxed);
                return;
            }
            progress.end();
        }
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
