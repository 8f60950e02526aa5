//! Advice from figures with known truth.

use super::advice::{Cell, Choice, LockCell, Place, decide};
use crate::command::compare::result::{Ratio, Typical, Verdict};
use crate::figures::Support;

/// A cell in which paravirtual makes `median` times native, within `lo` and `hi`.
fn cell(overcommit: usize, neighbours: usize, [lo, median, hi]: [f64; 3]) -> Cell {
    let verdict = match () {
        () if lo > 1.0 => Verdict::Faster,
        () if hi < 1.0 => Verdict::Slower,
        () => Verdict::NoDifference,
    };
    let lock = |lock: &str, rate: f64, wait| LockCell {
        lock: lock.into(),
        acquisitions_per_s: rate,
        ratio: None,
        lo: None,
        hi: None,
        verdict: None,
        longest_wait_ns: Some(wait),
    };
    Cell {
        place: Place {
            overcommit,
            neighbours,
        },
        locks: vec![
            lock("qspinlock", 1e6, 90_000_000),
            lock("pv-qspinlock", 1e6 * median, 4_000_000),
        ],
        paravirtual: Some(Ratio {
            typical: Typical {
                median,
                lo: Some(lo),
                hi: Some(hi),
                interval: Some(Support {
                    method: "student_t_log",
                    level: Some(0.95),
                    n: 3,
                }),
            },
            verdict,
            rounds: vec![],
        }),
    }
}

const EVEN: [f64; 3] = [0.98, 1.0, 1.02];
const FAST: [f64; 3] = [900.0, 1000.0, 1100.0];
const SLOW: [f64; 3] = [0.7, 0.8, 0.9];
const WIDE: [f64; 3] = [0.2, 1.5, 9.0];

#[test]
fn the_choice_follows_from_the_crowded_cells() {
    for (flat, two, four, choice) in [
        (EVEN, FAST, FAST, Choice::On),
        (SLOW, FAST, FAST, Choice::On),
        (EVEN, EVEN, EVEN, Choice::Either),
        (SLOW, EVEN, EVEN, Choice::Off),
        (EVEN, SLOW, SLOW, Choice::Off),
        (EVEN, EVEN, FAST, Choice::Depends),
        (EVEN, SLOW, FAST, Choice::Depends),
        (EVEN, WIDE, FAST, Choice::Depends),
        (EVEN, WIDE, WIDE, Choice::Unknown),
        (EVEN, WIDE, EVEN, Choice::Unknown),
    ] {
        let cells = vec![cell(1, 0, flat), cell(2, 0, two), cell(4, 0, four)];
        let advice = decide(cells, None);
        assert_eq!(advice.choice, choice, "{flat:?}, {two:?}, {four:?}");
    }
}

#[test]
fn a_few_undecided_cells_do_not_matter() {
    let cells = vec![
        cell(1, 0, EVEN),
        cell(1, 2, WIDE),
        cell(4, 0, FAST),
        cell(4, 2, FAST),
    ];
    assert_eq!(decide(cells, None).choice, Choice::On);
}

#[test]
fn break_even_cost_and_stall_are_told() {
    let advice = decide(
        vec![cell(1, 0, SLOW), cell(2, 0, EVEN), cell(4, 0, FAST)],
        None,
    );
    assert_eq!(advice.pays_from, Some(4));
    assert_eq!(advice.without_overcommit, Some([0.8, 0.7, 0.9]));
    let said = advice.reasons.join("\n");
    for part in [
        "4 vCPUs a CPU, alone: paravirtual makes 1000 (900 .. 1100) times native, faster, for sure; best is pv-qspinlock with 1.00 G/s.",
        "Break-even is between 2 and 4 vCPUs a CPU.",
        "They cost 20 % where nothing is overcommitted",
        "The worst stall of an acquisition was 90.0 ms native and 4.00 ms paravirtual.",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn no_advice_from_a_busy_host_or_a_single_round() {
    let cells = || vec![cell(1, 0, EVEN), cell(2, 0, FAST)];
    let busy = decide(cells(), Some("others used 1.2 CPUs"));
    assert_eq!(busy.choice, Choice::Unknown);
    assert!(
        busy.reasons
            .iter()
            .any(|r| r.contains("others used 1.2 CPUs"))
    );
    let mut single = cells();
    for cell in &mut single {
        let ratio = cell.paravirtual.as_mut().unwrap();
        (ratio.verdict, ratio.typical.lo, ratio.typical.hi) = (Verdict::NoDifference, None, None);
        ratio.typical.interval = None;
    }
    let unknown = decide(single, None);
    assert_eq!(unknown.choice, Choice::Unknown);
    assert!(unknown.reasons.iter().any(|r| r.contains("more --rounds")));
}
