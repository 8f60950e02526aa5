//! A kernel that offers no membarrier(2): locks that need it are refused before anything runs, and only they.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)] // A test fails by panicking.
#![allow(unsafe_code)] // The system call is filtered out.

mod commands;

use commands::{command, ended, ended_in_a_line};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Output;

/// Makes membarrier(2) fail as where it does not exist (seccomp(2), Linux's Documentation/userspace-api/seccomp_filter.rst).
fn forbid() -> io::Result<()> {
    let load = |k| libc::sock_filter {
        code: 0x20,
        jt: 0,
        jf: 0,
        k,
    };
    let answer = |k| libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k,
    };
    let number = u32::try_from(libc::SYS_membarrier).map_err(io::Error::other)?;
    let mut rules = [
        // The number of the system call: the first word of seccomp_data.
        load(0),
        libc::sock_filter {
            code: 0x15,
            jt: 0,
            jf: 1,
            k: number,
        },
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: rules.as_mut_ptr(),
    };
    // SAFETY: both take numbers and a program that lives as long as the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    done.then_some(()).ok_or_else(io::Error::last_os_error)
}

fn without_membarrier(line: &str) -> Output {
    let mut command = command(line);
    // SAFETY: makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(forbid) };
    command.output().unwrap()
}

#[test]
fn locks_that_need_a_barrier_on_all_cpus_are_refused_where_there_is_none() {
    let parts = ["membarrier(2)", "pv-qspinlock+bound+rehash"];
    for line in [
        "run --machine threads --lock pv-next",
        "compare --machine threads --locks tas,qrwlock+pv-next",
        "torture --machine threads --lock pv-qspinlock+asym",
        "trace --machine threads --lock pv-next",
    ] {
        ended_in_a_line(&without_membarrier(line), 2, line, &parts);
    }
    let short = "--vcpus 2 --duration 10ms --warm-up 1ms";
    for line in [
        format!("run --machine threads --lock pv-qspinlock+bound+rehash {short}"),
        format!("run --machine sim:here --lock pv-next {short}"),
        format!("compare --machine threads --rounds 1 {short}"),
    ] {
        ended(&without_membarrier(&line), 0, &line, &[]);
    }
}
