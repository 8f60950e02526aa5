//! Guests that do harm (`guest/src/image/hostile.rs`) in the hands of the commands: each run ends, with a report or
//! an error, and nothing panics. On real KVM; without, skipped loudly.

use super::run::report::RunReport;
use super::torture::{self, report::TortureReport};
use super::trace::account;
use crate::host::Host;
use crate::record::{Context, Record};
use crate::report::{Format, Report};
use crate::scenario::{Length, MachineKind, Scenario, Torture, VmSpec};
use crate::session::{self, Observer, Options, RunError, hostile};
use std::time::Duration;

/// Each way in which a guest is hostile, and which begins as others do.
const SEEDS: [u64; 6] = [1, 3, 5, 7, 9, 11];

struct Nobody;

impl<I> Observer<I> for Nobody {}

fn kvm_is_here() -> bool {
    match vmm::check_host(4) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("SKIPPED: no hostile guest was run: {error}");
            false
        }
    }
}

fn scenario(lock: &str, length: Length) -> Scenario {
    let vm = VmSpec {
        lock: lock.parse().unwrap(),
        vcpus: 4,
    };
    Scenario {
        warm_up: Duration::from_millis(20),
        watchdog: Duration::from_secs(2),
        ..Scenario::bare(MachineKind::Kvm, vec![vm], vec![0, 1], length)
    }
}

const SHORT: Length = Length::Duration(Duration::from_millis(300));

/// What is told of a run that a guest spoilt is of the guest, and the exit code says that it failed.
fn blames_the_guest(error: &RunError) {
    let text = error.to_string();
    assert!(text.contains("guest") || text.contains("stuck"), "{text}");
    assert!(matches!(error.exit_code(), 1 | 3), "{text}");
}

#[test]
fn runs_of_hostile_guests_end_with_a_report_or_an_error() {
    if !kvm_is_here() {
        return;
    }
    let options = Options {
        stat_interval: Some(Duration::from_millis(50)),
        live: true,
    };
    for seed in SEEDS.into_iter().chain([0, 4]) {
        for length in [SHORT, Length::Iterations(1_000_000_000)] {
            let scenario = scenario("pv-qspinlock", length);
            let result =
                hostile::with_seed(seed, || session::run(&scenario, &options, &mut Nobody));
            match result {
                Ok(record) => {
                    let context = Context::new(Host::default(), String::new(), &scenario);
                    let record = Record { context, ..record };
                    for format in [Format::Table, Format::Json, Format::Csv] {
                        assert!(!RunReport::new(&record).render(format).is_empty());
                    }
                }
                Err(error) => blames_the_guest(&error),
            }
        }
    }
}

#[test]
fn traces_of_hostile_guests_end_with_an_account_or_an_error() {
    if !kvm_is_here() {
        return;
    }
    for seed in SEEDS {
        let scenario = scenario("mcs", SHORT);
        let result = hostile::with_seed(seed, || account(&scenario, &mut Nobody));
        if let Err(error) = result {
            let text = error.to_string();
            assert!(text.contains("guest") || text.contains("account"), "{text}");
        }
    }
}

#[test]
fn a_hostile_guest_under_torture_is_a_failure_or_an_error() {
    if !kvm_is_here() {
        return;
    }
    for seed in SEEDS {
        let torture = Torture {
            long_hold: Duration::ZERO,
            nested_locks: 0,
            acquire_limit: Duration::ZERO,
            stutter: Duration::from_millis(70),
            shuffle_interval: Duration::from_millis(50),
            writer_fifo: false,
            irqs_off: false,
        };
        let scenario = Scenario {
            torture: Some(torture),
            ..scenario("qspinlock", SHORT)
        };
        let interval = Duration::from_millis(50);
        let result = hostile::with_seed(seed, || {
            torture::course::run(&scenario, &torture, interval, &mut Nobody)
        });
        match result {
            Ok(outcome) => {
                let context = Context::new(Host::default(), String::new(), &scenario);
                let report = TortureReport::new(context, interval, false, outcome);
                for format in [Format::Table, Format::Json] {
                    assert!(!report.render(format, true).is_empty());
                }
            }
            Err(error) => blames_the_guest(&error),
        }
    }
}
