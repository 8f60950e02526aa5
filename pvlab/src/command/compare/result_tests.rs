//! Tests of [`super`] by hand.

use super::*;
use crate::command::compare::plan::fixture::plan;
use crate::figures::fixture::{counters, record};
use crate::figures::warnings_of_run;
use crate::record::Surroundings;
use abi::Counter;
use pvlock::LockKind;
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas};

fn rounds(table: &[[u64; 2]]) -> Vec<Vec<Record>> {
    let round = |row: &[u64; 2]| vec![record(Tas, row[0]), record(QSpinLock, row[1])];
    table.iter().map(round).collect()
}

fn compare(table: &[[u64; 2]]) -> Comparison {
    let plan = plan(&[Tas, QSpinLock], 1);
    Comparison::new(plan, &rounds(table), Ended::Complete, None)
}

/// Of rounds of a single lock.
fn alone(lock: LockKind, records: Vec<Record>) -> Comparison {
    let rounds: Vec<_> = records.into_iter().map(|record| vec![record]).collect();
    Comparison::new(plan(&[lock], 0), &rounds, Ended::Complete, None)
}

/// The median ratio of the first lock with its interval.
fn first_ratio(comparison: &Comparison) -> &Ratio {
    comparison.results[0].ratio.as_ref().unwrap()
}

impl Comparison {
    fn warning(&self, code: &str) -> Option<&Warning> {
        self.warnings.iter().find(|warning| warning.code == code)
    }
}

#[test]
fn ratios_are_taken_within_each_round() {
    // Rounds get slower by half each time, as if the host were throttled; the ratio stays 2.
    let comparison = compare(&[[800, 400], [400, 200], [200, 100]]);
    assert_eq!(comparison.baseline, QSpinLock);
    let [tas, base] = &comparison.results[..] else {
        panic!("two locks")
    };
    let ratio = first_ratio(&comparison);
    assert_eq!(ratio.rounds, [2.0; 3]);
    assert_eq!(ratio.typical.median, 2.0);
    assert_eq!(ratio.verdict, Verdict::Faster);
    let typical = tas.throughput.as_ref().unwrap().typical;
    assert_eq!(typical.median, 400.0);
    assert_eq!(typical.interval.unwrap().method, "student_t_log");
    // Twice as much each time: 400 * 2^(+-4.3027/sqrt 3).
    assert!((typical.lo.unwrap() - 71.5).abs() < 0.1, "{typical:?}");
    assert_eq!(tas.summary.acquisitions, 1400);
    assert_eq!(tas.summary.contended, Some(700));
    let itself = base.ratio.as_ref().unwrap();
    let Typical { median, lo, hi, .. } = itself.typical;
    assert_eq!((median, lo, hi), (1.0, Some(1.0), Some(1.0)));
    assert_eq!(itself.verdict, Verdict::NoDifference);
    assert!(base.is_baseline && !tas.is_baseline);
}

#[test]
fn one_round_has_no_interval_and_no_verdict() {
    let comparison = compare(&[[1_000_000, 1000]]);
    let ratio = first_ratio(&comparison);
    let Typical { median, lo, hi, .. } = ratio.typical;
    assert_eq!((median, lo, hi), (1000.0, None, None));
    assert_eq!(ratio.verdict, Verdict::NoDifference);
    let throughput = comparison.results[0].throughput.as_ref();
    assert_eq!(throughput.unwrap().typical.lo, None);
    assert!(comparison.warning("one_round").is_some());
}

#[test]
fn of_nothing_and_nothing_there_is_no_ratio() {
    let comparison = compare(&[[0, 0], [0, 0]]);
    assert_eq!(comparison.results[0].ratio, None);
    let comparison = compare(&[[0, 0], [20, 10], [20, 10]]);
    let ratio = first_ratio(&comparison);
    assert_eq!(ratio.typical.median, 2.0);
    assert_eq!(ratio.typical.interval.unwrap().n, 2);
    let json = serde_json::to_value(ratio).unwrap();
    assert_eq!(json["rounds"], serde_json::json!([null, 2.0, 2.0]));
}

#[test]
fn a_round_without_acquisitions_yields_finite_ratios_and_a_warning() {
    let comparison = compare(&[[100, 0], [100, 10], [0, 10], [100, 10]]);
    let ratio = first_ratio(&comparison);
    assert_eq!(ratio.rounds, [200.0, 10.0, 0.05, 10.0]);
    assert!(ratio.typical.lo.unwrap().is_finite() && ratio.typical.hi.unwrap().is_finite());
    let throughput = comparison.results[1].throughput.as_ref();
    let json = serde_json::to_value(throughput).unwrap();
    assert_eq!(json["rounds"], serde_json::json!([null, 10.0, 10.0, 10.0]));
    let of = |lock: LockKind| {
        let about = |w: &&Warning| w.code == "no_acquisitions" && w.lock == Some(lock.into());
        comparison.warnings.iter().find(about).unwrap().text.clone()
    };
    assert!(of(QSpinLock).contains("in round 1;"));
    assert!(of(Tas).contains("in round 3;"));
}

#[test]
fn the_interval_contains_the_median() {
    let comparison = compare(&[[100, 100], [100, 100], [100, 100], [100, 100], [900, 100]]);
    let Typical { median, lo, hi, .. } = first_ratio(&comparison).typical;
    assert!(lo.unwrap() <= median && median <= hi.unwrap());
}

#[test]
fn verdicts_need_both_certainty_and_size() {
    for (median, lo, hi, expected, why) in [
        (1.02, 1.005, 1.04, Verdict::Faster, ""),
        (1.005, 1.004, 1.006, Verdict::NoDifference, "too small"),
        (1.50, 0.99, 2.00, Verdict::NoDifference, "too uncertain"),
        (0.98, 0.97, 0.99, Verdict::Slower, ""),
        (0.995, 0.994, 0.996, Verdict::NoDifference, "too small"),
    ] {
        assert_eq!(verdict(median, Some((lo, hi)), 0.01), expected, "{why}");
    }
    assert_eq!(super::verdict(9.0, None, 0.0), Verdict::NoDifference);
}

#[test]
fn the_same_lock_twice_gives_two_results() {
    let rounds = vec![vec![record(Tas, 100), record(Tas, 101)]; 2];
    let comparison = Comparison::new(plan(&[Tas, Tas], 0), &rounds, Ended::Complete, None);
    let results = comparison.results.iter();
    let names: Vec<_> = results.map(|r| (r.lock.name(), r.is_baseline)).collect();
    assert_eq!(names, [("tas".into(), true), ("tas".into(), false)]);
}

#[test]
fn a_broken_lock_is_reported_though_no_round_is_complete() {
    let mut broken = record(Tas, 1000);
    broken.vms[0].exclusion.violations = Some(1);
    let broken = (0, broken);
    let plan = plan(&[Tas, QSpinLock], 1);
    let comparison = Comparison::new(plan, &[], Ended::ExclusionBroken, Some(&broken));
    let [tas, other] = &comparison.results[..] else {
        panic!("two locks")
    };
    assert_eq!(tas.summary.exclusion, Exclusion::Broken);
    assert_eq!(other.summary.exclusion, Exclusion::Held);
    assert!(tas.throughput.is_none() && tas.ratio.is_none());
}

#[test]
fn a_lock_that_nobody_waited_for_says_so() {
    // One acquisition each: the fixture counts half of them, rounded down, as contended.
    let comparison = compare(&[[2, 100], [2, 100]]);
    let warning = comparison.warning("never_contended").unwrap();
    assert_eq!(warning.lock, Some(Tas.into()));
    assert!(warning.text.contains("0 contended acquisitions"));
}

#[test]
fn a_paravirtual_lock_that_never_halted_says_so() {
    let comparison = alone(PvQSpinLock, vec![record(PvQSpinLock, 100); 2]);
    assert!(comparison.warning("never_halted").is_some());
}

#[test]
fn placement_that_leaves_cpus_idle_is_warned_about() {
    use crate::scenario::{Placement, VmSpec};
    let mut plan = plan(&[Tas], 0);
    let (idle, uneven) = ("placement_leaves_cpus_idle", "placement_uneven");
    let lock = Tas.into();
    for (placement, vcpus, code, why) in [
        (Placement::Map(vec![0, 0]), 2, Some(idle), ""),
        (Placement::Map(vec![0, 0, 1]), 3, Some(uneven), ""),
        (Placement::Pinned, 8, None, ""),
        (Placement::Pinned, 1, None, "idle, but nobody waits for it"),
        (Placement::Floating, 3, None, "the host decides"),
    ] {
        plan.run.placement = placement;
        plan.run.vms = vec![VmSpec { lock, vcpus }];
        let warnings = of_scenario(&plan.run);
        assert_eq!(warnings.first().map(|warning| warning.code), code, "{why}");
    }
}

#[test]
fn a_host_that_does_something_else_is_noticed() {
    let busy = |cpu_ns: Option<u64>, others, lock| {
        let mut record = record(lock, 1000);
        record.vms[0].vcpus[0].cpu_ns = cpu_ns;
        record.surroundings = Some(Surroundings {
            others_cpus: others,
            ..Surroundings::default()
        });
        alone(lock, vec![record; 2]).warning("host_busy").is_some()
    };
    // Two CPUs for a second.
    for (cpu_ms, others, lock, expected, why) in [
        (Some(1_500), None, Tas, true, ""),
        (Some(1_950), None, Tas, false, ""),
        (Some(1_500), Some(0.1), PvQSpinLock, false, "it may halt"),
        (Some(1_500), Some(0.5), PvQSpinLock, true, "others had it"),
        (None, None, Tas, false, "unknown"),
        (None, None, PvQSpinLock, false, "unknown"),
    ] {
        let cpu_ns = cpu_ms.map(|ms: u64| ms * 1_000_000);
        assert_eq!(busy(cpu_ns, others, lock), expected, "{lock}: {why}");
    }
}

#[test]
fn yields_that_mostly_give_nothing_are_warned_about() {
    for (futile, warned) in [(51, true), (50, false)] {
        let mut record = record(Tas, 20);
        let yields = counters(&[(Counter::Yields, 100), (Counter::FutileYields, futile)]);
        record.vms[0].vcpus[0].whole.counters.extend(yields);
        let warnings = warnings_of_run(&record, &Summary::of_vms(&record));
        let found = warnings.iter().find(|w| w.code == "yields_futile");
        assert_eq!(found.is_some(), warned);
        if let Some(warning) = found {
            assert!(warning.text.contains("51 of 100"), "{}", warning.text);
        }
    }
}

#[test]
fn a_switch_that_changed_nothing_is_warned_about() {
    for (told, reported) in [(false, false), (false, true), (true, false)] {
        let warned = !told && !reported;
        let mut record = record(Tas, 20);
        record.scenario.vcpu_is_preempted = told;
        record.vms[0].preempted_reported = reported;
        let mut plan = plan(&[Tas], 0);
        plan.run.vcpu_is_preempted = told;
        let of_rounds = warning::of_rounds(&plan, &[vec![record.clone()]]);
        let of_run = warnings_of_run(&record, &Summary::of_vms(&record));
        for warnings in [of_run, of_rounds] {
            let found = |w: &Warning| w.code == "vcpu_is_preempted_unknown";
            assert_eq!(warnings.iter().any(found), warned, "{warnings:?}");
        }
    }
}
