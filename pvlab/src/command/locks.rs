//! `pvlab locks`.

use crate::options::output::short_format;
use crate::report::doc::{Block, Table, render};
use crate::report::{Format, to_json};
use clap::Args;
use pvlock::LockKind;
use serde::Serialize;

#[derive(Serialize)]
struct List {
    schema: &'static str,
    locks: Vec<Lock>,
}

#[derive(Serialize)]
struct Lock {
    name: &'static str,
    summary: &'static str,
    fair: bool,
    halts: bool,
    queues: bool,
    yields: bool,
    readers: bool,
    sleeps: bool,
    downgrade_and_kill: bool,
    control: bool,
}

/// The list of locks.
pub(crate) fn locks(format: Format) -> String {
    let locks: Vec<_> = LockKind::ALL
        .iter()
        .map(|lock| {
            let traits = lock.traits();
            Lock {
                name: lock.name(),
                summary: lock.summary(),
                fair: traits.fair,
                halts: traits.halts,
                queues: traits.queues,
                yields: traits.yields,
                readers: lock.is_rw(),
                sleeps: traits.sleeps,
                downgrade_and_kill: lock.is_sem(),
                control: traits.control,
            }
        })
        .collect();
    if format == Format::Json {
        return to_json(&List {
            schema: "pvlab.locks/1",
            locks,
        });
    }
    let mut table = Table::new(
        "",
        &[
            "lock",
            "fair",
            "halts",
            "queues",
            "yields",
            "readers",
            "sleeps",
            "control",
            "what it is",
        ],
    );
    table.left = (0..=8).collect();
    let yes = |yes: bool| if yes { "yes" } else { "-" }.to_owned();
    for lock in locks {
        table.row(vec![
            lock.name.to_owned(),
            yes(lock.fair),
            yes(lock.halts),
            yes(lock.queues),
            yes(lock.yields),
            yes(lock.readers),
            yes(lock.sleeps),
            yes(lock.control),
            lock.summary.to_owned(),
        ]);
    }
    render(&[Block::Table(table)], format)
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab locks
  pvlab locks --format json";

#[derive(Debug, Args)]
pub(crate) struct LocksArgs {
    /// Format of the list.
    #[arg(long, default_value = "table", value_parser = short_format())]
    pub(crate) format: Format,
}
