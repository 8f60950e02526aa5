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

/// What is put where, and what is told of it.
const FAULTS: &str = r#"
/workload/contexts 9 -> workload.contexts is 9: it may be 1 to 5
/workload/contexts 0 -> workload.contexts is 0
/vms/0/vcpus 4000000000 -> vms.0.vcpus is 4000000000: it may be 1 to 16383
/vms/0/vcpus 0 -> vms.0.vcpus is 0
/vms/0/vcpus 18446744073709551615 -> vms.0.vcpus is
/vms/0/lock "qrwlock:patched" -> vms.0.lock is qrwlock:patched
/vms/0/lock "tas" -> workload.mix.read_share is 0.5: 'tas' cannot be read
/vms [] -> the number of vms is 0: it may be 1 to 4096
/noise 4000000000 -> noise is 4000000000: it may be 0 to 1024
/cpus [] -> cpus is empty
/cpus [1, 1] -> cpus is 1 twice
/cpus/0 4000000000 -> cpus.0 is 4000000000
/placement {"map": [0]} -> placement.map is 1 CPUs: it has one for each of 2
/placement {"map": [0, 7]} -> placement.map is 7: it is not among the cpus
/warm_up_ns 18446744073709551615 -> warm_up_ns is 18446744073709551615
/watchdog_ns 0 -> watchdog_ns is 0: it must be longer than one turn
/watchdog_ns 18446744073709551615 -> watchdog_ns is
/length {"duration_ns": 0} -> length.duration_ns is 0
/length {"duration_ns": 18446744073709551615} -> length.duration_ns is
/length {"iterations": 0} -> length.iterations is 0
/length {"iterations": 18446744073709551615} -> length.iterations is
/workload/critical_ns 18446744073709551615 -> workload.critical_ns is
/workload/outside_ns 18446744073709551615 -> workload.outside_ns is
/workload/locks 0 -> workload.locks is 0
/workload/locks 4000000000 -> workload.locks is 4000000000
/workload/skew -0.5 -> workload.skew is -0.5: it may be 0 to 10
/workload/skew 1e300 -> workload.skew is
/workload/mix {"read_share": 1.5} -> workload.mix.read_share is 1.5
/workload/mix {"readers": 3} -> workload.mix.readers is 3: it may be 0 to 2
/spin_threshold 0 -> spin_threshold is 0
/spin_threshold "2s" -> '2s' is no threshold
/numa_nodes 3 -> numa_nodes is 3: it may be 1 to 2
/cpl "3" -> cpl is given: the machine has no KVM guests
/machine "kvm" -> simulated is there: only the machine 'sim'
/simulated null -> simulated is missing: the machine is 'sim'
/preempt/share -1.0 -> preempt.share is -1
/preempt/ns 0 -> preempt.ns is 0
/simulated/rules/0 {"delay_wake": {"vcpu": 2, "wake": 1, "ns": 1}} -> simulated.rules.0.delay_wake.vcpu is 2: it may be 0 to 1
/simulated/rules/0 {"delay_wake": {"vcpu": 1, "wake": 0, "ns": 1}} -> simulated.rules.0.delay_wake.wake is 0
/simulated/rules/0 {"delay_wake": {"vcpu": 1, "wake": 1, "ns": 18446744073709551615}} -> simulated.rules.0.delay_wake.ns is
/bench {"workload": "rwsem-bench", "threads": 4000000000, "pauses": 0} -> torture and microbenchmarks have no preemption on demand
/bench {"workload": "futex-hash", "threads": 1, "pauses": 0} -> preempt or simulated.rules is there
"#;

#[test]
fn a_field_out_of_its_limits_is_named_with_them() {
    assert_eq!(with("/seed", json!(u64::MAX)), Ok(()));
    let refuses = |pointer: &str, value: Value, told: &str| {
        let refused = with(pointer, value.clone()).unwrap_err();
        assert!(refused.contains(told), "{pointer} {value}: {refused}");
    };
    for line in FAULTS.trim().lines() {
        let (put, told) = line.split_once(" -> ").unwrap();
        let (pointer, value) = put.split_once(' ').unwrap();
        refuses(pointer, serde_json::from_str(value).unwrap(), told);
    }
    let told = "preempt or simulated.rules is there";
    refuses("/torture", torture(9, 0), told);
}

fn bench(kind: &str, threads: u64, pauses: u64) -> Value {
    json!({"workload": kind, "threads": threads, "pauses": pauses})
}

fn torture(nested: u64, hold: u64) -> Value {
    json!({"long_hold_ns": hold, "nested_locks": nested, "acquire_limit_ns": 0, "stutter_ns": 0,
           "shuffle_interval_ns": 0, "writer_fifo": false})
}

#[test]
fn microbenchmarks_and_torture_have_limits_of_their_own() {
    let plain = serde_json::to_value(fixture::scenario(LockKind::QRwLock)).unwrap();
    let with = |name: &str, value: Value| {
        let mut scenario = plain.clone();
        scenario[name] = value;
        let scenario: Scenario = serde_json::from_value(scenario).unwrap();
        scenario.check().map_err(|e| e.to_string())
    };
    let (huge, buckets) = (4_000_000_000, "workload.locks is 1: it may be 512 to 512");
    assert_eq!(with("bench", bench("rwsem-bench", 8, 0)), Ok(()));
    assert_eq!(with("torture", torture(0, 1000)), Ok(()));
    for (kind, threads, pauses, told) in [
        ("rwsem-bench", huge, 0, "bench.threads is 4000000000"),
        ("rwsem-bench", 0, 0, "bench.threads is 0"),
        ("rwsem-bench", 8, u64::MAX, "bench.pauses is"),
        ("futex-hash", 8, 0, buckets),
        ("pipe", 3, 0, "bench.threads is 3: pipes take pairs"),
    ] {
        let refused = with("bench", bench(kind, threads, pauses)).unwrap_err();
        assert!(refused.contains(told), "{kind}: {refused}");
    }
    for (nested, hold, told) in [
        (9, 0, "torture.nested_locks is 9: it may be 0 to 8"),
        (8, 0, "workload.locks is 1: it may be 9 to 9"),
        (0, u64::MAX, "torture.long_hold_ns is"),
        (0, 10_000_000_000, "watchdog_ns is"),
    ] {
        let refused = with("torture", torture(nested, hold)).unwrap_err();
        assert!(refused.contains(told), "{nested} {hold}: {refused}");
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
    let told = "more time than can be simulated";
    assert!(refused.contains(told), "{refused}");
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
    let refused = scenario.check().unwrap_err().to_string();
    assert!(refused.contains("skew is NaN"), "{refused}");
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
