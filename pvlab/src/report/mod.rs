//! Reports: tables for people, JSON and CSV for programs, Markdown for the web.
//!
//! Tables round; JSON and CSV do not. The JSON is described in `docs/json.md`.

pub mod account;
pub(crate) mod column;
pub mod doc;
pub(crate) mod headline;
pub(crate) mod lock;
pub(crate) mod mix;

pub(crate) use column::Columns;
pub(crate) use doc::{Block, Table, render};
pub use headline::headline;
pub(crate) use headline::{achieved, starts, workload};

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

/// A report: as it is serialised, for programs.
pub(crate) trait Report: Serialize {
    /// Its flat part, a row for each lock or vCPU.
    fn csv(&self) -> String;

    /// For people.
    fn blocks(&self, format: Format) -> Vec<Block>;

    fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_json(self),
            Format::Csv => self.csv(),
            Format::Table | Format::Markdown => render(&self.blocks(format), format),
        }
    }
}

/// Indented JSON with a newline at its end.
pub fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    match serde_json::to_string_pretty(value) {
        Ok(json) => json + "\n",
        // Our reports have string keys alone, so this cannot come; if it did, a program that
        // reads the report would still get JSON.
        Err(error) => format!("{{\"error\": {:?}}}\n", error.to_string()),
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use serde_json::Value;

    /// Keys of the JSON that the documentation lacks; below those in `counted` are names of things that are
    /// counted.
    pub(crate) fn undocumented(json: &Value, documentation: &str, counted: &[&str]) -> Vec<String> {
        let below = |json| undocumented(json, documentation, counted);
        match json {
            Value::Object(fields) => (fields.iter())
                .flat_map(|(key, value)| {
                    let known = documentation.contains(&format!("`{key}`"));
                    let counts = counted.contains(&key.as_str());
                    let mut lacking = if counts { Vec::new() } else { below(value) };
                    lacking.extend((!known).then(|| key.clone()));
                    lacking
                })
                .collect(),
            Value::Array(items) => items.iter().flat_map(below).collect(),
            _ => Vec::new(),
        }
    }
}
