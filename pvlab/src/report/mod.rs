//! Reports: tables for people, JSON and CSV for programs, Markdown for the web.
//!
//! Tables round; JSON and CSV do not. The JSON is described in `docs/json.md`.

pub mod account;
pub(crate) mod column;
pub mod doc;
pub(crate) mod headline;
pub(crate) mod lock;
pub(crate) mod mix;

pub use headline::headline;

use crate::host::Host;
use crate::record::Context;
use crate::scenario::Scenario;
use serde::Serialize;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables of plain text.
    Table,
    /// JSON with a versioned schema.
    Json,
    /// Comma-separated values, one row for each lock or vCPU.
    Csv,
    /// Tables in Markdown.
    Markdown,
}

impl Context {
    /// The same as every report for programs says it.
    pub(crate) fn machine(&self, scenario: &Scenario) -> Machine<'_> {
        Machine {
            machine: scenario.machine_name(),
            simulated: scenario.machine.is_simulated(),
            machine_reason: &self.machine_reason,
            host: self.host.as_ref(),
        }
    }
}

/// Where it was run, in a report for programs.
#[derive(Serialize)]
pub(crate) struct Machine<'a> {
    machine: String,
    simulated: bool,
    machine_reason: &'a str,
    host: Option<&'a Host>,
}

/// Indented JSON with a newline at its end.
pub fn to_json(value: &impl Serialize) -> String {
    match serde_json::to_string_pretty(value) {
        Ok(json) => json + "\n",
        // Our reports have string keys alone, so this cannot come; if it did, a program that
        // reads the report would still get JSON.
        Err(error) => format!("{{\"error\": {:?}}}\n", error.to_string()),
    }
}
