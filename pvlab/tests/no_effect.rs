//! Options and parameters that would change nothing on the machine, and times that it cannot keep: they are
//! refused. Defaults never are.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{ended, json, pvlab, stderr, stdout};

const BARE: &str = "--machine sim:broadwell-ex-4s --vcpus 2 --duration 1ms --warm-up 1ms";

#[test]
fn what_would_change_nothing_is_refused_with_the_reason() {
    let bare = |command: &str| format!("{command} {BARE}");
    let set = |assignment: &str| format!("run --lock tas {BARE} --set {assignment}");
    for (line, parts) in [
        (set("ple=1"), ["--set ple=1", "virtual_machine = 0"]),
        (
            set("exit_ns=9us"),
            ["--set exit_ns=9us", "virtual_machine = 0"],
        ),
        (
            set("transfer_hop_ns=9us"),
            ["--set transfer_hop_ns=9us", "links"],
        ),
        (
            set("balance_ns=9ms"),
            ["--set balance_ns=9ms", "--placement"],
        ),
        (
            bare("torture --lock tas")
                .replace("--vcpus", "--writers")
                .replace("--warm-up 1ms", "--set ple=1"),
            ["--set ple=1", "virtual_machine = 0"],
        ),
        (
            bare("sim --locks tas --sweep ple=0,1"),
            ["--sweep ple", "virtual_machine = 0"],
        ),
        (
            bare("bench rwsem-bench").replace("--vcpus 2", "--set ple=1"),
            ["--set ple=1", "virtual_machine = 0"],
        ),
        (
            "validate --against sim:broadwell-ex-4s --set ple=1".to_owned(),
            ["--set ple=1", "virtual_machine = 0"],
        ),
        (
            "run --machine threads --lock tas --spin-threshold 9".to_owned(),
            ["--spin-threshold", "halt"],
        ),
        (
            "compare --machine threads --locks tas,mutex --spin-threshold 9".to_owned(),
            ["--spin-threshold", "halt"],
        ),
        (
            "torture --machine threads --lock ticket --spin-threshold 9".to_owned(),
            ["--spin-threshold", "halt"],
        ),
        (
            "bench pipe --machine threads --spin-threshold 9".to_owned(),
            ["--spin-threshold", "halt"],
        ),
        (
            "run --machine threads --lock ticket --numa-nodes 2".to_owned(),
            ["--numa-nodes", "cna"],
        ),
        (
            "run --machine threads --lock tas --preempt next-waiter:1ms@1%".to_owned(),
            ["next-waiter", "queue"],
        ),
        (
            "torture --machine threads --lock tas --cpus 0 --shuffle-interval 1s".to_owned(),
            ["--shuffle-interval", "one CPU"],
        ),
        (
            "trace --summary t.jsonl --critical 1us".to_owned(),
            ["--summary", "--critical"],
        ),
    ] {
        let output = pvlab(&line);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            parts.iter().all(|part| said.contains(part)),
            "{line}: {said}"
        );
    }
}

#[test]
fn times_that_cannot_be_kept_are_refused() {
    let simulated = "--machine sim:here --lock tas --vcpus 1";
    let threads = "--machine threads --lock tas --vcpus 1";
    for (line, part) in [
        (format!("run {simulated} --duration 1ns"), "--duration 1ns"),
        (
            format!("run {simulated} --duration 1500us"),
            "whole milliseconds",
        ),
        (format!("run {simulated} --warm-up 1us"), "--warm-up 1us"),
        (
            format!("run {simulated} --duration 9ms --stat-interval 1500us"),
            "--stat-interval 1ms 500us",
        ),
        (format!("run {threads} --duration 1ns"), "the shortest time"),
        (
            format!("trace {threads} --duration 10us"),
            "--duration 10us",
        ),
        (format!("run {threads} --warm-up 1ns"), "--warm-up 1ns"),
        (
            "torture --machine sim:here --lock tas --writers 1 --duration 5ms --stutter 1us"
                .to_owned(),
            "--stutter 1us",
        ),
        (
            "bench pipe --machine threads --duration 1us".to_owned(),
            "--duration 1us",
        ),
    ] {
        let output = pvlab(&line);
        ended(&output, 2, &line, &[part]);
    }
}

#[test]
fn what_has_an_effect_and_what_is_so_anyway_is_not_refused() {
    for line in [
        format!("run --lock tas {BARE}"),
        format!("run --lock tas {BARE} --set ple=0"),
        format!("run --lock tas {BARE} --set virtual_machine=1 --set ple=1"),
        format!("run --lock tas {BARE} --placement floating --set balance_ns=9ms"),
        format!("compare --locks tas,pv-qspinlock {BARE} --spin-threshold 9 --rounds 1"),
        format!("run --lock auto {BARE} --spin-threshold 9"),
        format!("run --lock cna {BARE} --numa-nodes 2"),
        "run --machine sim:here --lock tas --vcpus 1 --duration 2ms --warm-up 0".to_owned(),
        "run --machine threads --lock tas --vcpus 1 --duration 1500us --warm-up 1ms".to_owned(),
    ] {
        let output = pvlab(&format!("{line} --format json"));
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert!(json(stdout(&output))["schema"].is_string());
    }
}
