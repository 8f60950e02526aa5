//! `pvlab run`.

mod args;
mod live;
pub(crate) mod report;

pub(crate) use args::{EXAMPLES, RunArgs};

use super::replay;
use crate::ending;
use crate::host::Host;
use crate::options::common::Request;
use crate::options::error::CliError;
use crate::options::exit::{BROKEN, DONE, complain, interrupted, watch};
use crate::options::guests::Guests;
use crate::options::output::Target;
use crate::options::progress::Progress;
use crate::options::times::{TimeUsage, check_time, length};
use crate::report::headline::headline;
use crate::report::{Context, Format};
use crate::scenario::{Length, MachineKind, Scenario};
use crate::session;
use crate::session::{Interval, LiveVm, Observer, Options};
use live::LiveView;
use report::RunReport;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

/// How often the live view is redrawn.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the guests and reports.
pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let host = Host::examine();
    let length = length(args.duration, args.iterations);
    let Request {
        scenario,
        machine_reason,
        ..
    } = (args.common).request(Guests::of(&args.guests)?, length, &host)?;
    let mut scenario = scenario;
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
        format: args.report.format,
        output: args.report.output.as_deref(),
    };
    let saved = replay::apply(&args.schedule, &mut scenario)?;
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
    pub(crate) format: Format,
    pub(crate) output: Option<&'a Path>,
}

/// Runs the scenario and reports.
pub(crate) fn carry_out(
    scenario: Scenario,
    machine_reason: String,
    host: Host,
    args: &How<'_>,
) -> Result<u8, CliError> {
    let format = args.format;
    let target = Target::check(args.output)?;
    watch(&target);
    let context = Context::new(host, machine_reason, &scenario);

    let mut observer = Watcher {
        scenario: &scenario,
        progress: Progress::new(1, expected(&scenario)),
        phase: "launching",
        lines: if format == Format::Table {
            Lines::Stdout
        } else {
            Lines::Stderr
        },
        report_on_stdout: target.is_stdout(),
        closed: false,
        live: args.live.then(LiveView::new),
    };
    observer.progress.begin(String::new());
    // The first line of output names the machine, so it comes before the first interval.
    let told = args.stat_interval.is_some() && format == Format::Table;
    if told {
        observer.line(&headline(&context, &scenario));
        if observer.closed {
            return Ok(DONE);
        }
    }
    let options = Options {
        stat_interval: args.live.then_some(LIVE_INTERVAL).or(args.stat_interval),
        live: args.live,
    };
    let result = session::run(&scenario, &options, &mut observer);
    drop(observer);

    let record = result?;
    let report = RunReport::new(context, record);
    let headline = !(told && target.is_stdout());
    target.write(&report.render(format, headline))?;
    if let Some(line) = report.exclusion_broken() {
        complain(&line);
        return Ok(BROKEN);
    }
    if report.record.interrupted {
        return Ok(interrupted(&format!(
            "interrupted after {:.1} s; the report is of these",
            report.record.measured_s
        )));
    }
    Ok(DONE)
}

/// How long a run of the scenario ought to take, if it is known.
pub(crate) fn expected(scenario: &Scenario) -> Option<Duration> {
    match scenario.length {
        _ if scenario.machine == MachineKind::Simulated => None,
        // Launching and stopping take about a tenth of a second.
        Length::Duration(duration) => {
            Some(duration + scenario.warm_up + Duration::from_millis(100))
        }
        Length::Iterations(_) => None,
    }
}

/// Where interval lines go: beside a table, but not into data.
#[derive(Clone, Copy)]
enum Lines {
    Stdout,
    Stderr,
}

/// Shows how the run goes.
struct Watcher<'a> {
    scenario: &'a Scenario,
    progress: Progress,
    phase: &'static str,
    lines: Lines,
    report_on_stdout: bool,
    /// Whoever read standard output has had enough.
    closed: bool,
    /// The live view, instead of lines.
    live: Option<LiveView>,
}

impl Watcher<'_> {
    fn only_on_stdout(&self) -> bool {
        self.report_on_stdout && matches!(self.lines, Lines::Stdout)
    }

    fn line(&mut self, line: &str) {
        let written = self.progress.suspend(|| match self.lines {
            Lines::Stdout => writeln!(io::stdout(), "{line}"),
            Lines::Stderr => writeln!(io::stderr(), "{line}"),
        });
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.only_on_stdout() => {
                self.closed = true;
            }
            // The figures are in the report too.
            _ => {}
        }
    }
}

impl Observer for Watcher<'_> {
    fn phase(&mut self, phase: &'static str) {
        self.phase = phase;
        self.progress
            .at(phase, if phase == "stopping" { 1.0 } else { 0.0 });
    }

    fn live(&mut self, vms: &[Option<LiveVm>]) {
        if let Some(view) = &mut self.live {
            view.vms = vms.to_vec();
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if self.closed {
            return;
        }
        if let Some(view) = &mut self.live {
            let text = view.draw(self.scenario, interval);
            self.progress.suspend(|| {
                // Who has closed standard error does not want to see it.
                let _ = io::stderr().write_all(text.as_bytes());
            });
            return;
        }
        for line in report::interval_lines(self.scenario, interval) {
            self.line(&line);
        }
        if self.closed {
            // Nobody will see the report either: what is left of the run would be in vain.
            ending::reader_left();
        }
    }

    fn progress(&mut self, done: f64) {
        self.progress.at(self.phase, done);
    }
}

#[cfg(test)]
mod tests;
