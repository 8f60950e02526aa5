//! `pvlab torture`.

mod args;
mod count;
mod course;
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

use crate::ending;
use crate::host::Host;
use crate::options::error::CliError;
use crate::options::exit::{BROKEN, DONE, interrupted, watch};
use crate::options::output::Target;
use crate::options::progress::Progress;
use crate::options::times::{TimeUsage, check_time};
use crate::report::headline::headline;
use crate::report::{Context, Format};
use crate::selection::SlowPath;
use args::{TortureUsage, torture_request};
use course::Observer;
use record::Interval;
use report::TortureReport;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// Statistics intervals of a test, at most: the report has them all.
const MOST_INTERVALS: u128 = 1_000_000;

/// Statistics interval, unless said otherwise; at most the test.
const STAT_INTERVAL: Duration = Duration::from_secs(60);

/// Tortures the lock and reports.
pub(crate) fn torture(args: &TortureArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let format = args.format;
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
    let target = Target::check(args.output.as_deref())?;
    watch(&target);
    let scenario = request.scenario;
    let context = Context::new(host, request.machine_reason, &scenario);
    let live = format == Format::Table && target.is_stdout();
    let mut observer = Watcher {
        progress: Progress::new(1, Some(args.duration)),
        phase: "launching",
        live,
        legacy: args.legacy_max_min,
        closed: false,
    };
    observer.progress.begin(String::new());
    let mut head = vec![headline(&context, &scenario)];
    head.extend(SlowPath::lines(&SlowPath::of_vms(&scenario)));
    head.push(lines::start(&scenario, stat_interval));
    head.iter().for_each(|line| observer.line(line));
    if observer.closed {
        return Ok(DONE);
    }
    let result = course::run(&scenario, &how, stat_interval, &mut observer);
    drop(observer);

    let record = result?;
    let report = TortureReport::new(context, stat_interval, args.legacy_max_min, record);
    target.write(&report.render(format, !live))?;
    if report.record.interrupted {
        let measured = report.record.measured_s;
        return Ok(interrupted(&format!(
            "interrupted after {measured:.1} s; the report is of these"
        )));
    }
    Ok(if report.failures.is_empty() {
        DONE
    } else {
        BROKEN
    })
}

/// Shows how the test goes.
struct Watcher {
    progress: Progress,
    phase: &'static str,
    /// Lines go to standard output as they come, as part of the report.
    live: bool,
    legacy: bool,
    /// Whoever read standard output has had enough.
    closed: bool,
}

impl Watcher {
    fn line(&mut self, line: &str) {
        let live = self.live;
        let written = self.progress.suspend(|| {
            if live {
                let mut out = io::stdout().lock();
                writeln!(out, "{line}").and_then(|()| out.flush())
            } else {
                writeln!(io::stderr(), "{line}")
            }
        });
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe && live => self.closed = true,
            // The figures are in the report too.
            _ => {}
        }
    }
}

impl Observer for Watcher {
    fn phase(&mut self, phase: &'static str) {
        self.phase = phase;
        self.progress
            .at(phase, if phase == "stopping" { 1.0 } else { 0.0 });
    }

    fn interval(&mut self, interval: &Interval) {
        for line in lines::interval(interval, self.legacy) {
            self.line(&line);
        }
        if self.closed {
            // Nobody will see the rest.
            ending::reader_left();
        }
    }

    fn progress(&mut self, done: f64) {
        self.progress.at(self.phase, done);
    }
}

#[cfg(test)]
mod tests;
