//! `pvlab locks`.

use crate::options::short_format;
use crate::report::{Block, Columns, Format, render, to_json};
use clap::Args;
use peers::Kind;
use serde::Serialize;

#[derive(Serialize)]
struct List<L> {
    schema: &'static str,
    locks: Vec<L>,
}

pub(crate) fn locks(format: Format) -> String {
    let locks: Vec<_> = Kind::all().collect();
    if format == Format::Json {
        return to_json(&List {
            schema: "pvlab.locks/1",
            locks: columns().objects(&locks),
        });
    }
    let table = columns().table("", locks);
    render(&[Block::Table(table)], format)
}

fn columns<'a>() -> Columns<'a, Kind> {
    type Flag = fn(&Kind) -> bool;
    let flags: [(&str, Flag); 6] = [
        ("fair", |lock| lock.traits().fair),
        ("halts", |lock| lock.traits().halts),
        ("queues", |lock| lock.traits().queues),
        ("yields", |lock| lock.traits().yields),
        ("readers", |lock| lock.is_rw()),
        ("sleeps", |lock| lock.traits().sleeps),
    ];
    let flag = |columns: Columns<'a, Kind>, (name, is): (&'static str, Flag)| {
        let yes = move |lock: &Kind| if is(lock) { "yes" } else { "-" }.to_owned();
        columns.value(name, is).cell(name, yes).left()
    };
    let columns = Columns::new()
        .text("name", "lock", |lock: &Kind| lock.name().to_owned())
        .value("summary", |lock| lock.summary());
    let columns = flags.into_iter().fold(columns, flag);
    let columns = columns.value("downgrade_and_kill", |lock| lock.is_sem());
    let columns = flag(columns, ("control", |lock| lock.traits().control));
    flag(columns, ("peer", |lock| lock.peer().is_some()))
        .cell("what it is", |lock| match lock.peer() {
            Some(peer) if !peer.is_built_in() => format!("{}; not built in", lock.summary()),
            _ => lock.summary().to_owned(),
        })
        .left()
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
