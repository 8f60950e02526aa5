//! Short runs with readers and writers, contexts and skewed locks, on real guests and host threads.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use serde_json::Value;
use std::process::Command;

/// The report of a short run on each machine that this host has.
fn on_each_machine(line: &str, check: impl Fn(&Value)) {
    let mut machines = vec!["threads"];
    match vmm::check_host(8) {
        Ok(()) => machines.push("kvm"),
        Err(e) => {
            let bar = "=".repeat(60);
            eprintln!("{bar}\nSKIPPED: no guest was run: {e}\n{bar}");
        }
    }
    for machine in machines {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvlab"));
        command.args(line.split_whitespace());
        command.args(["--machine", machine, "--format", "json"]);
        command.args(["--warm-up", "20ms"]).env_remove("RUST_LOG");
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{machine}: {line}: {errors}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["exclusion"], "held", "{machine}: {line}");
        check(&report);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn each_vcpu_reads_in_the_share_asked_for() {
    // A fixed number of acquisitions, so that the counts are exact.
    let line = "run --lock rwlock --vcpus 3 --reads 4:1 --iterations 10000";
    on_each_machine(line, |report| {
        let sharing = &report["summaries"][0]["sharing"];
        let (reads, writes) = (&sharing["reads"], &sharing["writes"]);
        // In all: the summary is of the time until the first vCPU was done.
        let vcpus = report["record"]["vms"][0]["vcpus"].as_array().unwrap();
        let sum = |name: &str| -> u64 {
            let counters = vcpus.iter().map(|vcpu| &vcpu["counters"][name]);
            counters.map(|n| n.as_u64().unwrap_or(0)).sum()
        };
        let read = sum("reads");
        let written = sum("acquisitions") - read;
        assert_eq!(read + written, 30_000);
        // 24,000 expected, with a standard deviation of 69.
        assert!((23_500..24_500).contains(&read), "{read}");
        for side in [reads, writes] {
            assert_eq!(side["vcpus"], 3);
            assert!(side["wait_ns"]["max"].is_u64(), "{side}");
        }
        let check = &report["record"]["vms"][0]["exclusion"];
        assert!(number(&check["acquisitions"]) >= written);
    });
}

#[test]
fn groups_only_read_or_only_write() {
    let line = "run --lock rwlock --vcpus 3 --readers 2 --iterations 2000";
    on_each_machine(line, |report| {
        let vcpus = report["record"]["vms"][0]["vcpus"].as_array().unwrap();
        let reads = vcpus.iter().map(|vcpu| vcpu["counters"]["reads"].as_u64());
        assert_eq!(reads.collect::<Vec<_>>(), [None, Some(2000), Some(2000)]);
        let sharing = &report["summaries"][0]["sharing"];
        assert_eq!(vcpus[0]["counters"]["acquisitions"], 2000);
        assert_eq!(sharing["writes"]["vcpus"], 1);
    });
}

#[test]
fn contexts_interrupt_each_other_with_every_lock() {
    let locks = pvlock::LockKind::ALL
        .iter()
        .filter(|kind| !kind.traits().control && !kind.traits().sleeps);
    for lock in locks {
        let line = format!("run --lock {lock} --vcpus 4 --contexts 5 --duration 100ms");
        on_each_machine(&line, |report| {
            let scenario = &report["record"]["scenario"]["workload"];
            assert_eq!(scenario["locks"], 5, "one for each context");
            assert!(number(&report["record"]["vms"][0]["exclusion"]["entries"]) > 0);
        });
    }
}

#[test]
fn contexts_of_a_reader_writer_lock_read_too() {
    let line = "run --lock rwlock --vcpus 2 --contexts 3 --reads 50% --duration 200ms";
    on_each_machine(line, |report| {
        let summary = &report["summaries"][0];
        assert!(number(&summary["nested"]) > 0, "{summary}");
        assert!(number(&summary["sharing"]["reads"]["acquisitions"]) > 0);
    });
}

#[test]
fn the_most_used_of_skewed_locks_is_as_much_used_as_zipf_has_it() {
    let line = "run --lock tas --vcpus 2 --lock-count 64 --skew 1 --iterations 50000";
    on_each_machine(line, |report| {
        let share = report["summaries"][0]["most_used_lock"].as_f64().unwrap();
        let harmonic: f64 = (1..=64).map(|n| 1.0 / f64::from(n)).sum();
        assert!((share * harmonic - 1.0).abs() < 0.05, "{share}");
    });
}
