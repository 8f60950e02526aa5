//! Differences of reports that are written here, with known truths.

use super::result::Difference;
use super::saved::{Saved, SavedError};
use crate::command::compare::result::Verdict;
use crate::figures::stats::Random;
use crate::options::Ends as _;
use crate::report::{Format, Report as _};
use serde_json::{Value, json};

/// A report with those locks and rounds.
fn report(locks: &[(&str, &[f64])]) -> Value {
    let results = locks.iter().map(|(lock, rounds)| {
        json!({
            "lock": lock,
            "throughput": {"median": crate::figures::stats::median(*rounds), "rounds": rounds},
            "acquisitions": 1_000_000,
            "fairness": {"jain": 0.9},
            "wait_ns": {"p999": 1000, "max": 4_000_000},
        })
    });
    json!({
        "schema": "pvlab.compare/1",
        "machine": "threads",
        "host": {"kernel": "6.1", "limits": {"nice": 0}},
        "scenario": {"locks": [], "run": {"vms": [{"lock": "tas", "vcpus": 8}]}},
        "ended": "complete",
        "results": results.collect::<Vec<_>>(),
        "warnings": [],
    })
}

fn saved(report: &Value, file: &str) -> Saved {
    Saved::parse(&report.to_string(), file.into()).unwrap()
}

fn diff(old: &Value, new: &Value, relative_to: Option<&str>) -> Difference {
    Difference::of(
        &saved(old, "old.json"),
        &saved(new, "new.json"),
        relative_to,
        0.01,
    )
    .unwrap()
}

#[test]
fn ten_percent_are_found_and_nothing_is_not() {
    let old = report(&[("tas", &[100.0, 101.0, 99.0, 100.5, 99.5])]);
    let same = diff(&old, &old, None);
    assert_eq!(same.locks[0].verdict, Verdict::NoDifference);
    assert!(!same.is_slower_by(0.0) && same.conditions.is_empty());
    let slower = report(&[("tas", &[90.0, 91.0, 89.0, 90.5, 89.5])]);
    let found = diff(&old, &slower, None);
    assert_eq!(found.locks[0].verdict, Verdict::Slower);
    assert!(found.is_slower_by(0.05) && !found.is_slower_by(0.15));
    assert_eq!(diff(&slower, &old, None).locks[0].verdict, Verdict::Faster);
}

/// With the spread of rounds on a quiet host, 2 %, over many pairs of runs with 5 rounds each.
#[test]
fn most_pairs_of_runs_are_judged_rightly() {
    const PAIRS: u32 = 1000;
    let mut random = Random::new(7);
    let mut run = |typical: f64| {
        let rounds: Vec<f64> = (0..5)
            .map(|_| typical * (0.02 * random.normal()).exp())
            .collect();
        report(&[("tas", &rounds)])
    };
    let (mut different, mut found) = (0, 0);
    for _ in 0..PAIRS {
        let (old, again, slower) = (run(1e6), run(1e6), run(0.9e6));
        different += u32::from(diff(&old, &again, None).locks[0].verdict != Verdict::NoDifference);
        found += u32::from(diff(&old, &slower, None).locks[0].verdict == Verdict::Slower);
    }
    assert!(different <= PAIRS / 20, "{different} of {PAIRS}");
    assert!(found >= PAIRS * 19 / 20, "{found} of {PAIRS}");
}

#[test]
fn a_host_that_was_slower_is_taken_out_by_a_lock_that_nobody_has_touched() {
    let old = report(&[
        ("tas", &[100.0, 110.0, 90.0]),
        ("mcs", &[200.0, 221.0, 179.0]),
    ]);
    let new = report(&[
        ("tas", &[70.0, 77.0, 63.0]),
        ("mcs", &[140.0, 154.0, 126.5]),
    ]);
    let apart = diff(&old, &new, None);
    assert!(
        apart
            .locks
            .iter()
            .all(|lock| lock.verdict == Verdict::Slower)
    );
    assert!(
        apart.warnings[0].contains("--relative-to"),
        "{:?}",
        apart.warnings
    );
    let relative = diff(&old, &new, Some("tas"));
    assert_eq!(relative.locks.len(), 1, "not tas to itself");
    assert_eq!(relative.locks[0].verdict, Verdict::NoDifference);
    assert!(relative.warnings.is_empty(), "{:?}", relative.warnings);
}

#[test]
fn what_was_not_the_same_is_named() {
    let old = report(&[("tas", &[1.0, 1.0]), ("mcs", &[1.0, 1.0])]);
    let mut new = report(&[("tas", &[1.0]), ("ticket", &[1.0, 1.0])]);
    new["host"]["kernel"] = "6.2".into();
    new["scenario"]["run"]["vms"][0]["vcpus"] = 4.into();
    new["ended"] = "interrupted".into();
    new["results"][0]["acquisitions"] = 12.into();
    let found = diff(&old, &new, None);
    let what: Vec<_> = found.conditions.iter().map(|c| &*c.what).collect();
    assert_eq!(what, ["host.kernel", "scenario.run.vms[0].vcpus"]);
    let said = found.warnings.join("\n");
    for part in [
        "new.json is of a run that did not end: interrupted",
        "tas has 12 acquisitions in all",
        "only old.json has mcs",
        "only new.json has ticket",
        "a single round",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        found
            .render(Format::Table)
            .contains("not the same: host.kernel, \"6.1\" and \"6.2\"")
    );
}

#[test]
fn a_lock_that_stood_still_has_no_ratio() {
    let old = report(&[("tas", &[0.0, 0.0])]);
    let mut nulls = old.clone();
    nulls["results"][0]["throughput"] = json!({"median": null, "rounds": [null, null]});
    let found = diff(&nulls, &report(&[("tas", &[5.0, 6.0])]), None);
    assert!(!found.locks[0].ratio.is_finite());
    let json: Value = serde_json::from_str(&found.render(Format::Json)).unwrap();
    assert_eq!(json["locks"][0]["ratio"], Value::Null);
    assert!(found.render(Format::Table).contains("none"));
}

#[test]
fn files_that_are_no_such_report_are_refused() {
    let good = report(&[("tas", &[1.0, 2.0])]);
    let parse = |text: &str| Saved::parse(text, "f".into()).unwrap_err();
    let with = |key: &str, value: Value| {
        let mut bad = good.clone();
        bad[key] = value;
        parse(&bad.to_string())
    };
    let text = serde_json::to_string_pretty(&good).unwrap();
    let cut = parse(&text[..text.len() / 2]);
    assert!(matches!(cut, SavedError::NoJson { line: 2.., .. }), "{cut}");
    for (error, part) in [
        (with("schema", "pvlab.compare/2".into()), "versions up to 1"),
        (with("schema", "pvlab.run/1".into()), "no report of"),
        (with("schema", Value::Null), "schema is none"),
        (with("results", json!([])), "no results"),
        (with("results", json!(3)), "damaged"),
    ] {
        let said = error.to_string();
        assert!(said.contains(part) && !said.contains('\n'), "{said}");
        assert_eq!(error.exit_code(), 2);
    }
    let mut edited = good.clone();
    edited["results"][0]["throughput"]["median"] = 9.0.into();
    let said = parse(&edited.to_string()).to_string();
    assert!(said.contains("is not that of its rounds"), "{said}");
}
