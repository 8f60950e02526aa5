//! The account of a trace that is there.

use super::{TraceArgs, accountant, check_sums, slow_paths};
use crate::options::{CliError, Target, complain};
use crate::report::{self, Format};
use crate::scenario::Scenario;
use crate::trace::read;
use serde::Deserialize;
use std::path::Path;

pub(crate) fn summarise(args: &TraceArgs, path: &Path) -> Result<u8, CliError> {
    let mut begun = None;
    let summary = read::read(path, |header, event| {
        begun.get_or_insert_with(|| accountant(header)).event(event);
    })?;
    let accountant = begun.unwrap_or_else(|| accountant(&summary.header));
    let account = accountant.finish(summary.end_ns);
    let format = args.account;
    let mut text = String::new();
    if format == Format::Table {
        let machine = &summary.header.machine;
        text += &format!("trace: {}, machine {machine}\n", path.display());
        // A scenario that this version does not understand is left out, not the account.
        let scenario = Scenario::deserialize(&summary.header.scenario);
        text += &scenario.map_or_else(|_| String::new(), |scenario| slow_paths(&scenario));
        for note in &summary.header.notes {
            text += &format!("warning: {note}\n");
        }
    }
    text += &report::account::account(&account, format);
    Target::print(&text)?;
    if let Some(warning) = summary.warning() {
        complain(&format!("warning: {warning}"));
    }
    check_sums(&account)
}
