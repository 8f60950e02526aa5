//! The commands on a simulated machine: the same reports, made of virtual time alone.

mod commands;

use commands::{begin, command, done, end_within, ended, json, pvlab, send, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Few vCPUs and little time: tests run unoptimised.
const SHORT: &str = "--machine sim:broadwell-ex-4s --warm-up 1ms --duration 2ms";

#[test]
fn a_comparison_is_the_same_to_the_last_bit_in_any_process_with_any_number_of_jobs() {
    let line = format!(
        "compare {SHORT} --locks ticket,pv-qspinlock --vcpus 6 --cpus 0-7 --rounds 2 --seed 7 --outside 130ns:exp \
         --format json"
    );
    let reports: Vec<_> = ["", "--jobs 1", "--jobs 2"]
        .map(|jobs| done(&format!("{line} {jobs}")))
        .into();
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);

    let report = json(&reports[0]);
    assert_eq!(report["machine"], "sim:broadwell-ex-4s");
    assert_eq!(report["simulated"], true);
    assert_eq!(report["host"], Value::Null);
    assert_eq!(report["scenario"]["run"]["machine"], "sim");
    let results = report["results"].as_array().unwrap();
    for result in results {
        let rounds = result["throughput"]["rounds"].as_array().unwrap();
        assert_ne!(rounds[0], rounds[1], "each round has a seed of its own");
        assert!(result["acquisitions"].as_u64().unwrap() > 0);
    }
    let other = done(&line.replace("--seed 7", "--seed 9"));
    assert_ne!(reports[0], other);
}

#[test]
fn measurements_are_as_long_as_asked() {
    let line = format!("run {SHORT} --lock tas --vcpus 2 --format json");
    let record = &json(&done(&line))["record"];
    assert_eq!(record["measured_s"], 0.002);
    assert_eq!(record["start"]["warm_up_ms"], 1.0);
    for vcpu in record["vms"][0]["vcpus"].as_array().unwrap() {
        // A CPU each, which nobody else wants.
        assert_eq!(vcpu["cpu_ns"], 2_000_000, "{vcpu}");
    }
}

#[test]
fn the_last_of_several_rounds_is_a_run_with_the_seed_after() {
    let compare = json(&done(&format!(
        "compare {SHORT} --locks tas --vcpus 3 --rounds 2 --seed 4 --format json"
    )));
    let run = json(&done(&format!(
        "run {SHORT} --lock tas --vcpus 3 --seed 5 --format json"
    )));
    let acquisitions = run["summaries"][0]["acquisitions"].as_f64().unwrap();
    let rate = &compare["results"][0]["throughput"]["rounds"][1];
    assert_eq!(*rate, acquisitions / 0.002);
}

#[test]
fn every_format_says_that_nothing_was_measured() {
    let line = format!("run {SHORT} --lock qspinlock --vcpus 2 --set kick_ns=2us --seed 7");
    for format in ["table", "markdown"] {
        let text = done(&format!("{line} --format {format}"));
        assert!(
            text.contains("machine: sim:broadwell-ex-4s (simulated, 4 sockets"),
            "{text}"
        );
        assert!(text.contains("kick_ns=2us), seed 7"), "{text}");
        assert!(text.contains("nothing was measured"), "{text}");
    }
    let csv = done(&format!("{line} --format csv"));
    for row in csv.lines().skip(1) {
        assert!(row.ends_with(",sim:broadwell-ex-4s"), "{row}");
    }
    let report = json(&done(&format!("{line} --format json")));
    assert_eq!(
        report["record"]["scenario"]["simulated"],
        serde_json::json!({"preset": "broadwell-ex-4s", "set": ["kick_ns=2us"]})
    );
    assert_eq!(report["warnings"][0]["code"], "simulated");
}

#[test]
fn a_parameter_matters() {
    let line = format!("run {SHORT} --lock tas --vcpus 2 --format json");
    let acquisitions = |report: String| {
        json(&report)["summaries"][0]["acquisitions"]
            .as_u64()
            .unwrap()
    };
    let slow = acquisitions(done(&format!("{line} --set transfer_socket_ns=2us")));
    assert!(acquisitions(done(&line)) > slow);
}

#[test]
fn a_deadlock_is_found_at_once_and_told() {
    let begun = Instant::now();
    // A vCPU that no other waits for goes on to its last acquisition, and the others sleep for ever.
    let output = pvlab(
        "run --machine sim:broadwell-ex-4s --cpus 0-1 --lock pv-qspinlock --vcpus 4 --warm-up 1ms \
         --iterations 2000 --watchdog 3600s --spin-threshold 100 --drop-kicks",
    );
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("it is stuck"), "{text}");
    assert!(text.contains("a wake-up was lost"), "{text}");
    assert!(text.contains("halted, off CPU"), "{text}");
    // Not after an hour, of whichever time.
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn torture_tells_a_sound_lock_from_one_whose_wake_ups_are_lost() {
    let line = "torture --machine sim:broadwell-ex-4s --cpus 0-1 --writers 3 --duration 20ms \
                --stutter 5ms --long-hold 1ms --lock pv-qspinlock --spin-threshold 100";
    let text = done(line);
    assert!(text.contains("End of test: SUCCESS"), "{text}");
    assert!(text.contains("shuffle_interval=0"), "{text}");
    assert_eq!(text, done(line), "the same twice");
    let output = pvlab(&format!("{line} --drop-kicks"));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).contains("the lock is stuck"));
}

#[test]
fn traces_are_the_same_twice_and_account_for_all_waiting() {
    let file = |name: &str| {
        let name = format!("pvlab-simulated-{}-{name}.jsonl", std::process::id());
        std::env::temp_dir().join(name)
    };
    let trace = |path: &PathBuf| {
        let line = format!(
            "trace {SHORT} --lock pv-qspinlock --vcpus 4 --cpus 0-1 --spin-threshold 256 --account json -o"
        );
        let output = command(&line).arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let events = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        (stdout(&output).to_owned(), events)
    };
    let first = trace(&file("a"));
    assert!(first == trace(&file("b")), "the same twice");
    let (account, events) = first;
    let account = json(&account);
    assert_eq!(account["simulated"], true);
    assert_eq!(account["sum_violations"], 0);
    assert_eq!(account["vms"][0]["vcpus_without_switches"], 0);
    let header = json(
        std::str::from_utf8(&events)
            .unwrap()
            .lines()
            .next()
            .unwrap(),
    );
    assert_eq!(header["simulated"], true);
}

#[test]
fn microbenchmarks_run_tasks_on_simulated_vcpus() {
    for (workload, locks) in [("rwsem-bench", "rwsem"), ("pipe", "mutex")] {
        let report = json(&done(&format!(
            "bench {workload} {SHORT} --locks {locks} --threads 4 --vcpus 2 --rounds 1 --format json"
        )));
        assert_eq!(report["simulated"], true);
        for cell in report["cells"].as_array().unwrap() {
            let run = &cell["runs"][0];
            assert!(run["operations"].as_u64().unwrap() > 0, "{workload}: {run}");
            // With rwsem-bench, tasks that do not sleep take turns of milliseconds.
            let all = run["thread_min"].as_u64().unwrap() > 0;
            assert!(all || workload != "pipe", "{run}");
        }
    }
}

#[test]
fn several_vms_share_the_machine_with_its_noise() {
    let report = json(&done(&format!(
        "run {SHORT} --vm lock=tas,vcpus=2 --vm lock=ticket,vcpus=2 --cpus 0-1 --noise 2 --format json"
    )));
    let vms = report["record"]["vms"].as_array().unwrap();
    let used: u64 = (vms.iter())
        .flat_map(|vm| vm["vcpus"].as_array().unwrap())
        .map(|vcpu| vcpu["cpu_ns"].as_u64().unwrap())
        .sum();
    assert!(used < 4_000_000, "the noise has had its part: {used}");
    assert!(vms.iter().all(|vm| vm["exclusion"]["violations"] == 0));
}

#[test]
fn wrong_machines_and_parameters_are_told_in_one_line_with_a_suggestion() {
    for (options, says) in [
        (
            "--machine sim:broadwel-ex-4s",
            "did you mean 'broadwell-ex-4s'?",
        ),
        ("--machine sym:x", "write kvm, threads or sim:NAME"),
        (
            "--machine sim:broadwell-ex-4s --set kick_nz=1",
            "did you mean 'kick_ns'?",
        ),
        (
            "--machine sim:broadwell-ex-4s --set kick_ns=soon",
            "kick_ns: 'soon' is not a number",
        ),
        (
            "--machine sim:broadwell-ex-4s --set links=9",
            "4 sockets cannot have 9 links",
        ),
        (
            "--machine threads --set kick_ns=1",
            "--set applies only to simulated machines",
        ),
        (
            "--machine sim:broadwell-ex-4s --cpus 111-112",
            "online are 0-111",
        ),
        (
            "--machine sim:broadwell-ex-4s --vcpus 16384",
            "the lock word can name no more",
        ),
        (
            "--machine sim:broadwell-ex-4s --cpl 3",
            "--cpl applies only to KVM",
        ),
    ] {
        let output = pvlab(&format!("run --lock tas {options}"));
        assert_eq!(output.status.code(), Some(2), "{options}");
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(says), "{options}: {text}");
    }
    let output = pvlab("compare --machine threads --jobs 2");
    assert_eq!(output.status.code(), Some(2));
    for option in ["--writer-fifo", "--shuffle-interval 1s"] {
        let output = pvlab(&format!(
            "torture --machine sim:broadwell-ex-4s --lock tas --writers 1 {option}"
        ));
        ended(&output, 2, option, &["applies only to real machines"]);
    }
}

#[test]
fn a_simulated_run_can_be_interrupted() {
    let child = begin("run --lock tas --vcpus 4 --machine sim:broadwell-ex-4s --duration 3600s");
    std::thread::sleep(Duration::from_millis(300));
    send(&child, Signal::INT);
    let (code, _, errors) = end_within(child, Duration::from_secs(60));
    assert_eq!(code, Some(1));
    assert!(errors.contains("interrupted"));
}

#[test]
fn a_sweep_has_a_row_for_each_value_whatever_the_jobs() {
    let line = "sim --machine sim:here --locks tas,pv-qspinlock --vcpus 4 --warm-up 5ms --duration 5ms \
                --sweep kick_ns=1us..100us:log:3 --rounds 2 --format json";
    let report = done(line);
    assert_eq!(report, done(&format!("{line} --jobs 1")));
    let report = json(&report);
    assert_eq!(report["parameter"], "kick_ns");
    assert_eq!(report["simulated"], true);
    let points = report["points"].as_array().unwrap();
    let values: Vec<_> = points
        .iter()
        .map(|p| p["value"].as_f64().unwrap())
        .collect();
    assert_eq!(values, [1e3, 1e4, 1e5]);
    for point in points {
        assert_eq!(point["locks"][0]["ratio"], 1.0);
        assert_eq!(point["locks"][1]["rounds"].as_array().unwrap().len(), 2);
    }
    let tas = |point: &Value| point["locks"][0]["acquisitions_per_s"].clone();
    assert_eq!(
        tas(&points[0]),
        tas(&points[2]),
        "nobody kicks for a test-and-set lock"
    );
}

#[test]
fn machines_are_listed_with_the_source_of_every_parameter() {
    let list = json(&done("machines --format json"));
    let machines = list["machines"].as_array().unwrap();
    let names: Vec<_> = machines
        .iter()
        .map(|m| m["name"].as_str().unwrap())
        .collect();
    assert!(names.starts_with(&["kvm", "threads"]) && names.contains(&"sim:broadwell-ex-4s"));
    let one = json(&done(
        "machines sim:broadwell-ex-4s --set kick_ns=2us --format json",
    ));
    for parameter in one["parameters"].as_array().unwrap() {
        assert!(parameter["source"].is_string(), "{parameter}");
        if parameter["name"] == "kick_ns" {
            assert_eq!(parameter["value"], 2000.0);
        }
    }
    assert!(done("machines").contains("sim:thunderx2-2s"));
    assert!(done("machines here --format csv").contains("kick_ns,"));
}

#[test]
fn what_is_swept_over_is_not_set() {
    let output = pvlab(
        "sim --machine sim:here --locks tas --vcpus 2 --set kick_ns=3us --sweep kick_ns=1us,2us",
    );
    ended(&output, 2, "", &["is swept over"]);
}
