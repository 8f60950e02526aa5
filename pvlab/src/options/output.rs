//! How and where to report; writing is in [`crate::publish`].

use super::numbers::named;
use crate::report::Format;
use clap::builder::TypedValueParser;
use clap::{Arg, Args};
use std::path::PathBuf;

pub(crate) use crate::publish::{OutputError, Target};

/// How and where to report.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Format of the report.
    #[arg(long, default_value = "table", value_parser = format())]
    pub(crate) format: Format,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const FORMATS: &[(&str, Format)] = &[
    ("table", Format::Table),
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("markdown", Format::Markdown),
];

pub(crate) fn format() -> impl TypedValueParser<Value = Format> {
    named(FORMATS)
}

/// The formats of reports that are no series of figures.
pub(crate) fn short_format() -> impl TypedValueParser<Value = Format> {
    named(&FORMATS[..2])
}

/// Gives a command's report those formats alone.
pub(crate) fn in_short(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "format" => arg.value_parser(short_format()),
        _ => arg,
    }
}
