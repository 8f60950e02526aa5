//! Commands end when they are to: by themselves, by signals, and when nobody reads what they say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;

use commands::{begin, end_within, json, send};
use rustix::process::Signal;
use std::process::Child;
use std::time::Duration;

/// Far longer than anything here takes, on a host that does much else.
const SOON: Duration = Duration::from_secs(20);

/// Lets the command get to work.
fn work() {
    std::thread::sleep(Duration::from_millis(400));
}

#[test]
fn the_second_signal_ends_whatever_runs() {
    for line in [
        "run --lock ticket --machine threads --vcpus 96 --cpus 0 --duration 1min",
        "run --lock ticket --machine sim:broadwell-ex-4s --vcpus 2048 --duration 1min",
        "compare --locks ticket,mcs --machine threads --vcpus 16 --cpus 0 --duration 1min",
        "sim --machine sim:here --locks tas --vcpus 8 --sweep kick_ns=1us..100us:log:8 --duration 1h",
        "bench rwsem-bench --machine threads --duration 1min",
        "torture --lock ticket --machine threads --writers 96 --cpus 0 --duration 1min",
        "validate --locks tas --vcpus 4 --duration 1min",
        "calibrate --machine threads",
        "doctor",
    ] {
        let child = begin(line);
        work();
        send(&child, Signal::INT);
        send(&child, Signal::TERM);
        let (code, _, errors) = end_within(child, SOON);
        // At once, or, had it got both as one, in good order.
        assert!(
            matches!(code, Some(130 | 143 | 1)),
            "{line}: {code:?} {errors}"
        );
    }
}

#[test]
fn a_simulated_run_ends_in_the_middle_of_its_time() {
    let line =
        "run --lock qspinlock --machine sim:broadwell-ex-4s --vcpus 1024 --warm-up 0 --duration 1h";
    for signal in [Signal::INT, Signal::TERM] {
        let child = begin(&format!("{line} --format json"));
        std::thread::sleep(Duration::from_secs(2));
        send(&child, signal);
        let (code, out, errors) = end_within(child, SOON);
        assert_eq!(code, Some(1), "{errors}");
        // On a slow host the measurement had not begun.
        if errors.contains("before the measurement started") {
            continue;
        }
        let json = json(&out);
        assert_eq!(json["record"]["interrupted"], true);
        assert_eq!(json["exclusion"], "held");
        assert!(json["record"]["measured_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_fair_lock_with_many_vcpus_does_not_keep_a_run_from_ending() {
    let mut machines = vec!["threads"];
    if std::path::Path::new("/dev/kvm").exists() {
        machines.push("kvm");
    }
    for machine in machines {
        for lock in ["ticket", "qspinlock", "ticket:pointer"] {
            let child = begin(&format!(
                "run --lock {lock} --machine {machine} --vcpus 96 --cpus 0 --duration 300ms --warm-up 0 \
                 --format json"
            ));
            let (code, out, errors) = end_within(child, 2 * SOON);
            assert_eq!(code, Some(0), "{machine} {lock}: {errors}");
            let json = json(&out);
            let record = &json["record"];
            let exclusion = &record["vms"][0]["exclusion"];
            let count = |name: &str| exclusion[name].as_u64().unwrap();
            assert!(count("entries") >= count("acquisitions"), "{exclusion}");
            assert!(
                count("entries") <= count("acquisitions") + count("cut_off"),
                "{exclusion}"
            );
            assert!(count("cut_off") <= 96, "{exclusion}");
            // The VM's clock and the host's differ a little.
            let measured = record["measured_s"].as_f64().unwrap();
            let absences = &record["without_cpu"];
            assert!(
                measured >= 0.299,
                "{machine} {lock}: {measured} s, {absences}"
            );
            assert_ne!(record["control_plane"], "");
        }
    }
}

/// Begins the command as a real-time process; `None` if this host does not permit it.
fn begin_real_time(line: &str) -> Option<Child> {
    let line = line.to_owned();
    let begun = std::thread::spawn(move || {
        host::thread::set_fifo(rustix::thread::gettid(), 50).ok()?;
        Some(begin(&line))
    });
    begun.join().unwrap()
}

#[test]
fn a_real_time_process_ends_too() {
    for line in [
        "run --lock tas --vcpus 8 --machine threads --duration 200ms --warm-up 10ms",
        "run --lock ticket --vcpus 32 --machine threads --noise 2 --duration 200ms --warm-up 10ms",
        "torture --lock tas --writers 8 --machine threads --duration 300ms",
    ] {
        let Some(child) = begin_real_time(line) else {
            eprintln!("SKIPPED: THIS HOST PERMITS NO REAL-TIME SCHEDULING");
            return;
        };
        let (code, _, errors) = end_within(child, 2 * SOON);
        assert_eq!(code, Some(0), "{line}: {errors}");
    }
}

#[test]
fn a_command_ends_with_its_reader() {
    for line in [
        "run --lock tas --machine threads --vcpus 1 --duration 1min",
        "run --lock tas --machine threads --vcpus 1 --duration 1min --format csv",
        "run --lock tas --machine sim:here --vcpus 2 --duration 1h --format json",
        "trace --lock tas --machine threads --vcpus 1 --duration 1min",
        "trace --lock tas --machine threads --vcpus 1 --duration 1min --format json-lines",
        "compare --locks tas --machine threads --vcpus 1 --duration 1min",
        "torture --lock tas --machine threads --writers 1 --duration 1min",
        "locks",
    ] {
        let mut child = begin(line);
        drop(child.stdout.take());
        let (code, _, errors) = end_within(child, SOON);
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn nobody_has_to_read_the_progress() {
    let line = "run --lock tas --machine threads --vcpus 1 --duration 100ms --warm-up 0 --stat-interval 10ms \
                --format json";
    let mut child = begin(line);
    drop(child.stderr.take());
    let (code, out, _) = end_within(child, SOON);
    assert_eq!(code, Some(0));
    assert_eq!(json(&out)["exclusion"], "held");
}
