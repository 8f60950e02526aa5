//! `pvlab replay`.

use super::run::{How, carry_out};
use crate::host::Host;
use crate::options::{CliError, ReportArgs, schedule::read};
use crate::record::Context;
use clap::Args;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab run --lock pv-qspinlock --vcpus 3 --machine sim:here --cpus 0-1 --iterations 100 \\
      --deschedule 0:5:2ms --delay-wake 1:1:500us --save-schedule case.json
  pvlab replay case.json                          the same once more, to the last bit";

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The file that --save-schedule has written.
    file: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<u8, CliError> {
    let scenario = read(&args.file)?;
    let reason = format!("simulated, as {} says", args.file.display());
    let context = Context::new(Host::examine(), reason, &scenario);
    let how = How {
        stat_interval: None,
        live: false,
        report: &args.report,
    };
    carry_out(scenario, context, &how)
}
