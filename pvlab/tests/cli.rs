//! The command line without any run: usage errors, help, lists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;

use commands::{cases, ended_in_a_line, stderr, stdout};
use std::path::PathBuf;
use std::process::{Command, Output};

fn pvlab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pvlab"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Asserts that the command fails with that code, one line that has all `parts`, and nothing else.
fn fails(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = pvlab(arguments);
    let what = arguments.join(" ");
    ended_in_a_line(&output, code, &what, parts);
    assert_eq!(stdout(&output), "", "{what}");
    assert!(stderr(&output).starts_with("error: "), "{what}");
}

const WRONG: &str = "\
compare --locks tas,qspinlok => --locks | 'qspinlok' | 'qspinlock' | pvlab locks
compare --locks => --locks
compare --locks tas, => there is nothing between two commas
compare --baseline mcs2 => --baseline | unknown lock 'mcs2'
run --lock mutex --contexts 2 => --contexts | 'mutex' | an interrupt cannot
compare --locks tas --baseline ticket => ticket | not among --locks tas
compare --vcpus 0 => --vcpus | at least 1
compare --vcpus many => --vcpus | no whole number
compare --vcpus 4097 --machine kvm => 4097 vCPUs | at most 4096
compare --vcpus 16384 --machine threads => at most 16383
compare --cpus 60000 => CPU 60000 | does not exist | online are
compare --cpus 0- => --cpus | 0-1
compare --cpus 0,0 => CPU 0 is named twice
compare --placement 0,0 --vcpus 3 => 2 CPUs for 3 vCPUs
compare --placement sideways => 'sideways' | pinned | floating
compare --duration 5 => --duration | no unit | 5s
compare --duration soon => --duration | 'soon' | 2s
compare --duration 0 => --duration | longer than zero
compare --duration 1s --iterations 5 => --duration | --iterations
compare --critical 130 => --critical | 130ns
compare --rounds 0 => --rounds | at least 1
compare --min-effect 5 => --min-effect | 1%
compare --spin-threshold 0 => --spin-threshold | a number of turns (1 to
compare --machine qemu => --machine | kvm | threads
compare --machine threads --cpl 0 => --cpl | leave it out
compare --machine sim:here --no-seccomp => --no-seccomp | leave it out
compare --cpl 1 => --cpl | auto
run --lock pv-qspinlock --no-pv-unhalt => 'pv-qspinlock' | --no-pv-unhalt | auto, virt-tas
compare --no-pv-unhalt => 'pv-qspinlock' | --no-pv-unhalt
run --lock tas --no-pv-unhalt => --no-pv-unhalt | no lock is auto
run --lock tas --no-pv => --no-pv | no lock is auto
compare --realtime-hint => --realtime-hint | no lock is auto
compare --locks tas,tas:patched --machine threads => 'tas:patched' | KVM guest | :pointer
run --lock tas:sideways => 'sideways' | LOCK:pointer | LOCK:patched
run --lock auto=tas => 'auto=tas'
compare --watchdog 1us --critical 2us => --watchdog 1us | longer
compare --format xml => --format | json
compare --colour => --colour | pvlab compare --help
run => --lock | --vm
run --vcpus 4 => --lock
run --lock tas --vm lock=tas,vcpus=1 => --lock | --vm
run --vm tas => --vm | lock=NAME,vcpus=N
run --vm lock=tas,vcpus=0 => --vm | at least 1
run --lock tas --stat-interval 3s --duration 2s => --stat-interval 3s | 2s
run --lock tas --stat-interval 1us => --stat-interval | 1ms
compare --locks rwlock,tas --reads 80% => --reads | 'tas' is taken exclusively | rwlock
run --lock qspinlock --readers 1 => --readers | rwlock
run --lock rwlock:pointer --reads 80% => --reads | compiled in | use rwlock
run --lock rwlock --reads 0:0 => --reads | 4:1
run --lock rwlock --reads 101% => --reads | 80%
run --lock rwlock --reads 80% --readers 1 => --reads | --readers
run --lock rwlock --readers 0 => --readers | at least 1
run --lock rwlock --readers 9 --vcpus 8 => --readers 9 | 8 vCPUs
trace --lock rwlock --reads 80% => --reads | one holder
trace --lock tas --contexts 2 => --contexts | traced
compare --locks tas --explain --contexts 2 => --contexts | traced
run --lock tas --contexts 6 => --contexts | 1 to 5
run --lock tas --contexts 0 => --contexts | 1 to 5
run --lock tas --contexts 2 --lock-count 3 => --lock-count 3 | leave
run --lock tas --contexts 2 --skew 1 => --skew | --contexts
run --lock tas --skew 1 => --skew | --lock-count
run --lock tas --skew=-1 --lock-count 2 => --skew
run --lock tas --numa-nodes 3 --vcpus 2 => --numa-nodes 3 | 2 vCPUs
doctor --format csv => --format | json
completions tcl => tcl | bash
benchmark => 'benchmark' | pvlab --help";

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    for (line, parts) in cases(WRONG) {
        fails(&words(line), 2, &parts);
    }
}

#[test]
fn no_command_at_all_shows_the_help_and_is_wrong() {
    let output = pvlab(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("Usage: pvlab"));
}

#[test]
fn a_log_filter_that_does_not_parse_is_wrong_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_pvlab"))
        .args(["locks"])
        .env("RUST_LOG", "vmm=loud")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: RUST_LOG='vmm=loud'"));
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let dir = Scratch::new("unwritable");
    for path in [dir.0.clone(), dir.0.join("missing/report.json")] {
        let path = path.to_str().unwrap();
        let line = [
            "run",
            "--lock",
            "tas",
            "--machine",
            "threads",
            "--duration",
            "1h",
            "-o",
            path,
        ];
        fails(&line, 1, &["cannot write", path, "--output"]);
    }
    assert_eq!(
        std::fs::read_dir(&dir.0).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn wrong_usage_leaves_no_file() {
    let dir = Scratch::new("usage");
    let path = dir.0.join("report.json");
    fails(
        &["run", "--lock", "nope", "-o", path.to_str().unwrap()],
        2,
        &["unknown lock"],
    );
    assert!(!path.exists());
}

#[test]
fn help_has_examples_and_units() {
    for command in [
        &["--help"][..],
        &["compare", "--help"],
        &["run", "--help"],
        &["doctor", "--help"],
        &["locks", "--help"],
        &["completions", "--help"],
    ] {
        let output = pvlab(command);
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert_eq!(stderr(&output), "");
        assert!(
            stdout(&output).contains("Examples:\n  pvlab "),
            "{command:?}"
        );
    }
    let output = pvlab(&["compare", "--help"]);
    let help = stdout(&output);
    for part in [
        "[default: 130ns]",
        "[default: 2s]",
        "--min-effect <PERCENT>",
        "qspinlock if it is",
    ] {
        assert!(help.contains(part), "{part}");
    }
    assert!(
        !help.contains("--drop-kicks"),
        "fault injection is not advertised"
    );
}

#[test]
fn locks_are_listed_with_their_traits_and_controls_are_marked() {
    let output = pvlab(&["locks"]);
    assert_eq!(output.status.code(), Some(0));
    for lock in pvlock::LockKind::ALL {
        assert!(stdout(&output).contains(lock.name()), "{lock}");
    }
    let output = pvlab(&["locks", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(json["schema"], "pvlab.locks/1");
    let locks = json["locks"].as_array().unwrap();
    assert_eq!(locks.len(), peers::Kind::all().count());
    for lock in locks {
        let name = lock["name"].as_str().unwrap();
        assert_eq!(lock["control"], name.starts_with("busted"), "{name}");
        assert_eq!(
            lock["peer"],
            peers::Peer::from_name(name).is_some(),
            "{name}"
        );
        let halts = name.contains("pv-") || name == "busted-wakeup" || lock["sleeps"] == true;
        assert_eq!(lock["halts"], halts, "{name}");
    }
}

#[test]
fn completion_scripts_know_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = pvlab(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("compare"), "{shell}");
        assert_eq!(stderr(&output), "", "{shell}");
    }
}

/// A directory of its own for a test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
