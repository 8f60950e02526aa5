//! `pvlab run`.

mod args;
pub(crate) mod live;
pub(crate) mod report;

pub(crate) use args::{EXAMPLES, RunArgs};

use crate::host::Host;
use crate::options::common::Request;
use crate::options::error::CliError;
use crate::options::exit::{BROKEN, DONE, complain, interrupted, watch};
use crate::options::guests::Guests;
use crate::options::output::{ReportArgs, Target};
use crate::options::progress::{Aside, Progress, Watcher};
use crate::options::schedule;
use crate::options::times::{TimeUsage, check_time, length};
use crate::record::{Context, Record};
use crate::report::headline::headline;
use crate::report::{Format, Report};
use crate::scenario::{Length, Scenario};
use crate::session;
use crate::session::Options;
use live::LiveView;
use report::RunReport;
use std::time::Duration;

/// How often the live view is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the guests and reports.
pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let length = length(args.duration, args.iterations);
    let Request {
        mut scenario,
        machine_reason,
        ..
    } = (args.common).request(Guests::of(&args.guests)?, length, &host)?;
    if let (Some(interval), Length::Duration(duration)) = (args.stat_interval, length)
        && interval > duration
    {
        return Err(TimeUsage::IntervalTooLong { interval, duration }.into());
    }
    if let Some(interval) = args.stat_interval {
        check_time("--stat-interval", interval, scenario.machine)?;
    }
    let how = How {
        stat_interval: args.stat_interval,
        live: args.live,
        report: &args.report,
    };
    let saved = schedule::apply(&args.schedule, &mut scenario)?;
    let result = carry_out(scenario, machine_reason, host, &how);
    match saved {
        Some(saved) => saved.came_out(result),
        None => result,
    }
}

/// How to run, and to report.
pub(crate) struct How<'a> {
    pub(crate) stat_interval: Option<Duration>,
    pub(crate) live: bool,
    pub(crate) report: &'a ReportArgs,
}

/// Runs the scenario and reports.
pub(crate) fn carry_out(
    scenario: Scenario,
    machine_reason: String,
    host: Host,
    args: &How<'_>,
) -> Result<u8, CliError> {
    let format = args.report.format;
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    let context = Context::new(host, machine_reason, &scenario);

    let progress = Progress::new(1, scenario.expected());
    progress.begin(String::new());
    let lines = match format {
        Format::Table if target.is_stdout() => Aside::Report,
        Format::Table => Aside::Stdout,
        _ => Aside::Stderr,
    };
    // The first line of output names the machine, so it comes before the first interval.
    let told = args.stat_interval.is_some() && format == Format::Table;
    if told {
        let first = headline(&context, &scenario);
        if progress.tell(lines, &[first]).is_break() {
            return Ok(DONE);
        }
    }
    let options = Options {
        stat_interval: args.live.then_some(LIVE_INTERVAL).or(args.stat_interval),
        live: args.live,
    };
    let mut view = args.live.then(LiveView::new);
    let aside = if args.live { Aside::Stderr } else { lines };
    let mut watcher = Watcher::telling(&progress, aside, |interval| match &mut view {
        Some(view) => view.draw(&scenario, interval),
        None => live::interval_lines(&scenario, interval),
    });
    let result = session::run(&scenario, &options, &mut watcher);
    drop(watcher);
    drop(progress);

    let record = Record { context, ..result? };
    let mut report = RunReport::new(&record);
    report.first_line = !(told && target.is_stdout());
    target.write(&report.render(format))?;
    if let Some(line) = report.exclusion_broken() {
        complain(&line);
        return Ok(BROKEN);
    }
    if record.interrupted {
        let seconds = record.measured_s;
        return Ok(interrupted(&format!(
            "interrupted after {seconds:.1} s; the report is of these"
        )));
    }
    Ok(DONE)
}

#[cfg(test)]
mod tests;
