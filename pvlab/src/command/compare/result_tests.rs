//! Tests of [`super`]: by hand, and by simulation of what noise does to verdicts.

use super::*;
use crate::command::compare::plan::fixture::plan;
use crate::figures::fixture::{record, vm};
use crate::figures::stats::Random;
use crate::record::{Ended, Surroundings, VmRecord};
use crate::scenario::Mix;
use abi::Counter;
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas};

fn rounds(table: &[[u64; 2]]) -> Vec<Vec<Record>> {
    table
        .iter()
        .map(|row| vec![record(Tas, row[0]), record(QSpinLock, row[1])])
        .collect()
}

fn compare(table: &[[u64; 2]]) -> Comparison {
    Comparison::new(
        plan(&[Tas, QSpinLock], 1),
        &rounds(table),
        Ended::Complete,
        None,
    )
}

#[test]
fn ratios_are_taken_within_each_round() {
    // Rounds get slower by half each time, as if the host were throttled; the ratio stays 2.
    let comparison = compare(&[[800, 400], [400, 200], [200, 100]]);
    assert_eq!(comparison.baseline(), "qspinlock");
    let [tas, base] = &comparison.results[..] else {
        panic!("two locks")
    };
    let ratio = tas.ratio.as_ref().unwrap();
    assert_eq!(ratio.rounds, [2.0; 3]);
    assert_eq!(
        (ratio.typical.median, ratio.verdict),
        (2.0, Verdict::Faster)
    );
    let throughput = tas.throughput.as_ref().unwrap();
    assert_eq!(
        (
            throughput.typical.median,
            throughput.typical.interval.unwrap().method
        ),
        (400.0, "student_t_log")
    );
    // Twice as much each time: 400 * 2^(+-4.3027/sqrt 3).
    assert!(
        (throughput.typical.lo.unwrap() - 71.5).abs() < 0.1,
        "{throughput:?}"
    );
    assert_eq!(tas.summary.acquisitions, 1400);
    assert_eq!(tas.summary.contended, 700);
    let itself = base.ratio.as_ref().unwrap();
    assert_eq!(
        (itself.typical.median, itself.typical.lo, itself.typical.hi),
        (1.0, Some(1.0), Some(1.0))
    );
    assert_eq!(itself.verdict, Verdict::NoDifference);
    assert!(base.is_baseline && !tas.is_baseline);
}

#[test]
fn one_round_has_no_interval_and_no_verdict() {
    let comparison = compare(&[[1_000_000, 1000]]);
    let ratio = comparison.results[0].ratio.as_ref().unwrap();
    assert_eq!(
        (ratio.typical.median, ratio.typical.lo, ratio.typical.hi),
        (1000.0, None, None)
    );
    assert_eq!(ratio.verdict, Verdict::NoDifference);
    assert_eq!(
        comparison.results[0]
            .throughput
            .as_ref()
            .unwrap()
            .typical
            .lo,
        None
    );
    assert!(
        comparison
            .warnings
            .iter()
            .any(|warning| warning.code == "one_round")
    );
}

#[test]
fn of_nothing_and_nothing_there_is_no_ratio() {
    let comparison = compare(&[[0, 0], [0, 0]]);
    assert_eq!(comparison.results[0].ratio, None);
    let comparison = compare(&[[0, 0], [20, 10], [20, 10]]);
    let ratio = comparison.results[0].ratio.as_ref().unwrap();
    assert_eq!(
        (ratio.typical.median, ratio.typical.interval.unwrap().n),
        (2.0, 2)
    );
    let json = serde_json::to_value(ratio).unwrap();
    assert_eq!(json["rounds"], serde_json::json!([null, 2.0, 2.0]));
}

#[test]
fn a_round_without_acquisitions_yields_finite_ratios_and_a_warning() {
    let comparison = compare(&[[100, 0], [100, 10], [0, 10], [100, 10]]);
    let ratio = comparison.results[0].ratio.as_ref().unwrap();
    assert_eq!(ratio.rounds, [200.0, 10.0, 0.05, 10.0]);
    assert!(ratio.typical.lo.unwrap().is_finite() && ratio.typical.hi.unwrap().is_finite());
    let throughput = comparison.results[1].throughput.as_ref();
    let json = serde_json::to_value(throughput).unwrap();
    assert_eq!(json["rounds"], serde_json::json!([null, 10.0, 10.0, 10.0]));
    let of = |lock: &str| {
        let mut texts = comparison
            .warnings
            .iter()
            .filter(|w| w.code == "no_acquisitions");
        texts
            .find(|w| w.lock.as_deref() == Some(lock))
            .unwrap()
            .text
            .clone()
    };
    assert!(of("qspinlock").contains("in round 1;"));
    assert!(of("tas").contains("in round 3;"));
}

#[test]
fn the_interval_contains_the_median() {
    let comparison = compare(&[[100, 100], [100, 100], [100, 100], [100, 100], [900, 100]]);
    let ratio = comparison.results[0].ratio.as_ref().unwrap();
    assert!(
        ratio.typical.lo.unwrap() <= ratio.typical.median
            && ratio.typical.median <= ratio.typical.hi.unwrap(),
        "{ratio:?}"
    );
}

#[test]
fn verdicts_need_both_certainty_and_size() {
    let verdict = |median, lo, hi| super::verdict(median, Some((lo, hi)), 0.01);
    assert_eq!(verdict(1.02, 1.005, 1.04), Verdict::Faster);
    assert_eq!(
        verdict(1.005, 1.004, 1.006),
        Verdict::NoDifference,
        "too small"
    );
    assert_eq!(
        verdict(1.50, 0.99, 2.00),
        Verdict::NoDifference,
        "too uncertain"
    );
    assert_eq!(verdict(0.98, 0.97, 0.99), Verdict::Slower);
    assert_eq!(
        verdict(0.995, 0.994, 0.996),
        Verdict::NoDifference,
        "too small"
    );
    assert_eq!(super::verdict(9.0, None, 0.0), Verdict::NoDifference);
}

#[test]
fn the_same_lock_twice_gives_two_results() {
    let rounds = vec![vec![record(Tas, 100), record(Tas, 101)]; 2];
    let comparison = Comparison::new(plan(&[Tas, Tas], 0), &rounds, Ended::Complete, None);
    let names: Vec<_> = comparison
        .results
        .iter()
        .map(|r| (r.lock.as_str(), r.is_baseline))
        .collect();
    assert_eq!(names, [("tas", true), ("tas", false)]);
}

#[test]
fn a_broken_lock_is_reported_though_no_round_is_complete() {
    use crate::figures::summary::Exclusion;
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
    let warning = comparison
        .warnings
        .iter()
        .find(|w| w.code == "never_contended")
        .unwrap();
    assert_eq!(warning.lock.as_deref(), Some("tas"));
    assert!(warning.text.contains("0 contended acquisitions"));
}

#[test]
fn a_paravirtual_lock_that_never_halted_says_so() {
    let rounds = vec![vec![record(PvQSpinLock, 100)]; 2];
    let comparison = Comparison::new(plan(&[PvQSpinLock], 0), &rounds, Ended::Complete, None);
    assert!(comparison.warnings.iter().any(|w| w.code == "never_halted"));
}

#[test]
fn placement_that_leaves_cpus_idle_is_warned_about() {
    use crate::scenario::{Placement, VmSpec};
    let mut plan = plan(&[Tas], 0);
    let mut code = |placement, vcpus| {
        plan.run.placement = placement;
        plan.run.vms = vec![VmSpec {
            lock: Tas.into(),
            vcpus,
        }];
        let warnings = warning::of_scenario(&plan.run);
        warnings.first().map(|warning| warning.code)
    };
    assert_eq!(
        code(Placement::Map(vec![0, 0]), 2),
        Some("placement_leaves_cpus_idle")
    );
    assert_eq!(
        code(Placement::Map(vec![0, 0, 1]), 3),
        Some("placement_uneven")
    );
    assert_eq!(code(Placement::Pinned, 8), None);
    assert_eq!(
        code(Placement::Pinned, 1),
        None,
        "an idle CPU that nobody waits for"
    );
    assert_eq!(code(Placement::Floating, 3), None, "the host decides");
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
        let rounds = vec![vec![record.clone()], vec![record]];
        let comparison = Comparison::new(plan(&[lock], 0), &rounds, Ended::Complete, None);
        comparison
            .warnings
            .iter()
            .any(|warning| warning.code == "host_busy")
    };
    // Two CPUs for a second.
    assert!(busy(Some(1_500_000_000), None, Tas));
    assert!(!busy(Some(1_950_000_000), None, Tas));
    assert!(
        !busy(Some(1_500_000_000), Some(0.1), PvQSpinLock),
        "it may have halted"
    );
    assert!(
        busy(Some(1_500_000_000), Some(0.5), PvQSpinLock),
        "others had the CPU"
    );
    assert!(!busy(None, None, Tas), "unknown");
    assert!(!busy(None, None, PvQSpinLock), "unknown");
}

/// Five rounds of a lock, each with its noise.
fn noisy(
    random: &mut Random,
    noise: &mut dyn FnMut(&mut Random) -> f64,
    level: f64,
) -> Vec<VmRecord> {
    let mut acquisitions = || {
        let value = level * noise(random);
        // Whole acquisitions of one vCPU.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive"
        )]
        let value = value.max(1.0) as u64;
        vm("tas", &[value])
    };
    (0..5).map(|_| acquisitions()).collect()
}

/// How often, of `trials` comparisons of a lock with one `factor` times as fast, a difference is
/// called.
fn calls(trials: u32, factor: f64, mut noise: impl FnMut(&mut Random) -> f64) -> (u32, u32) {
    let mut random = Random::new(20);
    let (mut faster, mut slower) = (0, 0);
    for _ in 0..trials {
        let a = noisy(&mut random, &mut noise, 1e6 * factor);
        let b = noisy(&mut random, &mut noise, 1e6);
        fn runs(vms: &[VmRecord]) -> Vec<Run<'_>> {
            vms.iter()
                .map(|vm| Run {
                    vm,
                    measured_s: 1.0,
                    mix: Mix::Exclusive,
                })
                .collect()
        }
        match ratio(&runs(&a), &runs(&b), 0.0).unwrap().verdict {
            Verdict::Faster => faster += 1,
            Verdict::Slower => slower += 1,
            Verdict::NoDifference => {}
        }
    }
    (faster, slower)
}

/// Four standard errors above 5 % of 4000 trials: the test's seed is fixed, so it cannot fail by
/// chance, but it would fail with a method that calls 7 % or more.
const TOLERATED: u32 = 200 + 4 * 14;

#[test]
fn equal_locks_differ_in_at_most_one_of_twenty_comparisons_with_normal_noise() {
    let (faster, slower) = calls(4000, 1.0, |random| 1.0 + 0.1 * random.normal());
    assert!(faster + slower <= TOLERATED, "{faster} + {slower}");
}

#[test]
fn equal_locks_differ_in_at_most_one_of_twenty_comparisons_with_skewed_noise() {
    // Preemption now and then costs a run a large part of its throughput.
    let (faster, slower) = calls(4000, 1.0, |random| 1.0 / (1.0 - 0.5 * random.unit().ln()));
    assert!(faster + slower <= TOLERATED, "{faster} + {slower}");
    // Rarely, and then by much.
    let (faster, slower) = calls(4000, 1.0, |random| {
        if random.below(10) == 0 {
            0.2
        } else {
            1.0 + 0.02 * random.normal()
        }
    });
    assert!(faster + slower <= TOLERATED, "{faster} + {slower}");
}

#[test]
fn a_lock_twice_as_fast_is_always_found_in_noise_of_a_tenth() {
    assert_eq!(
        calls(1000, 2.0, |random| 1.0 + 0.1 * random.normal()),
        (1000, 0)
    );
    assert_eq!(
        calls(1000, 0.5, |random| 1.0 + 0.1 * random.normal()),
        (0, 1000)
    );
}

#[test]
fn yields_that_mostly_give_nothing_are_warned_about() {
    for (futile, warned) in [(51, true), (50, false)] {
        let mut record = record(Tas, 20);
        for (counter, n) in [(Counter::Yields, 100), (Counter::FutileYields, futile)] {
            let counters = &mut record.vms[0].vcpus[0].whole.counters;
            counters.insert(counter.name().to_owned(), n);
        }
        let warnings = crate::figures::warnings_of_run(&record);
        let found = warnings.iter().find(|w| w.code == "yields_futile");
        assert_eq!(found.is_some(), warned);
        if let Some(warning) = found {
            assert!(warning.text.contains("51 of 100"), "{}", warning.text);
        }
    }
}

#[test]
fn a_switch_that_changed_nothing_is_warned_about() {
    for (told, reported, warned) in [
        (false, false, true),
        (false, true, false),
        (true, false, false),
    ] {
        let mut record = record(Tas, 20);
        record.scenario.vcpu_is_preempted = told;
        record.vms[0].preempted_reported = reported;
        let mut plan = plan(&[Tas], 0);
        plan.run.vcpu_is_preempted = told;
        let of_rounds = super::super::warning::of_rounds(&plan, &[vec![record.clone()]]);
        for warnings in [crate::figures::warnings_of_run(&record), of_rounds] {
            let found = |w: &warning::Warning| w.code == "vcpu_is_preempted_unknown";
            assert_eq!(warnings.iter().any(found), warned, "{warnings:?}");
        }
    }
}
