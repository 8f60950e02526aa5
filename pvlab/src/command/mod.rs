//! The command line: what users type, and what the exit code tells them.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it could not be done, or was interrupted |
//! | 2 | it was asked for wrongly |
//! | 3 | a lock broke mutual exclusion, or failed under torture |
//! | 4 | something is slower than `diff --fail-if-slower` allows |
//! | 130, 143 | ended at once by SIGINT, by SIGTERM (the second one, or with nothing to report) |
//!
//! A reader of standard output that has had enough, such as `head`, ends a command in silence, with code 0.

mod advise;
mod bench;
mod calibrate;
mod compare;
mod diff;
mod doctor;
mod explain;
#[cfg(test)]
mod hostile_tests;
mod locks;
mod machines;
mod replay;
mod reproduce;
mod run;
mod sweep;
#[cfg(test)]
mod tests;
mod torture;
pub(crate) mod trace;
mod validate;

use crate::ending;
use crate::options::{CliError, DONE, Ends, FAILED, complain, in_short, usage, watch};
use crate::options::{output, terminal};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  pvlab compare                      four locks, 4 vCPUs per CPU, under a minute
  pvlab run --lock ticket --vcpus 8  one guest, in detail
  pvlab doctor                       what this host can do

Exit codes: 0 done, 1 failed or interrupted, 2 wrong usage, 3 a lock broke mutual exclusion or failed
under torture, 4 slower than diff --fail-if-slower allows.
Environment: RUST_LOG=vmm=debug shows what the virtual machine monitor does, on standard error.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pvlab completions bash > ~/.local/share/bash-completion/completions/pvlab
  pvlab completions zsh > ~/.zfunc/_pvlab";

/// A paravirtual lock laboratory: locks compared in overcommitted KVM guests.
#[derive(Debug, Parser)]
#[command(name = "pvlab", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare locks, each in a guest of its own, in interleaved rounds.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Compare two saved reports of `compare`, lock by lock: did anything change?
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Measure this host, and say whether guests should have paravirtual locks.
    #[command(after_help = advise::EXAMPLES)]
    Advise(Box<advise::AdviseArgs>),
    /// Run a microbenchmark, and show its figures as kernel developers post them.
    #[command(after_help = bench::after_help())]
    Bench(Box<bench::BenchArgs>),
    /// Run one or more guests at the same time and show every vCPU.
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Trace every halt, kick and preemption, and account for every nanosecond of waiting.
    #[command(after_help = trace::EXAMPLES, mut_args = trace::not_with_summary)]
    Trace(Box<trace::TraceArgs>),
    /// Torture a lock as locktorture does, and say whether it stood it.
    #[command(after_help = torture::EXAMPLES, mut_args = in_short)]
    Torture(Box<torture::TortureArgs>),
    /// Tell what this host is, what halts and kicks cost on it, and what will not work.
    #[command(after_help = doctor::EXAMPLES, mut_args = in_short)]
    Doctor(output::ReportArgs),
    /// Run again exactly what a schedule file says.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Reproduce the tables of some mails about kernel locks: published beside simulated, and what was claimed.
    #[command(after_help = reproduce::after_help())]
    Reproduce(reproduce::ReproduceArgs),
    /// Show how much depends on a parameter of a simulated machine.
    #[command(after_help = sweep::EXAMPLES)]
    Sim(Box<sweep::SimArgs>),
    /// List the machines, or every parameter of a simulated one.
    #[command(after_help = machines::EXAMPLES)]
    Machines(machines::MachinesArgs),
    /// Measure this host, and write a preset of a simulated machine like it.
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Run the same on this host and on a simulated machine, and tell how far they are apart.
    #[command(after_help = validate::EXAMPLES)]
    Validate(Box<validate::ValidateArgs>),
    /// List the locks.
    #[command(after_help = locks::EXAMPLES)]
    Locks(locks::LocksArgs),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Parses the command line, does what it says, and returns the exit code.
pub fn main() -> ExitCode {
    host::limits::raise();
    // A file that may not become larger is an error of its writer, and not the end of everything.
    host::thread::let_large_files_fail();
    let code = match Cli::try_parse() {
        Ok(cli) => start_tracing()
            .and_then(|()| ending::install().map_err(|e| Signals(e).into()))
            .and_then(|()| dispatch(cli))
            .unwrap_or_else(|error| match error.exit_code {
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

#[derive(Debug, thiserror::Error)]
#[error("cannot install a handler of signals: {0}")]
struct Signals(#[source] std::io::Error);

impl Ends for Signals {}

#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG='{directives}': {why}; write for example RUST_LOG=vmm=debug")]
struct LogFilter {
    directives: String,
    why: String,
}

usage!(LogFilter);

fn dispatch(cli: Cli) -> Result<u8, CliError> {
    match cli.command {
        Command::Advise(args) => advise::advise(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Run(args) => run::run(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Torture(args) => torture::torture(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Sim(args) => sweep::run(&args),
        Command::Machines(args) => machines::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Doctor(args) => {
            let target = output::Target::check(args.output.as_deref())?;
            watch(&target);
            target.write(&doctor::run(args.format)?)?;
            Ok(DONE)
        }
        Command::Locks(args) => {
            output::Target::print(&locks::locks(args.format))?;
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
    let filter = tracing_subscriber::EnvFilter::try_new(&directives).map_err(|why| LogFilter {
        directives,
        why: why.to_string(),
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let lines = lines.with_writer(std::io::stderr);
    lines.with_ansi(terminal::may_colour()).init();
    Ok(())
}
