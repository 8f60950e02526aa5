//! System calls that fail when a test wants them to: seccomp's user notification (seccomp_unotify(2)).
//!
//! The command is put under a filter that asks this process about each call of one kind, and goes on with the call
//! or fails as it is told. (A kernel before 5.9 cannot; the tests say then that they were skipped.)
#![allow(unsafe_code)] // System calls without safe wrappers.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a command may take that is made to fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to fail: calls of that number whose argument `argument.0` is `argument.1`, if it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    pub(crate) number: libc::c_long,
    pub(crate) argument: Option<(u32, u32)>,
}

/// Which of them fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// All from that one on, counted from 0.
    From(usize),
    /// That one.
    Only(usize),
}

impl Which {
    const fn is(self, number: usize) -> bool {
        match self {
            Self::From(first) => number >= first,
            Self::Only(one) => number == one,
        }
    }
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Injected {
    pub(crate) output: Output,
    /// Calls of that kind that it made.
    pub(crate) calls: usize,
}

/// What comes of `command` if `which` of its `calls` fail with `errno`; `None` if this kernel cannot do that.
pub(crate) fn run(
    mut command: Command,
    calls: Calls,
    which: Which,
    errno: i32,
) -> Option<Injected> {
    let (mut listener, to_us) = io::pipe().unwrap();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let pipe = to_us.as_raw_fd();
    // SAFETY: makes system calls, of descriptors that are open and words that are there, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let listener = listen(calls)?;
            // It stays there, however soon the command begins: by a call that no test lets fail.
            libc::ioctl(listener, libc::FIONCLEX);
            let words = [libc::getpid(), listener];
            match libc::write(pipe, words.as_ptr().cast(), size_of_val(&words)) {
                8 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    // The child asks before it has become the command, which spawn() waits for.
    let (told, tell) = mpsc::channel();
    let answering = thread::spawn(move || {
        let mut words = [0u8; 8];
        if listener.read_exact(&mut words).is_err() {
            return 0;
        }
        let word = |at: usize| i32::from_ne_bytes(words[at..at + 4].try_into().unwrap());
        let process = pidfd_open(Pid::from_raw(word(0)).unwrap(), PidfdFlags::empty()).unwrap();
        let theirs = rustix::process::pidfd_getfd(
            &process,
            word(4),
            rustix::process::PidfdGetfdFlags::empty(),
        );
        let Ok(listener) = theirs else {
            return 0;
        };
        told.send(()).unwrap();
        answer(&listener, which, errno)
    });
    let child = command.spawn();
    drop(to_us);
    let (Ok(child), Ok(())) = (child, tell.recv()) else {
        // Without a listener such calls fail.
        let line = "=".repeat(60);
        eprintln!("{line}\nSKIPPED: this kernel lets no test make system calls fail\n{line}");
        return None;
    };
    let output = end_of(child);
    let calls = answering.join().unwrap();
    Some(Injected { output, calls })
}

/// The output, once it has ended, which it must.
fn end_of(child: Child) -> Output {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let (done, is_done) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::ABORT);
            return true;
        }
        false
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!watchdog.join().unwrap(), "it hangs: {output:?}");
    output
}

/// Puts this process under a filter, and returns the descriptor that hears of calls.
fn listen(calls: Calls) -> io::Result<i32> {
    const LOAD: u16 = 0x20; // ld, of a word
    const EQUAL: u16 = 0x15; // jeq
    const RETURN: u16 = 0x06; // ret
    const USER_NOTIF: u32 = 0x7fc0_0000;
    const NEW_LISTENER: u64 = 1 << 3;
    let rule = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(calls.number).map_err(io::Error::other)?;
    // The lower half of an argument (struct seccomp_data).
    let (argument, value) = calls.argument.unwrap_or((0, 0));
    let skip = u8::from(calls.argument.is_none());
    let mut rules = [
        rule(LOAD, 0, 0, 0),
        rule(EQUAL, 0, 4, number),
        rule(EQUAL, 2 * skip, 0, number),
        rule(LOAD, 0, 0, 16 + 8 * argument),
        rule(EQUAL, 0, 1, value),
        rule(RETURN, 0, 0, USER_NOTIF),
        rule(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 7,
        filter: rules.as_mut_ptr(),
    };
    // SAFETY: both take numbers and a program that lives as long as the call.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        match libc::syscall(libc::SYS_seccomp, mode, NEW_LISTENER, &raw const program) {
            -1 => Err(io::Error::last_os_error()),
            listener => i32::try_from(listener).map_err(io::Error::other),
        }
    }
}

/// `struct seccomp_notif` (linux/seccomp.h): what is asked.
#[repr(C)]
#[derive(Default)]
struct Asked {
    id: u64,
    pid: u32,
    flags: u32,
    call: [u64; 8],
}

/// `struct seccomp_notif_resp`: the answer.
#[repr(C)]
#[derive(Default)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Answers until nobody can ask any more; how often somebody did.
fn answer(listener: &OwnedFd, which: Which, errno: i32) -> usize {
    const RECEIVE: u64 = 0xc050_2100; // SECCOMP_IOCTL_NOTIF_RECV
    const SEND: u64 = 0xc018_2101; // SECCOMP_IOCTL_NOTIF_SEND
    const CONTINUE: u32 = 1; // SECCOMP_USER_NOTIF_FLAG_CONTINUE
    let mut calls = 0;
    loop {
        let mut poll = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        if poll.revents & libc::POLLIN == 0 {
            // Everybody has ended who was under the filter.
            return calls;
        }
        let mut asked = Asked::default();
        // SAFETY: the kernel writes a struct seccomp_notif.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked) } != 0 {
            // Who asked has been ended meanwhile.
            continue;
        }
        let fails = which.is(calls);
        calls += 1;
        let mut answer = Answer {
            id: asked.id,
            error: if fails { -errno } else { 0 },
            flags: if fails { 0 } else { CONTINUE },
            ..Answer::default()
        };
        // SAFETY: the kernel reads a struct seccomp_notif_resp.
        unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
    }
}
