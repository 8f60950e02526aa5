//! How a command ends: its exit code, and what it says.

use super::output::Target;
use crate::ending;
use std::io::Write;

/// Everything went as asked.
pub(crate) const DONE: u8 = 0;
/// The run failed or was interrupted.
pub(crate) const FAILED: u8 = 1;
/// The command line was wrong.
pub(crate) const USAGE: u8 = 2;
/// A lock broke mutual exclusion, or failed under torture.
pub(crate) const BROKEN: u8 = 3;
/// Something has become slower than was allowed.
pub(crate) const SLOWER: u8 = 4;

/// Where the report goes is known: a report on standard output is of use as long as somebody reads it.
pub(crate) fn watch(target: &Target) {
    if target.is_stdout() {
        ending::watch_reader();
    }
}

/// Tells the user that the command was interrupted, unless it was by nobody reading its output, which is no
/// failure; returns the exit code.
pub(crate) fn interrupted(line: &str) -> u8 {
    if ending::has_reader_left() {
        return DONE;
    }
    complain(line);
    FAILED
}

/// Tells the user, who may have closed standard error.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
