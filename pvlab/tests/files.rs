//! What becomes of the files that pvlab writes, whatever becomes of pvlab: seen from outside, with pipes,
//! kills, full disks and directories that go away.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;

use commands::{command, json, stderr, stdout};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A short trace that needs no host.
const TRACE: &str =
    "trace --machine sim:here --lock ticket --vcpus 2 --ring 4096 --warm-up 10us --duration 1ms";
/// One that is larger than the file systems and limits here.
const LARGE: &str =
    "trace --machine sim:here --lock ticket --vcpus 2 --warm-up 10us --duration 20ms";
/// A short run.
const RUN: &str =
    "run --machine sim:here --lock tas --vcpus 2 --warm-up 10us --duration 1ms --format json";

const FORMATS: [&str; 2] = ["perfetto", "json-lines"];

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The account of a trace file, and whether the file ends early.
fn account(path: &Path) -> (serde_json::Value, bool) {
    let mut command = command("trace --account json --summary");
    let output = command.arg(path).output().unwrap();
    assert!(output.status.success(), "{path:?}: {}", stderr(&output));
    let early = stderr(&output).contains("the file ends early");
    (json(stdout(&output)), early)
}

fn shell(script: &str, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_pvlab")])
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

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
                  --warm-up 10us --save-schedule $2-1 >/dev/null & \
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

/// Waits for something that comes soon.
fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Some(found) = what() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Waits until the vCPUs have their threads.
fn wait_until_at_work(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    let at_work = || {
        let names = fs::read_dir(&tasks)
            .ok()?
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        (names.filter(|name| name.starts_with("vcpu")).count() >= 2).then_some(())
    };
    wait_for(at_work).expect("it starts its vCPUs");
}

fn start(line: &str, output: &Path, temporary: &Path) -> Child {
    command(line)
        .arg("-o")
        .arg(output)
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
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
        let mut child = start(&line, &file, scratch.path());
        let draft = scratch
            .path()
            .join(format!("trace.pvlab-{}.draft", child.id()));
        let large = || fs::metadata(&draft).is_ok_and(|found| found.len() > 300_000);
        wait_for(|| large().then_some(())).expect("it is written as it is merged");
        child.kill().unwrap();
        child.wait().unwrap();
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

/// Runs `line`, does `change` when its vCPUs are at work, and expects that it says where what it measured is.
fn kept_after(line: &str, output: &Path, temporary: &Path, change: impl FnOnce()) -> PathBuf {
    let child = command(line)
        .arg("-o")
        .arg(output)
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_at_work(&child);
    change();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    kept(stderr(&output))
}

fn kept(message: &str) -> PathBuf {
    let line = message.lines().last().unwrap();
    let (_, kept) = line
        .split_once("kept in ")
        .unwrap_or_else(|| panic!("{message}"));
    PathBuf::from(kept)
}

#[test]
fn what_was_measured_is_kept_when_its_file_cannot_be_replaced_in_the_end() {
    let lines = [
        "run --machine threads --lock tas --vcpus 2 --duration 700ms --format json",
        "trace --machine threads --lock pv-qspinlock --vcpus 2 --duration 700ms --format json-lines",
        "trace --machine threads --lock pv-qspinlock --vcpus 2 --duration 700ms --format perfetto",
    ];
    for line in lines {
        let scratch = tempfile::tempdir().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("there");
        let file = directory.join("out");
        let readable = |kept: &Path| {
            if line.starts_with("trace") {
                assert!(!account(kept).1, "complete");
            } else {
                json(&fs::read_to_string(kept).unwrap());
            }
        };
        fs::create_dir(&directory).unwrap();
        let kept = kept_after(line, &file, temporary.path(), || {
            fs::create_dir(&file).unwrap();
        });
        readable(&kept);
        let kept = kept_after(
            line,
            &scratch.path().join("there/2"),
            temporary.path(),
            || {
                fs::remove_dir_all(&directory).unwrap();
            },
        );
        assert!(kept.starts_with(temporary.path()), "{kept:?}");
        readable(&kept);
    }
}

#[test]
fn what_a_full_disk_refuses_is_kept_elsewhere() {
    let temporary = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let output = command(&format!("{TRACE} --format {format} -o /dev/full"))
            .env("TMPDIR", temporary.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stdout(&output).contains("waits"),
            "the account is shown all the same"
        );
        assert!(!account(&kept(stderr(&output))).1);
    }
    let output = command(RUN)
        .env("TMPDIR", temporary.path())
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    json(&fs::read_to_string(kept(stderr(&output))).unwrap());
    // Nowhere to keep it: it is on the stream that is left.
    let script = format!("cd /proc && HOME=/proc TMPDIR=/proc \"$1\" {RUN} -o /dev/full");
    let output = shell(&script, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("on standard output instead"));
    json(stdout(&output));
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trace.jsonl");
    // Blocks of 512 bytes.
    let script = format!("ulimit -f 200; exec \"$1\" {LARGE} -o $2");
    let output = Command::new("sh")
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_pvlab")])
        .arg(&file)
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("File too large"),
        "{}",
        stderr(&output)
    );
}

/// Runs the script, in which $1 is pvlab, with mounts of its own. `None`, and loudly, where that is not
/// allowed.
fn with_mounts(script: &str, arguments: &[&str]) -> Option<Output> {
    for unshare in [&["-m"][..], &["-r", "-m"]] {
        let output = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_pvlab")])
            .args(arguments)
            .env_remove("RUST_LOG")
            .output();
        if let Ok(output) = output
            && output.status.code() != Some(77)
            && !stderr(&output).contains("unshare")
        {
            return Some(output);
        }
    }
    let line = "=".repeat(60);
    eprintln!("{line}\nSKIPPED: file systems cannot be mounted here\n{line}");
    None
}

#[test]
fn a_full_file_system_keeps_nothing_and_the_other_has_it_all() {
    let small = tempfile::tempdir().unwrap();
    let large = tempfile::tempdir().unwrap();
    let paths = [small.path(), large.path()].map(|path| path.to_str().unwrap());
    let mount = "mount -t tmpfs -o size=200k none $2 || exit 77;";
    for format in FORMATS {
        // The file's directory is full.
        let script = format!(
            "{mount} TMPDIR=$3 \"$1\" {LARGE} --format {format} -o $2/out >&2; \
             echo $?; ls $2"
        );
        let Some(output) = with_mounts(&script, &paths) else {
            return;
        };
        assert_eq!(
            stdout(&output),
            "1\n",
            "nothing is left: {}",
            stderr(&output)
        );
        let kept = kept(stderr(&output));
        assert!(kept.starts_with(large.path()));
        assert!(!account(&kept).1);
        // That of temporary files is.
        let script = format!("{mount} TMPDIR=$2 \"$1\" {LARGE} --format {format} -o $3/out");
        let output = with_mounts(&script, &paths).unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!account(&large.path().join("out")).1);
    }
}

#[test]
fn a_file_that_is_a_mount_point_is_written_nevertheless() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, other) = (scratch.path().join("file"), scratch.path().join("other"));
    for (line, end) in [(RUN, "}\n"), (TRACE, "")] {
        fs::write(&file, "x".repeat(1 << 20)).unwrap();
        fs::write(&other, "hidden").unwrap();
        let script = format!("mount --bind $2 $3 || exit 77; \"$1\" {line} -o $3");
        let paths = [&file, &other].map(|path| path.to_str().unwrap());
        let Some(output) = with_mounts(&script, &paths) else {
            return;
        };
        assert!(output.status.success(), "{}", stderr(&output));
        if line == TRACE {
            assert!(!account(&file).1);
        } else {
            assert!(fs::read_to_string(&file).unwrap().ends_with(end));
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "hidden");
        assert_eq!(names(scratch.path()), ["file", "other"]);
    }
}

#[test]
fn a_writable_file_in_a_directory_that_is_not_is_written_in_place() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let scratch = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = scratch.path().join("trace.jsonl");
    fs::write(&file, "old").unwrap();
    mode(&file, 0o666);
    mode(temporary.path(), 0o777);
    mode(scratch.path(), 0o555);
    let mut command = command(TRACE);
    command.arg("-o").arg(&file).env("TMPDIR", temporary.path());
    if rustix::process::geteuid().is_root() {
        // Who may do everything cannot be refused anything.
        command.uid(65534).current_dir("/");
    }
    let output = command.output();
    mode(scratch.path(), 0o755);
    match output {
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
        Err(why) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: pvlab cannot be run as another user: {why}\n{line}");
            return;
        }
    }
    assert!(!account(&file).1);
    assert_eq!(names(scratch.path()), ["trace.jsonl"]);
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
