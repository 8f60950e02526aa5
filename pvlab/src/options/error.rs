//! Why a command could not be carried out, each reason in one line.

use super::{exit, output};
use crate::session;
use crate::trace::{CollectError, read, sink};

/// Why a command failed, and the exit code that tells of it.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit_code: u8,
    pub(crate) why: Box<dyn std::error::Error>,
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(f)
    }
}

/// An error that ends a command.
pub(crate) trait Ends: std::error::Error + 'static {
    fn exit_code(&self) -> u8 {
        exit::FAILED
    }
}

impl<E: Ends> From<E> for CliError {
    fn from(error: E) -> Self {
        Self {
            exit_code: error.exit_code(),
            why: Box::new(error),
        }
    }
}

/// Says of errors that the command line was wrong, and no run failed.
macro_rules! usage {
    ($($error:ty),*) => {$(
        impl $crate::options::error::Ends for $error {
            fn exit_code(&self) -> u8 {
                $crate::options::exit::USAGE
            }
        }
    )*};
}
pub(crate) use usage;

impl Ends for session::RunError {
    fn exit_code(&self) -> u8 {
        self.exit_code()
    }
}

impl Ends for session::costs::CostError {}
// There is no such simulated machine.
usage!(sim::SpecError);

impl Ends for output::OutputError {}
impl Ends for sink::WriteError {}
impl Ends for read::ReadError {}
impl Ends for CollectError {}
