//! How long waiters spin, as a time.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{ended, ended_in_a_line, json, pvlab, stdout};
use serde_json::Value;

fn machines() -> Vec<&'static str> {
    let mut machines = vec!["threads", "sim:here"];
    if std::path::Path::new("/dev/kvm").exists() {
        machines.push("kvm");
    }
    machines
}

fn spinning(machine: &str, options: &str) -> Value {
    let line = format!(
        "run --machine {machine} {options} --vcpus 3 --cpus 0 --duration 30ms --warm-up 1ms --format json"
    );
    let output = pvlab(&line);
    ended(&output, 0, &line, &[]);
    json(stdout(&output))["summaries"][0]["spinning"].clone()
}

#[test]
fn a_time_becomes_turns_on_every_machine() {
    for machine in machines() {
        let short = spinning(machine, "--lock pv-qspinlock --spin-threshold 20us");
        let long = spinning(machine, "--lock pv-qspinlock --spin-threshold 200us");
        assert_eq!(
            (&short["time_ns"], &long["time_ns"]),
            (&20_000.0.into(), &200_000.0.into())
        );
        let turns = |spinning: &Value| spinning["turns"].as_f64().unwrap();
        // A turn takes between 1 ns and 2 us wherever this runs.
        assert!(
            (10.0..20_000.0).contains(&turns(&short)),
            "{machine}: {short}"
        );
        // Each run finds out for itself how long a turn takes.
        let ratio = turns(&long) / turns(&short);
        assert!((2.0..50.0).contains(&ratio), "{machine}: {short}, {long}");
    }
}

#[test]
fn pv_next_spins_as_long_as_a_halt_takes_and_others_as_long_as_linux() {
    for machine in machines() {
        let auto = spinning(machine, "--lock pv-next");
        assert!(
            auto["time_ns"].as_f64().unwrap() > 100.0,
            "{machine}: {auto}"
        );
        assert!(spinning(machine, "--lock pv-qspinlock").is_null());
        assert!(spinning(machine, "--lock pv-next --spin-threshold 256").is_null());
        assert!(spinning(machine, "--lock tas").is_null());
    }
}

/// Waiting loops are where interrupts come, but not while a vCPU finds out how long a turn takes.
#[test]
fn contexts_do_not_disturb_the_calibration() {
    for machine in machines() {
        spinning(
            machine,
            "--lock pv-qspinlock --contexts 5 --spin-threshold 20us",
        );
    }
}

#[test]
fn torture_takes_a_time_too() {
    for machine in machines() {
        let line =
            format!("torture --machine {machine} --lock pv-next --writers 3 --duration 100ms");
        let output = pvlab(&line);
        ended(&output, 0, &line, &[]);
    }
}

#[test]
fn what_is_no_threshold_is_refused_in_a_line() {
    for wrong in ["0", "0us", "20x", "2s", "soon", "4294967296"] {
        let output = pvlab(&format!(
            "run --machine threads --lock pv-next --spin-threshold {wrong}"
        ));
        ended_in_a_line(&output, 2, wrong, &["20us"]);
    }
}
