//! What is read that somebody else may have written, for `fuzz/`: each of these takes anything, and returns.
//!
//! What comes of it is looked at as the commands do: an error is a line, and what is read can be reported.

use crate::command::trace::accountant;
use crate::command::{Cli, Command};
use crate::host::Host;
use crate::options::guests::Guests;
use crate::options::schedule;
use crate::report::Format;
use crate::scenario::{Length, Scenario};
use crate::trace::Collector;
use crate::trace::read::read_bytes;
use clap::Parser;
use std::sync::OnceLock;
use std::time::Duration;

/// Bytes that an error may have that quotes what it is about.
const LONGEST_ERROR: usize = 2000;

fn is_a_line(error: &dyn std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() < LONGEST_ERROR, "{text}");
}

/// A trace file, in any format; it is accounted for, as `pvlab trace --summary` does.
pub fn trace(bytes: &[u8]) {
    let mut begun = None;
    let summary = read_bytes(bytes, |header, event| {
        begun.get_or_insert_with(|| accountant(header)).event(event);
    });
    match summary {
        Ok(summary) => {
            let accountant = begun.unwrap_or_else(|| accountant(&summary.header));
            let account = accountant.finish(summary.end_ns);
            assert_eq!(account.sum_violations(), 0, "parts of waits add up to them");
            assert!(!crate::report::account::account(&account, Format::Json).is_empty());
        }
        Err(error) => is_a_line(&error),
    }
}

/// What guests, host and kernel have written of a run, as words: the trace of it.
pub fn merge(words: &[u64]) {
    let Ok(mut collector) = Collector::of_words(words) else {
        return;
    };
    let mut last = 0;
    let merged = collector.merge(|event| {
        assert!(event.at >= last, "events are sorted");
        last = event.at;
        Ok::<_, crate::trace::CollectError>(())
    });
    assert!(merged.is_ok(), "nothing but the spool can fail");
}

/// A file of `pvlab run --save-schedule`.
pub fn schedule(text: &str) {
    if let Err(error) = schedule::parse(text, "it") {
        is_a_line(&error);
    }
}

/// A scenario, as records have it.
pub fn scenario(text: &str) {
    let Ok(scenario) = serde_json::from_str::<Scenario>(text) else {
        return;
    };
    match scenario.check() {
        Ok(()) => {
            let json = serde_json::to_string(&scenario).unwrap_or_default();
            let again: Result<Scenario, _> = serde_json::from_str(&json);
            assert_eq!(again.ok().as_ref(), Some(&scenario), "{json}");
        }
        Err(error) => is_a_line(&error),
    }
}

/// A command line, its words separated by blanks, up to what it would run.
pub fn command_line(text: &str) {
    static HOST: OnceLock<Host> = OnceLock::new();
    let words = ["pvlab"].into_iter().chain(text.split_whitespace());
    let Ok(cli) = Cli::try_parse_from(words) else {
        return;
    };
    if let Command::Run(args) = cli.command {
        let host = HOST.get_or_init(Host::examine);
        let length = Length::Duration(Duration::from_secs(1));
        let request = Guests::of(&args.guests)
            .map_err(Into::into)
            .and_then(|guests| args.common.request(guests, length, host));
        match request {
            Ok(request) => {
                // What is asked for on the command line is a scenario within its limits.
                let checked = request.scenario.check();
                assert!(checked.is_ok(), "{text}: {checked:?}");
            }
            Err(error) => is_a_line(&error),
        }
    }
}
