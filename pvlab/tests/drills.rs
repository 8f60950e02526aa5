//! What the host may do to pvlab while guests run on real KVM: ends and stops it, or threads of it, takes CPUs away,
//! gives it no privilege. Nothing is left running, and the exit code is right. Without /dev/kvm these tests say
//! loudly that they were skipped.
#![allow(clippy::unwrap_used)] // A test fails by panicking.
#![allow(unsafe_code)] // System calls without safe wrappers.

mod commands;

use commands::{begin, command, end_within, json, stderr, stdout};
use rustix::process::{Pid, Signal};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, on a host that does much else.
const SOON: Duration = Duration::from_secs(60);

fn kvm_is_here() -> bool {
    match vmm::check_host(4) {
        Ok(()) => true,
        Err(error) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no guest was drilled: {error}\n{line}");
            false
        }
    }
}

/// Seccomp filters that a process or thread is under, by its directory in /proc. (Linux 5.9 tells them.)
fn filters(directory: &Path) -> Option<u32> {
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Seccomp_filters:"))?;
    line.trim().parse().ok()
}

/// Those that this process, and so whatever it starts, is under.
fn own_filters() -> u32 {
    filters(Path::new("/proc/self")).unwrap_or(0)
}

/// The threads of `child`'s vCPUs, once there are four of them under `more` filters than this process.
fn vcpus_under(child: &Child, more: u32) -> Vec<i32> {
    let begun = Instant::now();
    let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
    loop {
        assert!(begun.elapsed() < SOON, "there are no vCPUs");
        let mut found = Vec::new();
        for task in fs::read_dir(&tasks).unwrap() {
            let task = task.unwrap().path();
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.starts_with("vcpu") && filters(&task) == Some(own_filters() + more) {
                found.push(task.file_name().unwrap().to_str().unwrap().parse().unwrap());
            }
        }
        if found.len() == 4 {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The threads of `child`'s vCPUs, once they are confined: at work, or about to be.
fn vcpus(child: &Child) -> Vec<i32> {
    vcpus_under(child, 1)
}

/// Sends a signal to one thread.
fn send_to(child: &Child, thread: i32, signal: Signal) {
    let process = i32::try_from(child.id()).unwrap();
    // SAFETY: the call takes numbers only.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal.as_raw()) };
    assert_eq!(sent, 0);
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}/task")).exists()
}

#[test]
fn a_thread_that_is_killed_takes_all_others_with_it() {
    if !kvm_is_here() {
        return;
    }
    let child = begin("run --machine kvm --lock pv-qspinlock --vcpus 4 --duration 10min");
    let process = child.id();
    let threads = vcpus(&child);
    send_to(&child, threads[2], Signal::KILL);
    let (code, out, _) = end_within(child, SOON);
    assert_eq!((code, out.as_str()), (None, ""));
    assert!(is_gone(process));
}

#[test]
fn a_thread_that_is_stopped_stops_all_and_they_go_on_together() {
    if !kvm_is_here() {
        return;
    }
    for lock in ["pv-qspinlock", "tas"] {
        let line = format!(
            "run --machine kvm --lock {lock} --vcpus 4 --duration 1500ms --warm-up 20ms --watchdog 1s --format json"
        );
        let child = begin(&line);
        for thread in vcpus(&child).into_iter().take(2) {
            send_to(&child, thread, Signal::STOP);
            std::thread::sleep(Duration::from_millis(1200));
            send_to(&child, thread, Signal::CONT);
            std::thread::sleep(Duration::from_millis(50));
        }
        let (code, out, errors) = end_within(child, SOON);
        assert_eq!(code, Some(0), "{lock}: {errors}");
        let record = json(&out)["record"].clone();
        assert!(
            record["measured_s"].as_f64().unwrap() >= 1.4,
            "{lock}: {record}"
        );
    }
}

#[test]
fn cpus_that_are_taken_away_and_given_back_cost_time_and_nothing_else() {
    if !kvm_is_here() {
        return;
    }
    let child = begin(
        "run --machine kvm --lock ticket --vcpus 4 --duration 1s --warm-up 20ms --watchdog 30s --format json",
    );
    let threads = vcpus(&child);
    let cpus: Vec<usize> = pvlab::host::allowed_cpus();
    // All to each CPU in turn, and then anywhere.
    for round in 0..6 {
        let cpu = cpus[round % cpus.len()];
        for &thread in &threads {
            let tid = Pid::from_raw(thread);
            // It may have ended by now.
            let _ = host::thread::set_affinity_of(tid, &[cpu]);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for &thread in &threads {
        let _ = host::thread::set_affinity_of(Pid::from_raw(thread), &cpus);
    }
    let (code, out, errors) = end_within(child, SOON);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("\"exclusion\""), "{out}");
}

/// Signals that interrupt whatever a thread is in, all the time.
#[test]
fn threads_that_are_interrupted_all_the_time_get_on() {
    if !kvm_is_here() {
        return;
    }
    let line = "run --machine kvm --lock pv-qspinlock --vcpus 4 --duration 2s --warm-up 20ms --format json";
    let mut child = begin(line);
    let threads = vcpus(&child);
    // One that is interrupted more often than it gets a CPU never finds out how long its work takes.
    std::thread::sleep(Duration::from_millis(500));
    let begun = std::time::Instant::now();
    // What the monitor itself interrupts them by; and one that they have blocked, and others handle.
    let interrupting = vmm_signal();
    while begun.elapsed() < Duration::from_secs(1) && child.try_wait().unwrap().is_none() {
        for &thread in &threads {
            let process = i32::try_from(child.id()).unwrap();
            for signal in [interrupting, libc::SIGCONT] {
                // SAFETY: the call takes numbers only. The thread may have ended by now.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    let (code, out, errors) = end_within(child, SOON);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(json(&out)["schema"], "pvlab.run/1");
}

/// The signal that takes a vCPU out of the guest.
fn vmm_signal() -> i32 {
    libc::SIGRTMIN()
}

#[test]
fn threads_of_vcpus_are_confined_unless_they_are_not_to_be() {
    if !kvm_is_here() {
        return;
    }
    for (option, more) in [("", 1), ("--no-seccomp", 0)] {
        let line = format!("run --machine kvm --lock tas --vcpus 4 --duration 10min {option}");
        let child = begin(&line);
        let threads = vcpus_under(&child, more);
        // A thread confines itself as its first step.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(vcpus_under(&child, more), threads, "{option}");
        let main = filters(Path::new(&format!("/proc/{}", child.id())));
        assert_eq!(main, Some(own_filters()), "the control plane is as it was");
        commands::send(&child, Signal::KILL);
        end_within(child, SOON);
    }
}

#[test]
fn whatever_a_thread_does_beside_running_its_guest_works_under_the_filter() {
    if !kvm_is_here() {
        return;
    }
    for line in [
        // Barriers, halts, directed yields, preemption on demand, a trace with notes, diagnostics of each exit.
        "run --lock pv-next --vcpus 4 --duration 200ms",
        "run --lock pv-qspinlock+asym --vcpus 4 --duration 200ms",
        "run --lock ppc-qspinlock --vcpus 8 --duration 200ms",
        "run --lock mcs --vcpus 4 --duration 200ms --preempt holder:1ms@1% --watchdog 60s",
        "trace --lock pv-qspinlock --vcpus 4 --duration 200ms",
        "bench pipe --duration 200ms",
        "torture --lock rwsem --duration 300ms",
    ] {
        let mut command = command(&format!("{line} --machine kvm"));
        // Each exit is an event, from the thread itself.
        let output = command.env("RUST_LOG", "vmm=trace").output().unwrap();
        let errors = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}: {}",
            last_lines(errors)
        );
        assert!(
            errors.contains("left the guest"),
            "{line}: {}",
            last_lines(errors)
        );
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

const LINE: &str = "run --machine kvm --lock pv-next --vcpus 4 --duration 200ms --format json";

fn measures(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let report = json(stdout(output));
    assert!(report["record"]["measured_s"].as_f64().unwrap() > 0.0);
}

/// The right to open /dev/kvm is all that it takes.
#[test]
fn a_process_without_privilege_runs_guests() {
    if !kvm_is_here() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "SKIPPED: this user has no privilege to give up, so that all other tests show it"
        );
        return;
    }
    let mut bare = command(LINE);
    // SAFETY: makes system calls, and allocates nothing.
    unsafe {
        bare.pre_exec(|| {
            // The owner of the device, but no more: what the bounding set lacks is not gained by execve(2).
            for capability in 0..64 {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        });
    }
    measures(&bare.output().unwrap());

    const NOBODY: u32 = 65534;
    let device = fs::metadata("/dev/kvm").unwrap();
    let group = match device.mode() {
        mode if mode & 0o006 == 0o006 => NOBODY,
        mode if mode & 0o060 == 0o060 => device.gid(),
        _ => {
            eprintln!(
                "SKIPPED: only root may open /dev/kvm here, no guest was run by another user"
            );
            return;
        }
    };
    // A copy that anybody can read, as what was built need not be.
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("pvlab");
    fs::copy(env!("CARGO_BIN_EXE_pvlab"), &program).unwrap();
    for path in [place.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = std::process::Command::new(&program);
    command.args(LINE.split(' ')).env_remove("RUST_LOG");
    measures(&command.uid(NOBODY).gid(group).output().unwrap());
}
