//! Progress on standard error, for those who sit in front of a terminal.

use super::terminal;
use crate::ending;
use crate::scenario::whole;
use crate::session::{Interval, Observer};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, Instant};

/// Steps of the bar for each run; finer than any terminal is wide.
const STEPS: u64 = 1000;

/// A bar over one run or several; invisible unless standard error is a terminal that can be drawn on.
pub(crate) struct Progress {
    bar: ProgressBar,
    runs: u64,
    finished: u64,
    started: Instant,
    /// How long a run ought to take, until one has shown it.
    expected: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(runs: usize, expected: Option<Duration>) -> Self {
        let runs = runs as u64;
        let target = match terminal::may_draw() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(runs * STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {prefix} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            runs,
            finished: 0,
            started: Instant::now(),
            expected,
        }
    }

    pub(crate) fn begin(&self, name: String) {
        ending::drawn();
        self.bar.set_prefix(name);
        self.at("launching", 0.0);
    }

    pub(crate) fn at(&self, phase: &str, done: f64) {
        let done = done.clamp(0.0, 1.0);
        let step = whole(done * STEPS as f64);
        self.bar.set_position(self.finished * STEPS + step);
        self.bar.set_message(match self.left(done) {
            Some(left) => format!("{phase}, about {} s left", left.as_secs_f64().ceil()),
            None => phase.to_owned(),
        });
    }

    pub(crate) fn end(&mut self) {
        self.finished += 1;
        self.expected = Some(self.started.elapsed().div_f64(self.finished as f64));
    }

    /// Writes these lines, which the bar must not be in the way of. A break if nobody will read the report.
    pub(crate) fn tell(&self, aside: Aside, lines: &[String]) -> ControlFlow<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let written = self.bar.suspend(|| match aside {
            Aside::Stderr => io::stderr().write_all(text.as_bytes()),
            Aside::Stdout | Aside::Report => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
        });
        match written {
            Err(e) if e.kind() == ErrorKind::BrokenPipe && aside == Aside::Report => Break(()),
            // The figures are in the report too.
            _ => Continue(()),
        }
    }

    fn left(&self, done: f64) -> Option<Duration> {
        let runs = (self.runs - self.finished.min(self.runs)) as f64 - done;
        Some(self.expected?.mul_f64(runs.max(0.0)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        ending::erased();
    }
}

/// Where lines about a run go that is still under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    Stderr,
    /// To standard output, while the report goes elsewhere.
    Stdout,
    /// To standard output, before the report: who does not read it will not read that either.
    Report,
}

type Lines<'a, I> = dyn FnMut(&I) -> Vec<String> + 'a;

/// Shows how a run goes: on the bar, and with some lines at each statistics interval.
pub(crate) struct Watcher<'a, I = Interval> {
    progress: &'a Progress,
    phase: &'static str,
    aside: Aside,
    lines: Box<Lines<'a, I>>,
}

impl<'a> Watcher<'a> {
    /// Without any lines.
    pub(crate) fn new(progress: &'a Progress) -> Self {
        Self::telling(progress, Aside::Stderr, |_| Vec::new())
    }
}

impl<'a, I> Watcher<'a, I> {
    /// With those lines for each interval.
    pub(crate) fn telling(
        progress: &'a Progress,
        aside: Aside,
        lines: impl FnMut(&I) -> Vec<String> + 'a,
    ) -> Self {
        Self {
            progress,
            phase: "launching",
            aside,
            lines: Box::new(lines),
        }
    }
}

impl<I> Observer<I> for Watcher<'_, I> {
    fn phase(&mut self, phase: &'static str) {
        self.phase = phase;
        let done = if phase == "stopping" { 1.0 } else { 0.0 };
        self.progress.at(phase, done);
    }

    fn interval(&mut self, interval: &I) -> ControlFlow<()> {
        self.progress.tell(self.aside, &(self.lines)(interval))
    }

    fn progress(&mut self, done: f64) {
        self.progress.at(self.phase, done);
    }
}
