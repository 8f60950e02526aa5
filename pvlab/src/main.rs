//! The `pvlab` command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    pvlab::command::main()
}
