//! `pvlab run --live`: a small table that is redrawn each second, on standard error.

use crate::human::{listed, or_dash, rate};
use crate::options::terminal;
use crate::scenario::Scenario;
use crate::session::Interval;

pub(crate) struct LiveView {
    /// How long the lines are that were drawn before, to be drawn over; `None` where nothing can be.
    drawn: Option<Vec<usize>>,
}

impl LiveView {
    pub(crate) fn new() -> Self {
        Self {
            drawn: terminal::may_draw().then(Vec::new),
        }
    }

    /// The table for the terminal, drawn over the one before.
    pub(crate) fn draw(&mut self, scenario: &Scenario, interval: &Interval) -> Vec<String> {
        let mut lines = lines(scenario, interval);
        let size = terminal::size();
        if let Some(drawn) = &mut self.drawn {
            if let Some(size) = size {
                lines = within(lines, size);
            }
            // A terminal that has become narrower has broken lines in two.
            let columns = size.map_or(usize::MAX, |(columns, _)| columns);
            let rows: usize = drawn.iter().map(|len| len.div_ceil(columns).max(1)).sum();
            *drawn = lines.iter().map(|line| line.chars().count()).collect();
            if let (1.., Some(first)) = (rows, lines.first_mut()) {
                // Up, and erase to the end of the screen (ECMA-48: CPL, ED).
                first.insert_str(0, &format!("\x1b[{rows}F\x1b[J"));
            }
        }
        lines
    }
}

fn lines(scenario: &Scenario, interval: &Interval) -> Vec<String> {
    let head = format!(
        "{:>8}  {:<13} {:>12} {:>12} {:>12} {:>10}  preempted now",
        format!("{:.0} s", interval.at_s),
        "lock",
        "acquisitions",
        "halts",
        "kicks",
        "LHP"
    );
    let per_second = per_second(interval);
    let numbered = interval.vms.iter().zip(&scenario.vms).enumerate();
    let vms = numbered.map(|(number, (vm, spec))| {
        let live = interval.live.get(number).and_then(Option::as_ref);
        format!(
            "{:>8}  {:<13} {:>12} {:>12} {:>12} {:>10}  {}",
            format!("VM {number}"),
            spec.lock,
            per_second(vm.acquisitions),
            per_second(vm.halts),
            per_second(vm.kicks),
            or_dash(live, |live| per_second(live.holder_preemptions)),
            or_dash(live, |live| vcpus(&live.preempted)),
        )
    });
    [head].into_iter().chain(vms).collect()
}

fn per_second(interval: &Interval) -> impl Fn(u64) -> String {
    let length_s = interval.length_s.max(1e-9);
    move |n| rate(n as f64 / length_s)
}

/// The lines for a statistics interval, one for each VM.
pub(crate) fn interval_lines(scenario: &Scenario, interval: &Interval) -> Vec<String> {
    let per_second = per_second(interval);
    let numbered = scenario.vms.iter().zip(&interval.vms).enumerate();
    let without = match interval.without_cpu_s {
        s if s > 0.0 => format!("  (not counting {s:.2} s without CPU)"),
        _ => String::new(),
    };
    let lines = numbered.map(|(number, (spec, vm))| {
        format!(
            "{:>7.2} s  VM {number} {:<12}  {:>9} acquisitions  {:>9} contended  {:>9} halts  \
             {:>9} kicks{without}",
            interval.at_s,
            spec.lock,
            per_second(vm.acquisitions),
            match spec.lock.kind.peer() {
                None => per_second(vm.contended),
                Some(_) => "-".to_owned(),
            },
            per_second(vm.halts),
            per_second(vm.kicks),
        )
    });
    lines.collect()
}

/// The lines, cut to a terminal of that many columns and lines: what has scrolled out of it cannot be drawn
/// over.
fn within(mut lines: Vec<String>, (columns, rows): (usize, usize)) -> Vec<String> {
    // The cursor stands on a line of its own below.
    let most = rows.saturating_sub(1).max(1);
    if lines.len() > most {
        let left_out = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(format!("{left_out} more do not fit"));
    }
    let fitting = lines.iter().map(|line| terminal::fit(line, columns));
    fitting.collect()
}

/// `vCPUs 0, 3` or `nobody`.
fn vcpus(numbers: &[usize]) -> String {
    match numbers {
        [] => "nobody".to_owned(),
        numbers => format!("vCPUs {}", listed(numbers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_fits_into_the_terminal() {
        let lines = || vec!["x".repeat(200), "short".to_owned(), "third".to_owned()];
        for size in [(80, 24), (10, 3), (1, 1), (200, 4)] {
            let drawn = within(lines(), size);
            assert!(drawn.len() < size.1.max(2), "{size:?}");
            assert!(drawn.iter().all(|line| line.chars().count() <= size.0));
        }
        assert_eq!(within(lines(), (80, 3))[1], "2 more do not fit");
        assert_eq!(within(lines(), (300, 24)), lines());
    }
}
