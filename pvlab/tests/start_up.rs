//! System calls that fail while pvlab starts and runs a guest on real KVM: each kind, all of them and one by one. It
//! says in a line what could not be done, or does without; it never panics, hangs or dies of a signal. Without
//! /dev/kvm, or a kernel that lets calls be made to fail, these tests say loudly that they were skipped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod commands;
mod injected;

use commands::{command, stderr};
use injected::{Calls, Injected, Which, run};

const RUN: &str = "run --machine kvm --lock pv-qspinlock --vcpus 2 --duration 20ms --warm-up 5ms";

fn kvm_is_here() -> bool {
    match vmm::check_host(2) {
        Ok(()) => true,
        Err(error) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no start was disturbed: {error}\n{line}");
            false
        }
    }
}

const fn all(number: libc::c_long) -> Calls {
    Calls {
        number,
        argument: None,
    }
}

const fn ioctl(request: u32) -> Calls {
    Calls {
        number: libc::SYS_ioctl,
        argument: Some((1, request)),
    }
}

/// Requests of KVM's (linux/kvm.h).
const IOCTLS: [(&str, u32); 16] = [
    ("KVM_GET_API_VERSION", 0xae00),
    ("KVM_CREATE_VM", 0xae01),
    ("KVM_CHECK_EXTENSION", 0xae03),
    ("KVM_GET_VCPU_MMAP_SIZE", 0xae04),
    ("KVM_CREATE_VCPU", 0xae41),
    ("KVM_SET_USER_MEMORY_REGION", 0x4020_ae46),
    ("KVM_IOEVENTFD", 0x4040_ae79),
    ("KVM_RUN", 0xae80),
    ("KVM_GET_REGS", 0x8090_ae81),
    ("KVM_SET_REGS", 0x4090_ae82),
    ("KVM_GET_SREGS", 0x8138_ae83),
    ("KVM_SET_SREGS", 0x4138_ae84),
    ("KVM_SET_MSRS", 0x4008_ae89),
    ("KVM_GET_TSC_KHZ", 0xaea3),
    ("KVM_GET_DEVICE_ATTR", 0x4018_aee2),
    ("KVM_GET_STATS_FD", 0xaece),
];

/// Private anonymous memory for a thread's stack, memory of a guest, and memory shared with KVM, by mmap's flags.
const MAPS: [(&str, u32); 3] = [
    ("mmap of a stack", 0x2_0022),
    ("mmap of guest memory", 0x4022),
    ("mmap of what KVM shares", 1),
];

const CALLS: [(&str, libc::c_long); 23] = [
    ("eventfd2", libc::SYS_eventfd2),
    ("clone3", libc::SYS_clone3),
    ("prctl", libc::SYS_prctl),
    ("seccomp", libc::SYS_seccomp),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_setattr", libc::SYS_sched_setattr),
    ("sched_getattr", libc::SYS_sched_getattr),
    ("setpriority", libc::SYS_setpriority),
    ("getpriority", libc::SYS_getpriority),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    ("socketpair", libc::SYS_socketpair),
    ("pipe2", libc::SYS_pipe2),
    ("fcntl", libc::SYS_fcntl),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("prlimit64", libc::SYS_prlimit64),
    ("openat", libc::SYS_openat),
    ("statx", libc::SYS_statx),
    ("membarrier", libc::SYS_membarrier),
    ("madvise", libc::SYS_madvise),
];

/// Whether it ended as it may: in good order, or saying why not in a line.
fn ended_well(injected: &Injected) -> bool {
    let text = stderr(&injected.output);
    match injected.output.status.code() {
        Some(0) => true,
        // The dynamic loader's own, and those of Rust's runtime.
        Some(127) => text.contains("shared libraries"),
        Some(1 | 2) => text.trim_end().lines().count() == 1 && !text.contains("panicked"),
        Some(_) => false,
        None => text.contains("fatal runtime error"),
    }
}

/// Lets all of the calls fail, and then each of some of them, and adds to `faults` what did not end as it may.
/// `None` if this kernel cannot do that.
fn disturb(
    what: &str,
    line: &str,
    calls: Calls,
    errno: i32,
    faults: &mut Vec<String>,
) -> Option<()> {
    let never = run(command(line), calls, Which::From(usize::MAX), errno)?;
    assert_eq!(
        never.output.status.code(),
        Some(0),
        "{what}: {}",
        stderr(&never.output)
    );
    let made = never.calls;
    let mut cases = vec![Which::From(0)];
    let mut some = vec![0, 1, made / 2, made.saturating_sub(1)];
    some.sort_unstable();
    some.dedup();
    cases.extend(some.into_iter().filter(|&n| n < made).map(Which::Only));
    for which in cases {
        // The first is a look whether there are any to be had: tokio, which makes the second, would panic.
        if calls.number == libc::SYS_socketpair && matches!(which, Which::Only(1..)) {
            continue;
        }
        let injected = run(command(line), calls, which, errno)?;
        if !ended_well(&injected) {
            let (status, text) = (injected.output.status, stderr(&injected.output));
            faults.push(format!(
                "{what}, {which:?} of {made}, errno {errno}: {status}: {text}"
            ));
        }
    }
    Some(())
}

#[test]
fn calls_of_kvm_that_fail_are_told_of_in_a_line() {
    if !kvm_is_here() {
        return;
    }
    let mut faults = Vec::new();
    for (name, request) in IOCTLS {
        if disturb(name, RUN, ioctl(request), libc::EPERM, &mut faults).is_none() {
            return;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn calls_that_fail_are_told_of_in_a_line_or_done_without() {
    if !kvm_is_here() {
        return;
    }
    let mut faults = Vec::new();
    for (name, number) in CALLS {
        let errno = match number {
            libc::SYS_clone3 => libc::EAGAIN,
            libc::SYS_madvise => libc::ENOMEM,
            _ => libc::EPERM,
        };
        if disturb(name, RUN, all(number), errno, &mut faults).is_none() {
            return;
        }
    }
    for (name, flags) in MAPS {
        let calls = Calls {
            number: libc::SYS_mmap,
            argument: Some((3, flags)),
        };
        if disturb(name, RUN, calls, libc::ENOMEM, &mut faults).is_none() {
            return;
        }
    }
    let trace = "trace --machine kvm --lock mcs --vcpus 2 --duration 20ms --ring 1024";
    let perf = all(libc::SYS_perf_event_open);
    disturb("perf_event_open", trace, perf, libc::EACCES, &mut faults);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A signal may come at any time.
#[test]
fn calls_that_are_interrupted_are_made_again() {
    if !kvm_is_here() {
        return;
    }
    for (name, request) in IOCTLS {
        // One that takes no memory and does not sleep is not interrupted, and kvm-ioctls does not say that it was.
        if [
            "KVM_GET_API_VERSION",
            "KVM_CHECK_EXTENSION",
            "KVM_GET_VCPU_MMAP_SIZE",
        ]
        .contains(&name)
        {
            continue;
        }
        for which in [Which::Only(0), Which::Only(1)] {
            let Some(injected) = run(command(RUN), ioctl(request), which, libc::EINTR) else {
                return;
            };
            let text = stderr(&injected.output);
            assert_eq!(
                injected.output.status.code(),
                Some(0),
                "{name}, {which:?}: {text}"
            );
        }
    }
}
