//! `pvlab torture`.

mod args;
mod count;
pub(crate) mod course;
mod late;
mod lines;
mod pauses;
pub(crate) mod record;
pub(crate) mod report;
mod shuffle;
mod stop;
pub(crate) mod verdict;
mod watch;

pub(crate) use args::{EXAMPLES, TortureArgs};

use crate::host::Host;
use crate::options::{
    Aside, BROKEN, CliError, DONE, Progress, Target, TimeUsage, Watcher, check_time, interrupted,
    watch,
};
use crate::report::Format;
use args::{TortureUsage, torture_request};
use report::{TortureReport, head};
use std::time::Duration;

/// Statistics intervals of a test, at most: the report has them all.
const MOST_INTERVALS: u128 = 1_000_000;

/// Statistics interval, unless said otherwise; at most the test.
const STAT_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) fn torture(args: &TortureArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let format = args.report.format;
    let (request, how) = torture_request(args, &host)?;
    let stat_interval = match args.stat_interval {
        Some(interval) if interval > args.duration => {
            let duration = args.duration;
            return Err(TimeUsage::IntervalTooLong { interval, duration }.into());
        }
        given => given.unwrap_or(STAT_INTERVAL.min(args.duration)),
    };
    let machine = request.scenario.machine;
    for (option, time) in [
        ("--stat-interval", args.stat_interval.unwrap_or_default()),
        ("--stutter", how.stutter),
        ("--shuffle-interval", how.shuffle_interval),
    ] {
        check_time(option, time, machine)?;
    }
    if args.duration.as_nanos() / stat_interval.as_nanos().max(1) > MOST_INTERVALS {
        let (interval, duration) = (stat_interval, args.duration);
        return Err(TortureUsage::TooManyIntervals { interval, duration }.into());
    }
    let target = Target::check(args.report.output.as_deref())?;
    watch(&target);
    let (scenario, context) = (request.scenario, request.context);
    let live = format == Format::Table && target.is_stdout();
    let progress = Progress::new(1, Some(args.duration));
    progress.begin(String::new());
    let aside = if live { Aside::Report } else { Aside::Stderr };
    let head = head(&context, &scenario, stat_interval);
    if progress.tell(aside, &head).is_break() {
        return Ok(DONE);
    }
    let mut watcher = Watcher::telling(&progress, aside, |counts| {
        lines::interval(counts, args.legacy_max_min)
    });
    let result = course::run(&scenario, &how, stat_interval, &mut watcher);
    drop(watcher);
    drop(progress);

    let record = result?;
    let report = TortureReport::new(context, stat_interval, args.legacy_max_min, record);
    target.write(&report.render(format, !live))?;
    if report.record.interrupted {
        let measured = report.record.measured_s;
        return Ok(interrupted(&format!(
            "interrupted after {measured:.1} s; the report is of these"
        )));
    }
    let stood = report.failures.is_empty();
    Ok(if stood { DONE } else { BROKEN })
}

#[cfg(test)]
mod tests;
