//! `pvlab run --live`: a small table that is redrawn each second, on standard error.

use crate::report::human::{or_dash, rate};
use crate::scenario::Scenario;
use crate::session::{Interval, LiveVm};
use std::fmt::Write;
use std::io::IsTerminal;

/// The table.
pub(super) struct LiveView {
    /// What was last said of the VMs, besides their intervals.
    pub(super) vms: Vec<Option<LiveVm>>,
    /// Lines drawn before, to be drawn over; `None` where there is no terminal.
    drawn: Option<usize>,
}

impl LiveView {
    pub(super) fn new() -> Self {
        Self {
            vms: Vec::new(),
            drawn: std::io::stderr().is_terminal().then_some(0),
        }
    }

    /// The table for the terminal, drawn over the one before.
    pub(super) fn draw(&mut self, scenario: &Scenario, interval: &Interval) -> String {
        let mut text = String::new();
        if let Some(lines) = self.drawn.filter(|&lines| lines > 0) {
            // Up, and erase to the end of the screen (ECMA-48: CPL, ED).
            let _ = write!(text, "\x1b[{lines}F\x1b[J");
        }
        let _ = writeln!(
            text,
            "{:>8}  {:<13} {:>12} {:>12} {:>12} {:>10}  preempted now",
            format!("{:.0} s", interval.at_s),
            "lock",
            "acquisitions",
            "halts",
            "kicks",
            "LHP"
        );
        let per_second = |n: u64| rate(n as f64 / interval.length_s.max(1e-9));
        for (number, (vm, spec)) in interval.vms.iter().zip(&scenario.vms).enumerate() {
            let live = self.vms.get(number).and_then(Option::as_ref);
            let _ = writeln!(
                text,
                "{:>8}  {:<13} {:>12} {:>12} {:>12} {:>10}  {}",
                format!("VM {number}"),
                spec.lock,
                per_second(vm.acquisitions),
                per_second(vm.halts),
                per_second(vm.kicks),
                or_dash(live, |live| per_second(live.holder_preemptions)),
                or_dash(live, |live| vcpus(&live.preempted)),
            );
        }
        if let Some(lines) = &mut self.drawn {
            *lines = 1 + interval.vms.len();
        }
        text
    }
}

/// `vCPUs 0, 3` or `nobody`.
fn vcpus(numbers: &[usize]) -> String {
    if numbers.is_empty() {
        return "nobody".to_owned();
    }
    let list: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    format!("vCPUs {}", list.join(", "))
}
