//! Messages of the argument parser, each brought into one line.

use crate::options::exit::{DONE, USAGE, complain};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::io::Write;

/// Shows help where it was asked for and an error where one was made; returns the exit code.
pub(crate) fn explain(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no reason to complain.
            let _ = write!(std::io::stdout(), "{}", error.render());
            return DONE;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = write!(std::io::stderr(), "{}", error.render());
        }
        _ => complain(&one_line(error)),
    }
    USAGE
}

fn one_line(error: &clap::Error) -> String {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.split(' ').next(),
        _ => None,
    };
    // A value that did not parse: our own parsers say what is wrong with it and what to do.
    if let (ErrorKind::ValueValidation, Some(argument), Some(why)) =
        (error.kind(), argument, error.source())
    {
        return format!("error: {argument}: {why}");
    }
    let text = error.render().to_string();
    let mut line = String::new();
    for paragraph in text.split("\n\n") {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") {
            continue;
        }
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(&paragraph);
    }
    let command = command_named(error).unwrap_or("pvlab".into());
    format!("{line}; see '{command} --help'")
}

/// The command whose usage the parser showed, such as `pvlab run`.
fn command_named(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return None;
    };
    let usage = usage.to_string();
    let mut words = usage.split_whitespace().skip_while(|word| *word != "pvlab");
    let (word, cli) = (words.nth(1)?, super::Cli::command());
    let known = cli.get_subcommands().any(|c| c.get_name() == word);
    known.then(|| format!("pvlab {word}"))
}
