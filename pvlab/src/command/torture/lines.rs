//! Lines to the letter as locktorture prints them.

use super::count::Tally;
use super::record::Counts;
use crate::scenario::{Length, Scenario};
use std::time::Duration;

/// The line that names what is tortured, and how.
pub(crate) fn start(scenario: &Scenario, stat_interval: Duration) -> String {
    let lock = scenario.vms[0].lock;
    let mut line = format!("{lock}-torture:--- Start of test:");
    let mut say = |name: &str, value: String| line += &format!(" {name}={value}");
    say("nwriters_stress", scenario.writers().to_string());
    if lock.kind.is_rw() {
        say("nreaders_stress", scenario.readers().to_string());
    }
    say("stat_interval", time(stat_interval));
    if let Some(torture) = scenario.torture {
        say("stutter", time(torture.stutter));
        say("shuffle_interval", time(torture.shuffle_interval));
        say("long_hold", time(torture.long_hold));
        say("nested_locks", torture.nested_locks.to_string());
        say("acq_writer_lim", time(torture.acquire_limit));
        say("writer_fifo", u8::from(torture.writer_fifo).to_string());
    }
    if let Length::Duration(duration) = scenario.length {
        say("duration", time(duration));
    }
    say("seed", scenario.seed.to_string());
    line
}

/// A duration as a value of the start line: with its unit, without blanks.
fn time(duration: Duration) -> String {
    if duration.is_zero() {
        return "0".to_owned();
    }
    let text = humantime::format_duration(duration).to_string();
    text.replace(' ', "")
}

/// The lines of one moment: of writes, and of reads if the lock has a read side.
///
/// `legacy`: Max/Min is of failures, as in locktorture until 2020.
pub(crate) fn interval(interval: &Counts, legacy: bool) -> Vec<String> {
    let of = |what, tally| line(interval.at_s, what, tally, legacy);
    let mut lines = vec![of("Writes", &interval.writes)];
    lines.extend(interval.reads.iter().map(|reads| of("Reads ", reads)));
    lines
}

fn line(at_s: f64, what: &str, tally: &Tally, legacy: bool) -> String {
    let (max, min) = match legacy {
        true => (tally.fail_max, tally.fail_min),
        false => (tally.max, tally.min),
    };
    let spread = if max / 2 > min { "???" } else { "" };
    let failed = if tally.fail > 0 { "!!!" } else { "" };
    let line = format!(
        "[{at_s:>12.6}] {what}:  Total: {}  Max/Min: {max}/{min} {spread}  Fail: {} {failed}",
        tally.total, tally.fail
    );
    // locktorture's line ends with a blank where nothing failed; mail drops it, and so do we.
    line.trim_end().to_owned()
}

pub(crate) const fn end(failed: bool) -> &'static str {
    match failed {
        true => "End of test: FAILURE",
        false => "End of test: SUCCESS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_s: f64, writes: Tally, reads: Option<Tally>) -> Counts {
        Counts {
            at_s,
            writes,
            reads,
        }
    }

    fn tally(total: u64, max: u64, min: u64, fail: u64) -> Tally {
        Tally {
            total,
            max,
            min,
            fail,
            fail_max: fail,
            fail_min: 0,
        }
    }

    #[test]
    fn lines_are_to_the_letter() {
        // From a mail of 2017 (its Max/Min were of failures).
        let (writes, reads) = (tally(10_127, 9, 1, 0), tally(764_714, 9, 1, 0));
        let seen = at(558.700_042, writes, Some(reads));
        assert_eq!(
            interval(&seen, true),
            [
                "[  558.700042] Writes:  Total: 10127  Max/Min: 0/0   Fail: 0",
                "[  558.700042] Reads :  Total: 764714  Max/Min: 0/0   Fail: 0",
            ]
        );
    }

    #[test]
    fn flags_mark_a_wide_spread_and_failures() {
        for ([total, max, min, fail], legacy, text) in [
            ([12, 9, 3, 2], false, "12  Max/Min: 9/3 ???  Fail: 2 !!!"),
            // Half of the maximum, rounded down, must be above the minimum.
            ([10, 7, 3, 0], false, "10  Max/Min: 7/3   Fail: 0"),
            ([11, 8, 3, 0], false, "11  Max/Min: 8/3 ???  Fail: 0"),
            // The form until 2020: of failures.
            ([12, 9, 3, 2], true, "12  Max/Min: 2/0 ???  Fail: 2 !!!"),
        ] {
            let seen = at(2.000_5, tally(total, max, min, fail), None);
            let expected = format!("[    2.000500] Writes:  Total: {text}");
            assert_eq!(interval(&seen, legacy), [expected]);
        }
    }

    #[test]
    fn a_lock_without_a_read_side_has_no_line_of_reads() {
        assert_eq!(interval(&at(0.0, tally(1, 1, 1, 0), None), false).len(), 1);
    }

    #[test]
    fn values_of_the_start_line_have_units_and_no_blanks() {
        assert_eq!(time(Duration::ZERO), "0");
        assert_eq!(time(Duration::from_millis(90_100)), "1m30s100ms");
    }
}
