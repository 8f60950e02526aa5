//! What a vCPU's thread may ask of the kernel: what it needs to run a guest, and nothing else (seccomp(2)).
//!
//! A guest that took over the thread that serves it, by a mistake of this monitor's or of KVM's, could open no
//! file, start no program, reach no network and make no memory executable. It takes no privilege.
//!
//! | calls                                                    | what for                                       |
//! |----------------------------------------------------------|------------------------------------------------|
//! | `ioctl` of `KVM_RUN`, `KVM_GET_REGS`                     | to run the vCPU, and to tell where it is       |
//! | `read`                                                   | to halt                                        |
//! | `membarrier` of `PRIVATE_EXPEDITED`                      | the barrier doorbell                           |
//! | `clock_gettime`, `clock_nanosleep`, `sched_yield` ...    | directed yields, preemption on demand          |
//! | `futex`                                                  | notes, notices                                 |
//! | `mmap`, `mprotect` not for code; `munmap`, `madvise` ... | the allocator, and the end of a thread         |
//! | `write` to standard error                                | diagnostics, the message of a panic            |
//! | `rt_sigreturn`, `restart_syscall` ...                    | to be interrupted, stopped and continued       |
//! | `tgkill` of SIGABRT                                      | to abort                                       |
//!
//! Any other call fails with EPERM, and is remembered: the vCPU ends with an error that names it
//! ([`VmmError::Denied`](crate::VmmError::Denied)). That takes a signal handler, so that a thread must not block
//! signals either: a call that is denied would end the process without a word.
#![allow(unsafe_code)] // System calls without safe wrappers, and a signal handler.

mod names;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    sock_filter,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

pub use names::name;

/// `_IO(KVMIO, 0x80)` (linux/kvm.h).
const KVM_RUN: u64 = 0xae80;
/// `_IOR(KVMIO, 0x81, struct kvm_regs)`.
const KVM_GET_REGS: u64 = 0x8090_ae81;
/// linux/membarrier.h.
const MEMBARRIER_PRIVATE_EXPEDITED: u64 = 1 << 3;
/// Standard error.
const STDERR: u64 = 2;
/// Of a signal sent by a filter (asm-generic/siginfo.h).
const SYS_SECCOMP: libc::c_int = 1;

/// Calls that are allowed whatever their arguments are.
const ALLOWED: [libc::c_long; 21] = [
    libc::SYS_read,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_sched_yield,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
];

thread_local! {
    /// Whether this thread is under the filter.
    static CONFINED: Cell<bool> = const { Cell::new(false) };
    /// The first call of this thread that was denied; negative: none.
    static DENIED: Cell<i64> = const { Cell::new(-1) };
}

/// A filter that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    /// The program could not be made.
    #[error("cannot make the seccomp filter of a vCPU's thread: {0}; use --no-seccomp")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refuses it.
    #[error(
        "cannot put a vCPU's thread under its seccomp filter: {0}; where the kernel has none, use --no-seccomp"
    )]
    Install(#[source] io::Error),
}

/// The filter, ready to be installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter(&'static [sock_filter]);

impl Filter {
    /// The filter; made once.
    ///
    /// # Errors
    /// If this is a processor that the filter's maker does not know, or the handler cannot be installed.
    pub(crate) fn new() -> Result<Self, SeccompError> {
        static PROGRAM: OnceLock<BpfProgram> = OnceLock::new();
        if let Some(program) = PROGRAM.get() {
            return Ok(Self(program));
        }
        let program = program()?;
        handle_denials().map_err(SeccompError::Install)?;
        know_memory();
        Ok(Self(PROGRAM.get_or_init(|| program)))
    }

    /// Puts the calling thread under it, for the rest of its life.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn confine(self) -> Result<(), SeccompError> {
        block_signals().map_err(SeccompError::Install)?;
        CONFINED.set(true);
        self.install().map_err(SeccompError::Install)
    }

    fn install(self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(io::Error::other)?,
            filter: self.0.as_ptr().cast::<libc::sock_filter>().cast_mut(),
        };
        // Without privilege a thread must first give up gaining any.
        // SAFETY: the call takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Kernels before 5.16 would turn off speculation for a filtered thread, and change what is measured.
        // SAFETY: `program` and the static program that it points to outlive the call, which only reads them;
        // seccompiler's sock_filter has the kernel's layout, as libc's has.
        let installed = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                &raw const program,
            )
        };
        match installed {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The number of the first call of this thread that its filter has denied, if any has been.
pub(crate) fn denied() -> Option<i64> {
    Some(DENIED.get()).filter(|&number| number >= 0)
}

/// Lets the allocator find out at once what it would later, in whatever thread has need of it then, and looks into
/// files for: how many arenas it may make (eight for each CPU), and whether memory that it gives back may be taken
/// by others (vm.overcommit_memory).
fn know_memory() {
    #[cfg(target_env = "gnu")]
    {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = i32::try_from(8 * cpus).unwrap_or(i32::MAX);
        // SAFETY: the call takes numbers only, and may be made at any time (mallopt(3)).
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
    // An arena other than the first gives memory back when much of it is free at its end. Pieces that are larger
    // than these would not come from it. Where there can be no thread, nothing will be confined either.
    const PIECE: usize = 64 << 10;
    let take_and_give_back = || {
        let pieces: Vec<Vec<u8>> = (0..64).map(|_| vec![1; PIECE]).collect();
        std::hint::black_box(&pieces);
    };
    let thread = std::thread::Builder::new().spawn(take_and_give_back);
    let _ = thread.map(std::thread::JoinHandle::join);
}

/// The filter as a program of the kernel's.
fn program() -> Result<BpfProgram, SeccompError> {
    // PROT_EXEC must not be among the protections.
    let code = u64::from(libc::PROT_EXEC.unsigned_abs());
    let not_code = || SeccompCondition::new(2, Dword, MaskedEq(code), 0);
    let is = |argument, value| SeccompCondition::new(argument, Qword, Eq, value);
    let is_int = |argument, value| SeccompCondition::new(argument, Dword, Eq, value);
    let abort = u64::from(libc::SIGABRT.unsigned_abs());
    // Of each call, the conditions of which one must hold.
    let conditions: [(_, Vec<Vec<SeccompCondition>>); 7] = [
        (
            libc::SYS_ioctl,
            vec![vec![is_int(1, KVM_RUN)?], vec![is_int(1, KVM_GET_REGS)?]],
        ),
        (
            libc::SYS_membarrier,
            vec![vec![is_int(0, MEMBARRIER_PRIVATE_EXPEDITED)?]],
        ),
        (libc::SYS_mmap, vec![vec![not_code()?]]),
        (libc::SYS_mprotect, vec![vec![not_code()?]]),
        (libc::SYS_write, vec![vec![is(0, STDERR)?]]),
        (libc::SYS_writev, vec![vec![is(0, STDERR)?]]),
        (libc::SYS_tgkill, vec![vec![is_int(2, abort)?]]),
    ];
    let mut rules: BTreeMap<_, _> = ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    for (call, conditions) in conditions {
        let each = conditions.into_iter().map(SeccompRule::new);
        rules.insert(call, each.collect::<Result<_, _>>()?);
    }
    let (otherwise, allowed) = (SeccompAction::Trap, SeccompAction::Allow);
    let filter = SeccompFilter::new(rules, otherwise, allowed, TargetArch::x86_64)?;
    Ok(filter.try_into()?)
}

/// Lets signals to the process go to other threads: their handlers may do more than a vCPU's thread may. What is
/// left are faults, the signal that interrupts it, and what cannot be blocked.
fn block_signals() -> io::Result<()> {
    let left = [
        vmm_sys_util::signal::SIGRTMIN(),
        libc::SIGSYS,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGABRT,
    ];
    // SAFETY: a set of signals is plain data, which sigfillset() writes whole; the calls get valid pointers to it.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut blocked);
        for signal in left {
            libc::sigdelset(&raw mut blocked, signal);
        }
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Installs the handler of calls that are denied.
fn handle_denials() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_denied;
    // SAFETY: all zeros are a valid sigaction, which has no flag and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler touches nothing but its thread's context and own words of that thread, which need no
    // initialisation; `action` outlives the call, and the old action is not asked for.
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A call was denied (seccomp(2), SECCOMP_RET_TRAP): it fails with EPERM.
extern "C" fn on_denied(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands over a valid siginfo_t.
    let code = unsafe { (*info).si_code };
    if code != SYS_SECCOMP || !CONFINED.get() {
        // Not ours: as if there were no handler.
        // SAFETY: both calls take numbers only, and may be made in a handler (signal-safety(7)).
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let context = context.cast::<libc::ucontext_t>();
    const RAX: usize = libc::REG_RAX as usize;
    // SAFETY: the third argument of a handler with SA_SIGINFO is this thread's context, which is its own to
    // change: RAX has the call's number, and is taken as the call's result afterwards.
    let rax = unsafe { &mut (*context).uc_mcontext.gregs[RAX] };
    if DENIED.get() < 0 {
        DENIED.set(*rax);
    }
    *rax = -i64::from(libc::EPERM);
}

#[cfg(test)]
mod tests;
