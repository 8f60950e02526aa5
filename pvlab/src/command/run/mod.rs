//! `pvlab run`.

mod args;
pub(crate) mod live;
pub(crate) mod report;

pub(crate) use args::{EXAMPLES, RunArgs};

use crate::host::Host;
use crate::options::{
    Aside, BROKEN, CliError, DONE, Guests, Progress, ReportArgs, Target, TimeUsage, Watcher,
    check_time, complain, interrupted, length, schedule, watch,
};
use crate::record::{Context, Record};
use crate::report::{Format, Report, headline};
use crate::scenario::{Length, Scenario};
use crate::session::{self, Options};
use live::LiveView;
use report::RunReport;
use std::time::Duration;

/// How often the live view is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let length = length(args.duration, args.iterations);
    let guests = Guests::of(&args.guests)?;
    let asked = (args.common).request(guests, length, &Host::examine())?;
    let (mut scenario, context) = (asked.scenario, asked.context);
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
    let result = carry_out(scenario, context, &how);
    match saved {
        Some(saved) => saved.came_out(result),
        None => result,
    }
}

pub(crate) struct How<'a> {
    pub(crate) stat_interval: Option<Duration>,
    pub(crate) live: bool,
    pub(crate) report: &'a ReportArgs,
}

pub(crate) fn carry_out(
    scenario: Scenario,
    context: Context,
    args: &How<'_>,
) -> Result<u8, CliError> {
    let format = args.report.format;
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
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
