//! The critical section that is asked for is the one that is run, and nothing is claimed that was not looked at.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod machines;

use commands::{ended, json, pvlab, stderr, stdout};
use machines::machines;
use serde_json::Value;

/// The report of a run that has succeeded.
fn report(line: &str) -> Value {
    let output = pvlab(&format!("{line} --format json"));
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    json(stdout(&output))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// How far `found` is from `asked`, as a share of it.
fn off(found: &Value, asked: f64) -> f64 {
    (number(found) - asked).abs() / asked
}

const DATA: [&str; 3] = ["own-line", "same-line", "none"];

#[test]
fn a_simulated_section_is_as_long_as_asked_wherever_the_data_lies_and_whatever_is_timed() {
    for data in DATA {
        for timed in ["", "--no-latency"] {
            // A line comes while the work is done, if that takes as long: of 1 us there is enough.
            let several = if data == "none" { 130.0 } else { 1000.0 };
            for (vcpus, asked, limit) in [(1, 130.0, 0.08), (1, 1000.0, 0.08), (8, several, 0.15)] {
                for lock in ["tas", "ticket", "qspinlock", "pv-qspinlock"] {
                    let line = format!(
                        "run --machine sim:here --cpus 0-1 --lock {lock} --vcpus {vcpus} --data {data} \
                         --critical {asked}ns {timed} --warm-up 1ms --duration 5ms"
                    );
                    let report = report(&line);
                    let summary = &report["summaries"][0];
                    let found = off(&summary["critical_ns"], asked);
                    assert!(found < limit, "{line}: {}", summary["critical_ns"]);
                    let found = off(&summary["outside_ns"], 130.0);
                    assert!(
                        vcpus > 1 || found < 0.08,
                        "{line}: {}",
                        summary["outside_ns"]
                    );
                    let warnings = report["warnings"].to_string();
                    assert!(
                        !warnings.contains("section_not_as_asked"),
                        "{line}: {warnings}"
                    );
                }
            }
        }
    }
}

#[test]
fn one_calibration_is_all_vms_and_all_vcpus() {
    for machine in machines(4) {
        let line = format!(
            "run --machine {machine} --vm lock=tas,vcpus=2 --vm lock=qspinlock,vcpus=2 --warm-up 20ms \
             --duration 100ms"
        );
        let report = report(&line);
        let record = &report["record"];
        let calibration = &record["calibration"];
        for cost in ["unit_ns", "look_ns"] {
            assert!(number(&calibration[cost]) > 0.0, "{line}: {calibration}");
        }
        for cost in ["section_ns", "outside_ns"] {
            assert!(number(&calibration[cost]) < 1000.0, "{line}: {calibration}");
        }
        for vm in record["vms"].as_array().unwrap() {
            for vcpu in vm["vcpus"].as_array().unwrap() {
                if vcpu["counters"]["acquisitions"].as_u64().is_some() {
                    // However busy this host is: nobody has calibrated for itself while others ran, so that
                    // no unit is several times as long as another.
                    let section = number(&vcpu["critical_ns"]);
                    assert!((60.0..1000.0).contains(&section), "{line}: {vcpu}");
                }
            }
        }
        for summary in report["summaries"].as_array().unwrap() {
            let range = summary["critical_range_ns"].as_array().unwrap();
            assert!(number(&range[0]) <= number(&range[1]));
        }
    }
}

#[test]
fn an_emulated_guest_works_without_calibration_and_says_so() {
    if !machines(2).contains(&"kvm") {
        return;
    }
    let line = "run --machine kvm --cpl 0 --lock tas --vcpus 2 --warm-up 20ms --duration 100ms";
    let report = report(line);
    assert!(number(&report["summaries"][0]["acquisitions"]) > 0.0);
    let native = vmm::cpl::detect().unwrap() == vmm::Cpl::Cpl0;
    assert_eq!(report["record"]["calibration"].is_null(), !native);
}

#[test]
fn each_timed_acquisition_is_one_wait() {
    for machine in machines(2) {
        let line = format!(
            "run --machine {machine} --lock ticket --vcpus 2 --iterations 3000 --warm-up 20ms"
        );
        for vcpu in report(&line)["record"]["vms"][0]["vcpus"]
            .as_array()
            .unwrap()
        {
            assert_eq!(vcpu["counters"]["acquisitions"], 3000, "{line}");
        }
    }
}

#[test]
fn what_is_not_checked_is_not_said_to_hold() {
    let mut all = machines(2);
    all.push("sim:here");
    for machine in all {
        for (lock, option) in [("tas", "--no-check"), ("busted", "--data none")] {
            let line = format!(
                "run --machine {machine} --lock {lock} --vcpus 2 {option} --warm-up 10ms --duration 30ms"
            );
            let found = report(&line);
            assert_eq!(found["exclusion"], "not_checked", "{line}");
            let summary = &found["summaries"][0];
            assert_eq!(summary["exclusion"], "not_checked", "{line}");
            assert_eq!(summary["violations"], Value::Null, "{line}");
            assert_eq!(summary["lost_entries"], Value::Null, "{line}");
            let check = &found["record"]["vms"][0]["exclusion"];
            assert_eq!(check["entries"], Value::Null, "{line}: nothing was counted");
            assert_eq!(check["violations"], Value::Null, "{line}");
            assert!(number(&check["acquisitions"]) > 0.0, "{line}");
            let table = pvlab(&line);
            assert!(stdout(&table).contains("exclusion not checked"), "{line}");
        }
        for data in ["own-line", "same-line"] {
            let line = format!(
                "run --machine {machine} --lock tas --vcpus 2 --data {data} --warm-up 10ms --duration 30ms"
            );
            let found = report(&line);
            assert_eq!(found["exclusion"], "held", "{line}");
            let check = &found["record"]["vms"][0]["exclusion"];
            assert_eq!(check["entries"], check["acquisitions"], "{line}");
        }
    }
    let line = "compare --machine sim:here --locks tas,ticket --vcpus 2 --no-check --rounds 2 \
                --warm-up 1ms --duration 1ms";
    let report = report(line);
    assert_eq!(report["exclusion"], "not_checked");
    assert!(pvlab(&format!("{line} --format csv")).status.success());
}

#[test]
fn a_broken_lock_is_seen_in_either_line() {
    for data in ["own-line", "same-line"] {
        let line = format!(
            "run --machine sim:here --lock busted --vcpus 2 --data {data} --critical 1us --warm-up 1ms \
             --duration 2ms"
        );
        assert_eq!(pvlab(&line).status.code(), Some(3), "{line}");
    }
}

#[test]
fn wrong_wishes_about_data_are_usage_errors() {
    for (options, why) in [
        (
            "--lock tas --no-check --data own-line",
            "--no-check leaves the data alone",
        ),
        ("--lock tas --data somewhere", "own-line"),
        ("--lock tas --outside 130ns:gauss", "TIME:exp"),
        ("--lock tas --critical 4.2", "no unit"),
    ] {
        let output = pvlab(&format!("run --machine sim:here {options}"));
        ended(&output, 2, options, &[why]);
    }
    let both =
        "run --machine sim:here --lock tas --no-check --data none --duration 1ms --warm-up 1ms";
    assert_eq!(report(both)["exclusion"], "not_checked");
}

#[test]
fn a_lock_that_fills_its_line_leaves_no_room_for_data() {
    let (mut fit, mut full) = (0, 0);
    for lock in [
        "tas",
        "qspinlock",
        "mcs",
        "rwlock",
        "qrwlock",
        "mutex",
        "rwsem",
        "rwsem-xadd",
    ] {
        let line = format!(
            "run --machine sim:here --lock {lock} --vcpus 2 --data same-line --warm-up 1ms --duration 1ms"
        );
        let output = pvlab(&line);
        match output.status.code() {
            Some(0) => fit += 1,
            Some(2) => {
                full += 1;
                let errors = stderr(&output);
                assert!(
                    errors.contains(lock) && errors.contains("bytes"),
                    "{errors}"
                );
            }
            other => panic!("{line}: {other:?} {}", stderr(&output)),
        }
    }
    assert!(fit > 4, "{fit} fit, {full} do not");
}

#[test]
fn fractions_are_taken_wherever_there_is_work() {
    let sim = "--machine sim:here --vcpus 2 --warm-up 1ms --duration 1ms";
    let run = report(&format!(
        "run {sim} --lock tas --critical 4.2ns --outside 0.5ns:exp --no-latency"
    ));
    let workload = &run["record"]["scenario"]["workload"];
    assert_eq!(
        (&workload["critical_ns"], &workload["outside_ns"]),
        (&4.2.into(), &0.5.into())
    );
    assert_eq!(workload["outside_spread"], "exp");
    for line in [
        format!("compare {sim} --locks tas --rounds 1 --critical 4.2ns --outside 1.5us:exp"),
        format!(
            "sim {sim} --locks tas --critical 4.2ns --outside 1us:exp --sweep kick_ns=1.5ns,2.5us"
        ),
        "bench rwsem-bench --machine sim:here --locks rwsem --threads 2 --loads 4.2ns,1.5us \
         --ratios 1:1 --ops 50 --rounds 1 --warm-up 1ms --outside 1.5ns:exp --mix random"
            .to_owned(),
    ] {
        let text = report(&line).to_string();
        assert!(!text.is_empty(), "{line}");
    }
    let output = pvlab(&format!(
        "trace {sim} --lock tas --critical 4.2ns --outside 100.5ns:exp --no-check --format json-lines"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn random_work_outside_has_its_mean_and_its_seed() {
    let line = |seed: u64| {
        format!(
            "run --machine sim:here --lock tas --vcpus 1 --cpus 0 --outside 2us:exp --seed {seed} \
             --warm-up 1ms --duration 40ms"
        )
    };
    let one = report(&line(1));
    let turns = number(&one["summaries"][0]["acquisitions"]);
    // Section, and 2 us on average; what the lock itself takes is little beside.
    let turn = 40e6 / turns;
    assert!((turn / 2130.0 - 1.0).abs() < 0.05, "{turn} ns");
    let again = report(&line(1));
    assert_eq!(one["record"]["vms"], again["record"]["vms"]);
    assert_ne!(one["record"]["vms"], report(&line(2))["record"]["vms"]);
}

#[test]
fn a_microbenchmark_is_charged_for_its_data_and_its_thinking() {
    let operations = |options: &str| {
        let line = format!(
            "bench rwsem-bench --machine sim:here --cpus 0-1 --locks tas --threads 2 --modes wlock \
             --loads 0 --rounds 1 --warm-up 1ms --duration 5ms {options}"
        );
        let report = report(&line);
        number(&report["cells"][0]["runs"][0]["operations"])
    };
    let (touched, untouched) = (operations("--data own-line"), operations("--no-check"));
    assert!(touched < 0.97 * untouched, "{touched} {untouched}");
    let thinking = operations("--no-check --outside 10us");
    // Two threads, each at most one operation in 10 us.
    assert!(thinking <= 2.0 * 500.0 + 2.0, "{thinking}");
    let random = operations("--no-check --outside 10us:exp");
    assert!(
        (0.8..1.25).contains(&(random / thinking)),
        "{random} {thinking}"
    );
}

#[test]
fn trials_before_the_run_leave_nothing_behind() {
    // The whole of a run with one lock: what was tried before it is not among the entries counted.
    for machine in machines(1) {
        for timed in ["", "--no-latency"] {
            let line = format!(
                "run --machine {machine} --lock tas --vcpus 1 --cpus 0 --iterations 5000 --warm-up 0 {timed}"
            );
            let report = report(&line);
            let check = &report["record"]["vms"][0]["exclusion"];
            assert_eq!(check["entries"], check["acquisitions"], "{line}");
        }
    }
}
