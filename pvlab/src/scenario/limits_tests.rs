//! Tests of [`super`]: files say what options cannot.

use super::*;
use crate::figures::fixture;
use crate::scenario::WorkTime;
use pvlock::LockKind;
use serde_json::{Value, json};

/// On a simulated machine, with something of everything.
fn good() -> Value {
    let mut scenario = serde_json::to_value(fixture::scenario(LockKind::QRwLock)).unwrap();
    scenario["machine"] = json!("sim");
    scenario["simulated"] = json!({
        "preset": "here",
        "rules": [{"deschedule_holder": {"vcpu": 1, "section": 5, "ns": 1000}}],
    });
    scenario["workload"]["mix"] = json!({"read_share": 0.5});
    scenario["preempt"] = json!({"whom": "holder", "ns": 1000, "share": 0.01});
    scenario
}

/// What becomes of it with that value there.
fn with(pointer: &str, value: Value) -> Result<(), String> {
    let mut scenario = good();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = scenario.pointer_mut(parent).unwrap();
    match name.parse::<usize>() {
        Ok(i) => parent[i] = value,
        Err(_) => parent[name] = value,
    }
    let scenario: Scenario = serde_json::from_value(scenario).map_err(|e| e.to_string())?;
    scenario.check().map_err(|e| e.to_string())
}

#[test]
fn a_field_out_of_its_limits_is_named_with_them() {
    assert_eq!(with("/seed", json!(u64::MAX)), Ok(()));
    let huge = json!(4_000_000_000_u64);
    for (pointer, value, told) in [
        (
            "/workload/contexts",
            json!(9),
            "workload.contexts is 9: it may be 1 to 5",
        ),
        ("/workload/contexts", json!(0), "workload.contexts is 0"),
        (
            "/vms/0/vcpus",
            huge.clone(),
            "vms.0.vcpus is 4000000000: it may be 1 to 16383",
        ),
        ("/vms/0/vcpus", json!(0), "vms.0.vcpus is 0"),
        ("/vms/0/vcpus", json!(u64::MAX), "vms.0.vcpus is"),
        (
            "/vms/0/lock",
            json!("qrwlock:patched"),
            "vms.0.lock is qrwlock:patched",
        ),
        (
            "/vms/0/lock",
            json!("tas"),
            "workload.mix.read_share is 0.5: 'tas' cannot be read",
        ),
        (
            "/vms",
            json!([]),
            "the number of vms is 0: it may be 1 to 4096",
        ),
        (
            "/noise",
            huge.clone(),
            "noise is 4000000000: it may be 0 to 1024",
        ),
        ("/cpus", json!([]), "cpus is empty"),
        ("/cpus", json!([1, 1]), "cpus is 1 twice"),
        ("/cpus/0", huge.clone(), "cpus.0 is 4000000000"),
        (
            "/placement",
            json!({"map": [0]}),
            "placement.map is 1 CPUs: it has one for each of 2",
        ),
        (
            "/placement",
            json!({"map": [0, 7]}),
            "placement.map is 7: it is not among the cpus",
        ),
        (
            "/warm_up_ns",
            json!(u64::MAX),
            "warm_up_ns is 18446744073709551615",
        ),
        (
            "/watchdog_ns",
            json!(0),
            "watchdog_ns is 0: it must be longer than one turn",
        ),
        ("/watchdog_ns", json!(u64::MAX), "watchdog_ns is"),
        (
            "/length",
            json!({"duration_ns": 0}),
            "length.duration_ns is 0",
        ),
        (
            "/length",
            json!({"duration_ns": u64::MAX}),
            "length.duration_ns is",
        ),
        (
            "/length",
            json!({"iterations": 0}),
            "length.iterations is 0",
        ),
        (
            "/length",
            json!({"iterations": u64::MAX}),
            "length.iterations is",
        ),
        (
            "/workload/critical_ns",
            json!(u64::MAX),
            "workload.critical_ns is",
        ),
        (
            "/workload/outside_ns",
            json!(u64::MAX),
            "workload.outside_ns is",
        ),
        ("/workload/locks", json!(0), "workload.locks is 0"),
        (
            "/workload/locks",
            huge.clone(),
            "workload.locks is 4000000000",
        ),
        (
            "/workload/skew",
            json!(-0.5),
            "workload.skew is -0.5: it may be 0 to 10",
        ),
        ("/workload/skew", json!(1e300), "workload.skew is"),
        (
            "/workload/mix",
            json!({"read_share": 1.5}),
            "workload.mix.read_share is 1.5",
        ),
        (
            "/workload/mix",
            json!({"readers": 3}),
            "workload.mix.readers is 3: it may be 0 to 2",
        ),
        ("/spin_threshold", json!(0), "spin_threshold is 0"),
        ("/numa_nodes", json!(3), "numa_nodes is 3: it may be 1 to 2"),
        (
            "/cpl",
            json!("3"),
            "cpl is given: the machine has no KVM guests",
        ),
        (
            "/machine",
            json!("kvm"),
            "simulated is there: only the machine 'sim'",
        ),
        (
            "/simulated",
            Value::Null,
            "simulated is missing: the machine is 'sim'",
        ),
        ("/preempt/share", json!(-1.0), "preempt.share is -1"),
        ("/preempt/ns", json!(0), "preempt.ns is 0"),
        (
            "/simulated/rules/0",
            json!({"delay_wake": {"vcpu": 2, "wake": 1, "ns": 1}}),
            "simulated.rules.0.delay_wake.vcpu is 2: it may be 0 to 1",
        ),
        (
            "/simulated/rules/0",
            json!({"delay_wake": {"vcpu": 1, "wake": 0, "ns": 1}}),
            "simulated.rules.0.delay_wake.wake is 0",
        ),
        (
            "/simulated/rules/0",
            json!({"delay_wake": {"vcpu": 1, "wake": 1, "ns": u64::MAX}}),
            "simulated.rules.0.delay_wake.ns is",
        ),
        (
            "/torture",
            json!({"long_hold_ns": 0, "nested_locks": 9, "acquire_limit_ns": 0, "stutter_ns": 0,
                   "shuffle_interval_ns": 0, "writer_fifo": false}),
            "preempt or simulated.rules is there",
        ),
        (
            "/bench",
            json!({"workload": "rwsem-bench", "threads": huge, "pauses": 0}),
            "torture and microbenchmarks have no preemption on demand",
        ),
        (
            "/bench",
            json!({"workload": "futex-hash", "threads": 1, "pauses": 0}),
            "preempt or simulated.rules is there",
        ),
    ] {
        let refused = with(pointer, value.clone()).unwrap_err();
        assert!(refused.contains(told), "{pointer} {value}: {refused}");
    }
}

#[test]
fn microbenchmarks_and_torture_have_limits_of_their_own() {
    let mut plain = serde_json::to_value(fixture::scenario(LockKind::QRwLock)).unwrap();
    let mut with = |name: &str, value: Value| {
        plain["bench"] = Value::Null;
        plain["torture"] = Value::Null;
        plain[name] = value;
        let scenario: Scenario = serde_json::from_value(plain.clone()).unwrap();
        scenario.check().map_err(|e| e.to_string())
    };
    let bench = |kind: &str, threads: u64, pauses: u64| json!({"workload": kind, "threads": threads, "pauses": pauses});
    let torture = |nested: u64, hold: u64| {
        json!({"long_hold_ns": hold, "nested_locks": nested, "acquire_limit_ns": 0, "stutter_ns": 0,
               "shuffle_interval_ns": 0, "writer_fifo": false})
    };
    assert_eq!(with("bench", bench("rwsem-bench", 8, 0)), Ok(()));
    assert_eq!(with("torture", torture(0, 1000)), Ok(()));
    for (name, value, told) in [
        (
            "bench",
            bench("rwsem-bench", 4_000_000_000, 0),
            "bench.threads is 4000000000",
        ),
        ("bench", bench("rwsem-bench", 0, 0), "bench.threads is 0"),
        (
            "bench",
            bench("rwsem-bench", 8, u64::MAX),
            "bench.pauses is",
        ),
        (
            "bench",
            bench("futex-hash", 8, 0),
            "workload.locks is 1: it may be 512 to 512",
        ),
        (
            "bench",
            bench("pipe", 3, 0),
            "bench.threads is 3: pipes take pairs",
        ),
        (
            "torture",
            torture(9, 0),
            "torture.nested_locks is 9: it may be 0 to 8",
        ),
        (
            "torture",
            torture(8, 0),
            "workload.locks is 1: it may be 9 to 9",
        ),
        ("torture", torture(0, u64::MAX), "torture.long_hold_ns is"),
        ("torture", torture(0, 10_000_000_000), "watchdog_ns is"),
    ] {
        let refused = with(name, value.clone()).unwrap_err();
        assert!(refused.contains(told), "{name} {value}: {refused}");
    }
}

#[test]
fn a_simulated_clock_does_not_run_out() {
    let year = 365 * 24 * 3_600_000_000_000_u64;
    let refused = with("/length", json!({"duration_ns": year})).unwrap_err();
    assert!(refused.contains("length.duration_ns"), "{refused}");
    let mut long: Scenario = serde_json::from_value(good()).unwrap();
    long.length = Length::Iterations(1_000_000);
    assert_eq!(long.check(), Ok(()));
    long.workload.critical = WorkTime::MOST;
    long.watchdog = 2 * LONGEST_PIECE;
    let refused = long.check().unwrap_err().to_string();
    assert!(
        refused.contains("more time than can be simulated"),
        "{refused}"
    );
}

#[test]
fn numbers_that_are_none_and_fields_of_other_types_are_no_scenario() {
    for (pointer, value) in [
        ("/workload/contexts", json!(-1)),
        ("/noise", json!(1.5)),
        ("/seed", json!("1")),
        ("/vms", json!({})),
        ("/cpus", json!([-1])),
        ("/workload", Value::Null),
    ] {
        assert!(with(pointer, value.clone()).is_err(), "{pointer} {value}");
    }
    let mut scenario = fixture::scenario(LockKind::Tas);
    scenario.workload.skew = f64::NAN;
    assert!(
        scenario
            .check()
            .unwrap_err()
            .to_string()
            .contains("skew is NaN")
    );
}

/// What options make is within the limits.
#[test]
fn every_lock_and_context_that_options_can_ask_for_can_be_run() {
    for kind in LockKind::ALL {
        fixture::scenario(*kind).check().unwrap();
    }
    let mut contexts = fixture::scenario(LockKind::QSpinLock);
    contexts.workload.contexts = MAX_CONTEXTS;
    contexts.workload.locks = MAX_CONTEXTS as usize;
    contexts.check().unwrap();
    contexts.vms[0].lock = LockKind::Mutex.into();
    assert!(contexts.check().is_err(), "it sleeps");
}
