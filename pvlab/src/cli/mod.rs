//! The command line: what users type, and what the exit code tells them.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it could not be done, or was interrupted |
//! | 2 | it was asked for wrongly |
//! | 3 | a lock broke mutual exclusion, or failed under torture |
//! | 130, 143 | ended at once by SIGINT, by SIGTERM (the second one, or with nothing to report) |
//!
//! A reader of standard output that has had enough, such as `head`, ends a command in silence, with code 0.

mod args;
mod bench;
mod calibrate;
mod cells;
mod compare;
mod effect;
mod error;
mod explain;
mod live;
mod locks;
mod machines;
mod mix;
mod offer;
mod output;
mod progress;
mod request;
mod run;
mod schedule;
mod sweep;
mod terminal;
mod torture;
mod trace;
mod validate;
mod values;

pub use args::Cli;
pub use error::{CliError, Usage};
pub use schedule::ScheduleError;
pub use trace::TraceLost;

use crate::{doctor, ending};
use args::Command;
use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;

/// Everything went as asked.
const DONE: u8 = 0;
/// The run failed or was interrupted.
const FAILED: u8 = 1;
/// The command line was wrong.
const USAGE: u8 = 2;
/// A lock broke mutual exclusion, or failed under torture.
const BROKEN: u8 = 3;

/// Parses the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    vmm::limits::raise();
    // A file that may not become larger is an error of its writer, and not the end of everything.
    vmm::thread::let_large_files_fail();
    let code = match Cli::try_parse() {
        Ok(cli) => start_tracing()
            .and_then(|()| ending::install().map_err(CliError::Signals))
            .and_then(|()| dispatch(cli))
            .unwrap_or_else(|error| match error.exit_code() {
                FAILED if ending::has_reader_left() => DONE,
                code => {
                    complain(&format!("error: {error}"));
                    code
                }
            }),
        Err(error) => explain::explain(&error),
    };
    ExitCode::from(code)
}

fn dispatch(cli: Cli) -> Result<u8, CliError> {
    match cli.command {
        Command::Bench(args) => bench::bench(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Run(args) => run::run(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Torture(args) => torture::torture(&args),
        Command::Replay(args) => schedule::replay(&args),
        Command::Sim(args) => sweep::run(&args),
        Command::Machines(args) => machines::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Doctor(args) => {
            let target = output::Target::check(args.output.as_deref())?;
            watch(&target);
            target.write(&doctor::run(args.format.into())?)?;
            Ok(DONE)
        }
        Command::Locks(args) => {
            output::Target::print(&locks::locks(args.format.into()))?;
            Ok(DONE)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pvlab", &mut script);
            output::Target::print(&String::from_utf8_lossy(&script))?;
            Ok(DONE)
        }
    }
}

/// Diagnostics go to standard error, as the environment variable RUST_LOG says; without it there
/// are none.
fn start_tracing() -> Result<(), CliError> {
    let Ok(directives) = std::env::var(tracing_subscriber::EnvFilter::DEFAULT_ENV) else {
        return Ok(());
    };
    let filter =
        tracing_subscriber::EnvFilter::try_new(&directives).map_err(|why| Usage::LogFilter {
            directives,
            why: why.to_string(),
        })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal::may_colour())
        .init();
    Ok(())
}

/// Where the report goes is known: a report on standard output is of use as long as somebody reads it.
fn watch(target: &output::Target) {
    if target.is_stdout() {
        ending::watch_reader();
    }
}

/// Tells the user that the command was interrupted, unless it was by nobody reading its output, which is no
/// failure; returns the exit code.
fn interrupted(line: &str) -> u8 {
    if ending::has_reader_left() {
        return DONE;
    }
    complain(line);
    FAILED
}

/// Tells the user, who may have closed standard error.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
