//! Host threads: placement, and what the scheduler knows of them.

use crate::{HostError, sched};
use rustix::process::Pid;
use rustix::thread::CpuSet;
use std::fs;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Lets the calling thread run on `cpus` only.
///
/// # Errors
/// If one of them does not exist or is not allowed.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    set_affinity_of(None, cpus)
}

/// Lets thread `tid` run on `cpus` only; `None` is the calling thread.
///
/// # Errors
/// As [`set_affinity`], or if the thread has ended.
pub fn set_affinity_of(tid: Option<Pid>, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(tid, &set)?)
}

/// Starts the thread of vCPU `vcpu`, a part of the load. It runs `begin` before this returns, and then
/// `body`, on `cpus`.
///
/// # Errors
/// If the host refuses it, or that place.
pub fn start_vcpu(
    vcpu: usize,
    cpus: &[usize],
    begin: impl FnOnce() + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, HostError> {
    const START: &str = "start a vCPU's thread";
    let (placed, placement) = mpsc::channel();
    let wanted = cpus.to_vec();
    let thread = std::thread::Builder::new()
        .name(format!("vcpu{vcpu}"))
        .spawn(move || {
            sched::join_load();
            let result = set_affinity(&wanted);
            begin();
            let ok = result.is_ok();
            let _ = placed.send(result);
            if ok {
                body();
            }
        })
        .map_err(HostError::os(START))?;
    match placement.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(source)) => Err(HostError::Affinity {
            vcpu,
            cpus: cpus.to_vec(),
            source,
        }),
        Err(_) => Err(HostError::os(START)(io::Error::other("it died"))),
    }
}

/// Gives thread `tid` the niceness `nice`: -20 to 19, the less important the higher.
///
/// # Errors
/// If the thread has ended, or may not become more important.
pub fn set_nice(tid: Pid, nice: i32) -> io::Result<()> {
    // Linux has a niceness for each thread, and takes a thread's number where POSIX has a process.
    Ok(rustix::process::setpriority_process(Some(tid), nice)?)
}

/// Lets thread `tid` run before all threads of ordinary scheduling, until it blocks (SCHED_FIFO), with
/// `priority` 1 to 99 among its kind.
///
/// # Errors
/// If the thread has ended, or this process may not (it takes CAP_SYS_NICE or RLIMIT_RTPRIO).
#[allow(unsafe_code)] // The system call has no safe wrapper.
pub fn set_fifo(tid: Pid, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    let tid = tid.as_raw_nonzero().get();
    // SAFETY: `parameters` is a valid sched_param, which the call only reads.
    match unsafe { libc::sched_setscheduler(tid, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets writing a file beyond what is allowed (RLIMIT_FSIZE) fail with EFBIG, instead of ending the process
/// by SIGXFSZ.
#[allow(unsafe_code)] // The system call has no safe wrapper.
pub fn let_large_files_fail() {
    // SAFETY: to ignore a signal installs no handler, and nothing of this process relies on that one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// How long thread `tid` of this process has been on a CPU: what [`ThreadStats`] says too, for a
/// thousandth of the time.
///
/// # Errors
/// If the thread has ended.
#[allow(unsafe_code)] // The system call has no safe wrapper for such a clock.
pub fn cpu_time(tid: Pid) -> io::Result<Duration> {
    /// The clock of a thread's CPU time (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED of Linux's ABI, which
    /// pthread_getcpuclockid makes in the same way).
    const THREAD_CPU_TIME: libc::clockid_t = 4 | 2;
    let clock = !tid.as_raw_nonzero().get() << 3 | THREAD_CPU_TIME;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to be written.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::from_secs(seconds)
        + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The policy: one of libc's SCHED_ constants.
    pub policy: i32,
    /// Real-time priority; 0 of policies that have none.
    pub priority: i32,
}

impl Scheduling {
    /// How the calling thread is scheduled.
    ///
    /// # Errors
    /// If the kernel does not tell.
    #[allow(unsafe_code)] // The system calls have no safe wrapper.
    pub fn of_caller() -> io::Result<Self> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call takes a number alone.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: `parameters` is a valid sched_param to be written.
        if policy < 0 || unsafe { libc::sched_getparam(0, &raw mut parameters) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            policy: policy & !libc::SCHED_RESET_ON_FORK,
            priority: parameters.sched_priority,
        })
    }

    /// The policy's name in sched(7).
    pub const fn policy_name(self) -> &'static str {
        match self.policy {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_DEADLINE => "SCHED_DEADLINE",
            _ => "unknown",
        }
    }
}

/// What the scheduler has counted for a thread; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStats {
    /// Time on a CPU.
    pub cpu: Option<Duration>,
    /// Time runnable, but not on a CPU.
    pub queued: Option<Duration>,
    /// Times it gave up its CPU to wait for something.
    pub voluntary_switches: Option<u64>,
    /// Times it was preempted.
    pub involuntary_switches: Option<u64>,
}

impl ThreadStats {
    /// The statistics of thread `tid` of this process, as far as the kernel tells them.
    pub fn of(tid: Pid) -> Self {
        let status = read(tid, "status").ok();
        let field = |name: &str| {
            let line = status
                .as_ref()?
                .lines()
                .find_map(|l| l.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        let queued = || {
            let schedstat = read(tid, "schedstat").ok()?;
            let ns = schedstat.split_whitespace().nth(1)?.parse().ok()?;
            Some(Duration::from_nanos(ns))
        };
        Self {
            cpu: cpu_time(tid).ok(),
            queued: queued(),
            voluntary_switches: field("voluntary_ctxt_switches"),
            involuntary_switches: field("nonvoluntary_ctxt_switches"),
        }
    }

    /// Why nothing is known of the switches of thread `tid`, if nothing is.
    pub fn unknown(tid: Pid) -> Option<String> {
        match read(tid, "status") {
            Ok(text) if text.contains("voluntary_ctxt_switches") => None,
            Ok(_) => Some("this kernel does not tell them in /proc".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("there is no /proc for this process: mount it".to_owned())
            }
            Err(error) => Some(format!(
                "/proc cannot be read: {}",
                crate::limits::explain(&error)
            )),
        }
    }
}

fn read(tid: Pid, file: &str) -> io::Result<String> {
    fs::read_to_string(format!("/proc/self/task/{}/{file}", tid.as_raw_nonzero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_and_sleeps_is_seen_to_do_both() {
        let tid = rustix::thread::gettid();
        let before = ThreadStats::of(tid);
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(2));
        let after = ThreadStats::of(tid);
        assert!(after.cpu > before.cpu);
        assert!(after.voluntary_switches > before.voluntary_switches);
    }

    #[test]
    fn the_clock_of_a_thread_runs_as_the_thread_does() {
        let tid = rustix::thread::gettid();
        let before = cpu_time(tid).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let slept = cpu_time(tid).unwrap();
        assert!(slept - before < Duration::from_millis(20));
        while cpu_time(tid).unwrap() - slept < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(ThreadStats::of(tid).cpu >= Some(slept + Duration::from_millis(4)));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        assert!(
            std::thread::spawn(|| set_affinity(&[CpuSet::MAX_CPU - 1]))
                .join()
                .unwrap()
                .is_err()
        );
        assert!(set_affinity(&[usize::MAX]).is_err());
    }
}
