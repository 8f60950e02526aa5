//! `pvlab calibrate`.

pub(crate) mod fit;
mod micro;

use crate::host::Host;
use crate::human::{rate, ratio};
use crate::options::{
    CliError, Common, DONE, Guests, MachineUsage, Progress, Target, Watcher, complain, watch,
};
use crate::scenario::Length;
use clap::Args;
use fit::{FITTED_LOCKS, calibrate};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab calibrate -o host.toml                      takes about 20 s; the host should be quiet
  pvlab compare --machine sim:./host.toml --vcpus 8 --cpus 0-1
  pvlab validate --against sim:./host.toml          how far it is from this host";

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Write the preset to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Length of the runs that are fitted to.
const DURATION: Duration = Duration::from_millis(500);

/// Measures this host, and writes a preset of it.
pub(crate) fn run(args: &CalibrateArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let guests = Guests::one_of(FITTED_LOCKS.map(Into::into), Some(2));
    let asked = (args.common).request(guests, Length::Duration(DURATION), &host)?;
    let scenario = asked.scenario;
    if scenario.machine.is_simulated() {
        return Err(MachineUsage::MeasuresReal("pvlab calibrate").into());
    }
    let target = Target::check(args.output.as_deref())?;
    watch(&target);
    let mut progress = Progress::new(1, None);
    progress.begin("calibrating".to_owned());
    let online = host.online_cpus.as_ref().map_or(1, Vec::len);
    let calibration = calibrate(&scenario, online, &mut Watcher::new(&progress))?;
    progress.end();
    target.write(&calibration.spec.to_toml()?)?;
    for (lock, real, simulated) in calibration.cells {
        let (here, there, times) = (rate(real), rate(simulated), ratio(simulated / real));
        let figures = format!("{here} here, {there} simulated, {times} times");
        complain(&format!("{lock}, 2 vCPUs on 2 CPUs: {figures}"));
    }
    Ok(DONE)
}
