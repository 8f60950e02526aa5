//! Public reports and gotchas that must come out right, each named. Runs are short, and on real guests
//! where there is /dev/kvm, else on host threads, which is said loudly.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod machines;

use machines::machines;
use serde_json::Value;
use std::process::{Command, Output};

fn pvlab(line: &str) -> Output {
    let machine = if machines(8).contains(&"kvm") {
        "kvm"
    } else {
        "threads"
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
    command.args(line.split_whitespace());
    command.args(["--machine", machine]).env_remove("RUST_LOG");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    output
}

fn text(line: &str) -> String {
    String::from_utf8(pvlab(line).stdout).unwrap()
}

fn json(line: &str) -> Value {
    serde_json::from_slice(&pvlab(&format!("{line} --format json")).stdout).unwrap()
}

fn warns(report: &Value, code: &str) -> bool {
    let warnings = report["warnings"].as_array().unwrap();
    warnings.iter().any(|warning| warning["code"] == code)
}

/// Whether there are two CPUs to place vCPUs on.
fn two_cpus() -> bool {
    let two = std::thread::available_parallelism().unwrap().get() >= 2;
    if !two {
        eprintln!("SKIPPED: placement needs two CPUs");
    }
    two
}

const SHORT: &str = "--duration 150ms --warm-up 20ms";

/// Two guests of many vCPUs, pinned so that some CPUs are overcommitted while others idle (a vendor's
/// knowledge base, 133803).
#[test]
fn scenario_8_a_placement_that_leaves_cpus_idle_is_reported_and_warned_about() {
    if !two_cpus() {
        return;
    }
    let line = format!(
        "run --vm lock=tas,vcpus=3 --vm lock=tas,vcpus=3 --cpus 0-1 --placement 0,0,0,0,0,0 {SHORT}"
    );
    let table = text(&line);
    let first = table.lines().next().unwrap();
    assert!(first.contains("6 vCPUs in 2 VMs on CPUs 0-1"), "{first}");
    assert!(first.contains("pinned as 0,0,0,0,0,0"), "{first}");
    assert!(
        table.contains("warning: placement: CPU 0 has 6 vCPUs while CPUs 1 have none"),
        "{table}"
    );

    let report = json(&line);
    assert!(warns(&report, "placement_leaves_cpus_idle"), "{report}");
    let vms = report["record"]["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 2);
    for vcpu in vms.iter().flat_map(|vm| vm["vcpus"].as_array().unwrap()) {
        assert_eq!(vcpu["cpu"], 0, "where each vCPU was is in the record");
    }
}

/// Benchmarks that silently wrap or refuse overcommit (will-it-scale, lockhammer, kernel-lock-bench).
#[test]
fn scenario_12_overcommit_runs_and_the_placement_is_always_reported() {
    for (placement, told) in [
        ("pinned", "pinned"),
        ("floating", "floating"),
        ("0,0,0", "pinned as 0,0,0"),
    ] {
        let line = format!("run --lock tas --vcpus 3 --cpus 0 --placement {placement} {SHORT}");
        let table = text(&line);
        let first = table.lines().next().unwrap();
        assert!(
            first.contains("3 vCPUs on CPU 0 (3.0 vCPUs per CPU)") && first.contains(told),
            "{first}"
        );
        let report = json(&line);
        let placed = &report["record"]["scenario"]["placement"];
        assert!(placed.is_string() || placed["map"].is_array(), "{placed}");
        assert!(report["summaries"][0]["acquisitions"].as_u64().unwrap() > 0);
    }
}

/// A "throughput" that is per thread (ConcurrencyKit), and a mean that hides unfairness
/// (kernel-lock-bench).
#[test]
fn scenario_13_totals_fairness_and_the_longest_wait_are_told_with_units() {
    let line = format!("run --lock tas --vcpus 2 --cpus 0 {SHORT}");
    let table = text(&line);
    for part in [
        "acquisitions per second of all its vCPUs",
        "Each vCPU: its acquisitions per second",
        "Jain",
        "max/min",
        "wait p50",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    // The first row of that name, without its name.
    let row = |name: &str| -> Vec<&str> {
        let mut rows = table.lines().map(|line| line.split('|').map(str::trim));
        let row = rows.find(|row| row.clone().next() == Some(name));
        row.unwrap().skip(1).collect()
    };
    for cells in [row("0").split_off(1), row("0.0"), row("0.1")] {
        assert!(cells[0].ends_with("/s"), "throughput: {cells:?}");
        let longest = cells.last().unwrap();
        assert!(
            longest.ends_with('s') && longest.contains(' '),
            "longest wait: {longest}"
        );
    }

    let report = json(&line);
    let summary = &report["summaries"][0];
    let vcpus = report["record"]["vms"][0]["vcpus"].as_array().unwrap();
    let each = vcpus
        .iter()
        .map(|vcpu| vcpu["counters"]["acquisitions"].as_u64().unwrap_or(0));
    let each: Vec<u64> = each.collect();
    assert_eq!(
        summary["acquisitions"].as_u64(),
        Some(each.iter().sum()),
        "a total"
    );
    assert!(summary["fairness"]["jain"].is_f64());
    let (most, least) = (*each.iter().max().unwrap(), *each.iter().min().unwrap());
    match summary["fairness"]["max_over_min"].as_f64() {
        Some(ratio) => assert!((ratio * least as f64 - most as f64).abs() < 1.0),
        None => assert_eq!(least, 0),
    }
    let longest = vcpus
        .iter()
        .map(|vcpu| vcpu["waits"]["max_ns"].as_u64().unwrap());
    assert_eq!(summary["wait_ns"]["max"].as_u64(), longest.max());
}

/// A lock test with one vCPU, which never spins (kvm-unit-tests' round-robin of PLE).
#[test]
fn scenario_15_a_lock_that_nobody_contended_for_says_so() {
    let line = format!("run --lock qspinlock --vcpus 1 --cpus 0 {SHORT}");
    assert!(text(&line).contains("warning: qspinlock: 0 contended acquisitions"));
    let report = json(&line);
    assert_eq!(report["summaries"][0]["contended"], 0);
    assert!(warns(&report, "never_contended"), "{report}");
}

fn raw(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
    command.args(line.split_whitespace()).output().unwrap()
}

/// The report of a command that succeeds.
fn report(line: &str) -> Value {
    let output = raw(line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A guest that is not offered PV unhalt runs another slow path, and users took it for the
/// paravirtual one: every report says which one ran, and why.
#[test]
fn scenario_4_which_slow_path_runs_and_why_is_in_the_report() {
    for machine in machines(8) {
        let run = |options: &str| {
            report(&format!(
                "run --machine {machine} --lock auto --duration 60ms --warm-up 10ms --spin-threshold \
                 200 --format json {options}"
            ))
        };
        for (options, algorithm, waiters, why) in [
            (
                "--vcpus 4",
                "pv-qspinlock",
                "halt",
                "auto: pv unhalt is offered, 4 vCPUs",
            ),
            (
                "--vcpus 4 --no-pv-unhalt",
                "virt-tas",
                "spin",
                "auto: no pv unhalt",
            ),
            ("--vcpus 2 --no-pv", "qspinlock", "spin", "auto: --no-pv"),
            (
                "--vcpus 2 --realtime-hint",
                "qspinlock",
                "spin",
                "auto: real-time hint",
            ),
            ("--vcpus 1", "qspinlock", "spin", "auto: 1 vCPU"),
        ] {
            let report = run(options);
            let path = &report["slow_paths"][0];
            assert_eq!(path["algorithm"], algorithm, "{options}");
            assert_eq!(path["waiters"], waiters, "{options}");
            assert_eq!(path["why"], why, "{options}");
            // Not only said, but so: halting is what nobody but the paravirtual lock does.
            let halted = report["summaries"][0]["halts"].as_u64().unwrap() > 0;
            assert_eq!(halted, waiters == "halt", "{options}: {report}");
            let lock = format!("auto={algorithm}");
            assert_eq!(report["record"]["scenario"]["vms"][0]["lock"], *lock);
        }
    }
}

#[test]
fn scenario_4_a_paravirtual_lock_where_halts_cannot_work_is_refused() {
    let output = raw("run --lock pv-qspinlock --no-pv-unhalt");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in ["'pv-qspinlock'", "--no-pv-unhalt", "virt-tas", "qspinlock"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

/// Directed yields can be futile: the target runs already, or the yielder comes back before the target
/// has got on, and preempts it. They are counted, and most of them futile is a warning.
#[test]
fn futile_yields_are_counted() {
    for machine in machines(8) {
        let report = report(&format!(
            "run --machine {machine} --lock ppc-spinlock --vcpus 8 --duration 300ms --format json"
        ));
        let summary = &report["summaries"][0];
        let yields = summary["yields"].as_u64().unwrap();
        let futile = summary["futile_yields"].as_u64().unwrap();
        assert!(yields > 0, "{machine}: {summary}");
        assert!(futile <= yields, "{machine}: {summary}");
        let counted = |name: &str| -> u64 {
            let vcpus = report["record"]["vms"][0]["vcpus"].as_array().unwrap();
            let counters = vcpus.iter().map(|vcpu| &vcpu["counters"][name]);
            counters.map(|n| n.as_u64().unwrap_or(0)).sum()
        };
        assert_eq!(counted("futile_yields"), futile, "{machine}");
        let reasons = counted("yields_to_running") + counted("yields_to_halted");
        assert!(reasons <= futile, "{machine}: {reasons} of {futile}");
        let warned = report["warnings"].to_string().contains("yields_futile");
        assert_eq!(warned, futile * 2 > yields, "{machine}: {summary}");
    }
}

/// A paravirtual wait that does not give up its CPU (the TPAUSE experiment): with two vCPUs for each CPU
/// or more, halting beats waiting in place. A threshold that is never reached makes the same lock wait in
/// place.
#[test]
fn scenario_9_with_overcommit_halting_beats_waiting_in_place() {
    if !two_cpus() {
        return;
    }
    let run = |vcpus: usize, threshold: u32| {
        let report = json(&format!(
            "run --lock pv-qspinlock --vcpus {vcpus} --cpus 0-1 --spin-threshold {threshold} \
             --duration 400ms --warm-up 50ms"
        ));
        let number = |field: &str| report["summaries"][0][field].as_u64().unwrap();
        (number("acquisitions"), number("halts"))
    };
    let (halting, halts) = run(8, 2000);
    let (in_place, none) = run(8, u32::MAX);
    assert!(halts > 0 && none == 0, "{halts} and {none} halts");
    assert!(halting > in_place, "{halting} halting, {in_place} in place");
    // The other side of the crossover: a CPU for each, and waiting in place costs nobody anything.
    let (alone, none) = run(2, u32::MAX);
    assert!(none == 0 && alone > in_place, "{alone} and {in_place}");
}
