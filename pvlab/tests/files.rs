//! What becomes of the files that pvlab writes, whatever becomes of pvlab: seen from outside, with pipes and
//! kills.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod published;

use commands::{command, json, stderr, stdout};
use published::{FORMATS, RUN, TRACE, account, names, shell, start, wait_for, wait_until_at_work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

#[test]
fn a_trace_goes_through_a_pipe_with_one_header_whatever_its_format() {
    let scratch = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let file = scratch.path().join(format);
        let line = format!("{TRACE} --format {format}");
        assert!(
            command(&line)
                .arg("-o")
                .arg(&file)
                .status()
                .unwrap()
                .success()
        );
        let (expected, _) = account(&file);
        for (to, from) in [("-", "-"), ("/dev/stdout", "/dev/stdin")] {
            let script = format!(
                "\"$1\" {line} -o {to} 2>/dev/null | \"$1\" trace --account json --summary {from}"
            );
            let output = shell(&script, &[]);
            assert_eq!(stderr(&output), "", "{format} {to}");
            assert_eq!(json(stdout(&output)), expected, "{format} {to}");
        }
    }
}

#[test]
fn the_reader_of_a_named_pipe_gets_the_trace_and_its_end() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    let pipe = pipe.to_str().unwrap();
    for format in FORMATS {
        let script = format!(
            "rm -f $2; mkfifo $2; \"$1\" {TRACE} --format {format} -o $2 >/dev/null & \
             timeout 60 \"$1\" trace --account json --summary $2 && wait $!"
        );
        let output = shell(&script, &[pipe]);
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        assert_eq!(json(stdout(&output))["sum_violations"], 0);
        assert_eq!(stderr(&output), "", "complete");
    }
    // So does that of a schedule, which is written twice to a file: once.
    let script = "mkfifo $2-1; \"$1\" run --lock tas --vcpus 2 --machine sim:here --iterations 5 \
                  --warm-up 1ms --save-schedule $2-1 >/dev/null & \
                  timeout 60 cat $2-1; wait $!";
    let output = shell(script, &[pipe]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(stdout(&output))["outcome"], "fine");
    // A run that fails ends the pipe too.
    let script = "mkfifo $2-2; timeout 60 cat $2-2 & \"$1\" run --machine sim:here --lock busted \
                  --vcpus 2 --iterations 20 --format json -o $2-2; wait $!";
    let output = shell(script, &[pipe]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_report_goes_to_descriptors_and_is_appended_to_what_is_there() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("all");
    let script = format!(
        "{{ echo before; \"$1\" {RUN} -o /dev/stdout; echo after; \"$1\" {RUN} -o /dev/fd/3 3>&1; }} >$2"
    );
    let output = shell(&script, &[file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(&file).unwrap();
    let (first, second) = text.split_once("after\n").unwrap();
    assert_eq!(json(first.strip_prefix("before\n").unwrap()), json(second));
    assert_eq!(names(scratch.path()), ["all"]);
}

/// The draft of a trace whose writer was killed while it was written.
fn killed_in_the_middle(line: &str, file: &Path, directory: &Path) -> PathBuf {
    // It may be over before it is noticed, on a busy host.
    for _ in 0..10 {
        fs::write(file, "old").unwrap();
        let mut child = start(line, file, directory);
        let draft = directory.join(format!("trace.pvlab-{}.draft", child.id()));
        let large = || fs::metadata(&draft).is_ok_and(|found| found.len() > 300_000);
        let over = |child: &mut Child| child.try_wait().unwrap().is_some();
        wait_for(|| (large() || over(&mut child)).then_some(())).expect("it ends");
        // Has no effect on one that has ended.
        let _ = child.kill();
        child.wait().unwrap();
        if draft.exists() {
            return draft;
        }
    }
    panic!("it is never seen at work");
}

#[test]
fn a_kill_leaves_the_old_file_and_a_draft_that_can_be_read() {
    let scratch = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let file = scratch.path().join("trace");
        fs::write(&file, "old").unwrap();

        // While it runs, there is nothing else.
        let line =
            format!("trace --machine threads --lock tas --vcpus 2 --duration 1h --format {format}");
        let mut child = start(&line, &file, scratch.path());
        wait_until_at_work(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(names(scratch.path()), ["trace"]);

        // While it merges, there is a draft.
        let line = format!(
            "trace --machine threads --lock tas --vcpus 2 --duration 500ms --format {format}"
        );
        let draft = killed_in_the_middle(&line, &file, scratch.path());
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        let (account, early) = account(&draft);
        assert!(early);
        assert!(account["events"].as_u64().unwrap() > 1000, "{account}");

        // The next complete file takes it away.
        let line = format!("{TRACE} --format {format}");
        assert!(
            start(&line, &file, scratch.path())
                .wait()
                .unwrap()
                .success()
        );
        assert_eq!(names(scratch.path()), ["trace"]);
        assert!(!self::account(&file).1);
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn of_two_runs_with_one_target_one_complete_file_wins() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace.jsonl");
    let line = |seed| format!("{TRACE} --seed {seed}");
    let mut both: Vec<_> = (1..=2)
        .map(|seed| start(&line(seed), &file, scratch.path()))
        .collect();
    for child in &mut both {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(names(scratch.path()), ["trace.jsonl"]);
    let (won, early) = account(&file);
    assert!(!early);
    let alone = |seed| {
        let file = scratch.path().join(format!("{seed}.jsonl"));
        assert!(
            start(&line(seed), &file, scratch.path())
                .wait()
                .unwrap()
                .success()
        );
        account(&file).0
    };
    assert!(won == alone(1) || won == alone(2));
}

#[test]
fn a_trace_that_nobody_wants_to_read_to_its_end_ends_quietly() {
    let script = format!("\"$1\" {TRACE} --format json-lines -o - 2>$2 | head -c 100; cat $2 >&2");
    let scratch = tempfile::tempdir().unwrap();
    let errors = scratch.path().join("errors");
    let output = shell(&script, &[errors.to_str().unwrap()]);
    assert_eq!(stdout(&output).len(), 100);
    assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
}
