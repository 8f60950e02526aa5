//! The command line with short runs on host threads, which every host can do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;

use commands::{begin, end_within, ended, json, pvlab, send, stderr, stdout};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

const SHORT: &str = "--machine threads --vcpus 2 --duration 40ms --warm-up 10ms";

#[test]
fn a_comparison_reports_every_lock_and_keeps_stdout_clean() {
    let output = pvlab(&format!(
        "compare --locks tas,ticket,tas --rounds 2 {SHORT} --format json"
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress without a terminal");
    let json = json(stdout(&output));
    assert_eq!(json["schema"], "pvlab.compare/1");
    assert_eq!(json["machine"], "threads");
    assert_eq!(json["machine_reason"], "as asked");
    assert_eq!(json["baseline"], "tas");
    assert_eq!(
        (&json["rounds_done"], &json["ended"]),
        (&2.into(), &"complete".into())
    );
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for (result, lock) in results.iter().zip(["tas", "ticket", "tas"]) {
        assert_eq!(result["lock"], lock);
        assert_eq!(result["exclusion"], "held");
        assert!(result["acquisitions"].as_u64().unwrap() > 0, "{lock}");
        assert_eq!(result["throughput"]["rounds"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_table_says_first_which_machine_it_was() {
    let output = pvlab(&format!("run --lock ticket {SHORT}"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("machine: threads (as asked), 2 vCPUs on CPU"));
}

#[test]
fn interval_lines_are_beside_a_table_but_not_in_data() {
    let line = format!("run --lock tas {SHORT} --stat-interval 10ms");
    let output = pvlab(&line);
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert!(lines[0].starts_with("machine: "), "{lines:?}");
    assert!(lines[1].contains("/s acquisitions"), "{lines:?}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("machine: "))
            .count(),
        1
    );

    let output = pvlab(&format!("{line} --format json"));
    assert_eq!(json(stdout(&output))["schema"], "pvlab.run/1");
    assert!(stderr(&output).contains("/s acquisitions"));
}

#[test]
fn fixed_iterations_are_made_by_each_vcpu() {
    let line = "run --lock ticket --vcpus 2 --iterations 1000 --machine threads --warm-up 0";
    let output = pvlab(&format!("{line} --format csv"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut lines = stdout(&output)
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = header
        .iter()
        .position(|name| *name == "acquisitions")
        .unwrap();
    let rows: Vec<u64> = lines.map(|cells| cells[column].parse().unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|&n| n == 1000), "{rows:?}");
}

#[test]
fn a_lock_that_does_not_exclude_is_exit_code_3_and_still_reported() {
    let file = Scratch::new("broken.json");
    let options = "--machine threads --vcpus 4 --duration 200ms --warm-up 10ms --format json";
    for (command, about) in [("run --lock", "run"), ("compare --locks", "compare")] {
        let output = pvlab(&format!("{command} busted {options} -o {}", file.path()));
        ended(
            &output,
            3,
            about,
            &["MUTUAL EXCLUSION BROKEN by lock 'busted'"],
        );
        assert_eq!(stdout(&output), "", "{about}");
        assert_eq!(json(&file.read())["exclusion"], "broken", "{about}");
    }
}

#[test]
fn ctrl_c_ends_a_run_with_what_was_measured() {
    let mut child =
        begin("run --lock tas --machine threads --vcpus 2 --duration 1min --stat-interval 10ms");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // An interval line: it is measuring.
    lines
        .find(|line| line.as_ref().unwrap().contains("acquisitions"))
        .unwrap()
        .unwrap();
    send(&child, Signal::INT);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.iter().any(|line| line.contains(", interrupted;")),
        "{rest:?}"
    );
    let (code, errors) = end(child);
    assert_eq!(code, Some(1));
    assert!(errors.starts_with("interrupted after"), "{errors}");
}

#[test]
fn ctrl_c_in_the_first_round_of_a_comparison_says_that_nothing_is_complete() {
    let file = Scratch::new("interrupted.json");
    let line = "compare --locks tas --machine threads --vcpus 1 --duration 1min --warm-up 0";
    let child = begin(&format!("{line} --format json -o {}", file.path()));
    std::thread::sleep(Duration::from_millis(500));
    send(&child, Signal::INT);
    let (code, errors) = end(child);
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("before the first round was complete"),
        "{errors}"
    );
    assert!(!file.0.exists(), "nothing half-written");
}

#[test]
fn a_closed_pipe_ends_a_run_quietly() {
    let mut child =
        begin("run --lock tas --machine threads --vcpus 1 --duration 1min --stat-interval 10ms");
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    let (code, errors) = end(child);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

/// Waits for the end, which must come soon; the exit code and standard error.
fn end(child: Child) -> (Option<i32>, String) {
    let (code, _, errors) = end_within(child, Duration::from_secs(20));
    (code, errors)
}

/// A file that a test may write, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(
            PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
                .join(format!("{}-{name}", std::process::id())),
        )
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn read(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_lock_called_through_pointers_is_the_one_that_was_asked_for() {
    let output = pvlab(
        "run --lock pv-qspinlock:pointer --machine threads --vcpus 4 --duration 100ms \
         --spin-threshold 200 --format json",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(stdout(&output));
    let summary = &report["summaries"][0];
    assert!(summary["halts"].as_u64().unwrap() > 0, "{summary}");
    assert!(summary["events"]["pv_kick_unlock"].as_u64().unwrap() > 0);
    assert_eq!(report["slow_paths"][0]["algorithm"], "pv-qspinlock:pointer");
    let output = pvlab(&format!("run --lock busted:pointer {SHORT}"));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn reports_say_that_vcpu_is_preempted_is_off_and_whether_that_changed_anything() {
    for line in [
        "run --lock mutex --vcpus 2 --warm-up 1ms",
        "compare --locks mutex,tas --rounds 1 --vcpus 2 --warm-up 1ms",
        "trace --lock mutex --vcpus 2 --warm-up 1ms",
        "bench rwsem-bench --threads 2 --modes wlock --rounds 1 --warm-up 1ms",
        "torture --lock mutex --writers 2",
    ] {
        let said = |switch: &str| {
            let output = pvlab(&format!(
                "{line} --machine threads --duration 40ms {switch}"
            ));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            format!("{}{}", stdout(&output), stderr(&output))
        };
        let off = said("--no-vcpu-is-preempted");
        assert!(off.contains("vcpu_is_preempted off"), "{line}: {off}");
        let nothing = "--no-vcpu-is-preempted changed nothing";
        assert_eq!(off.matches(nothing).count(), 1, "{line}: {off}");
        let on = said("");
        assert!(!on.contains("vcpu_is_preempted off"), "{line}: {on}");
        assert!(!on.contains(nothing), "{line}: {on}");
    }
}
