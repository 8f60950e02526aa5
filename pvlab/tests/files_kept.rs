//! What was measured is kept when it cannot be written where it should: full disks, directories that go away,
//! mount points, other people's directories.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod published;

use commands::{command, ended, json, stderr, stdout};
use published::{FORMATS, LARGE, RUN, TRACE, account, names, shell, wait_until_at_work, writing};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs `line`, does `change` when its vCPUs are at work, and expects that it says where what it measured is.
fn kept_after(line: &str, output: &Path, temporary: &Path, change: impl FnOnce()) -> PathBuf {
    let mut command = writing(line, output, temporary);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
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
        "run --machine threads --lock tas --vcpus 2 --critical 20us --outside 20us --duration 1200ms --format json",
        "trace --machine threads --lock pv-qspinlock --vcpus 2 --critical 20us --outside 20us --duration 1200ms --format json-lines",
        "trace --machine threads --lock pv-qspinlock --vcpus 2 --critical 20us --outside 20us --duration 1200ms --format perfetto",
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
    ended(&output, 1, "", &["on standard output instead"]);
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
    ended(&output, 1, "", &["File too large"]);
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
        // A user who may do everything cannot be refused anything.
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
