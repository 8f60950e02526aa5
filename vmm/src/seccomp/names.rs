//! What system calls are called.

macro_rules! calls {
    ($($name:ident)+) => {
        /// Calls that a program in trouble is likely to make, by number.
        const NAMES: &[(i64, &str)] = &[$((libc::$name, stringify!($name)),)+];
    };
}

calls! {
    SYS_accept SYS_accept4 SYS_access SYS_arch_prctl SYS_bind SYS_bpf SYS_chdir SYS_chmod SYS_chown
    SYS_clock_settime SYS_clone SYS_clone3 SYS_close SYS_close_range SYS_connect SYS_creat SYS_dup SYS_dup2
    SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_wait SYS_eventfd2 SYS_execve
    SYS_execveat SYS_exit_group SYS_faccessat SYS_fallocate SYS_fchmod SYS_fcntl SYS_fork SYS_fstat
    SYS_fsync SYS_ftruncate SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getppid
    SYS_getpriority SYS_getrlimit SYS_getsockopt SYS_getuid SYS_inotify_init1 SYS_io_uring_enter
    SYS_io_uring_setup SYS_ioctl SYS_kill SYS_link SYS_listen SYS_lseek SYS_lstat SYS_membarrier
    SYS_memfd_create SYS_mincore SYS_mkdir SYS_mkdirat SYS_mlock SYS_mmap SYS_mount SYS_mprotect SYS_msync
    SYS_munlock SYS_newfstatat SYS_open SYS_openat SYS_openat2 SYS_perf_event_open SYS_pidfd_getfd
    SYS_pidfd_open SYS_pipe SYS_pipe2 SYS_pkey_alloc SYS_pkey_mprotect SYS_poll SYS_ppoll SYS_prctl
    SYS_pread64 SYS_preadv SYS_prlimit64 SYS_process_vm_readv SYS_process_vm_writev SYS_pselect6 SYS_ptrace
    SYS_pwrite64 SYS_pwritev SYS_readlink SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmsg SYS_rename
    SYS_renameat2 SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigqueueinfo SYS_rt_sigsuspend
    SYS_rt_sigtimedwait SYS_sched_getaffinity SYS_sched_getattr SYS_sched_setaffinity SYS_sched_setattr
    SYS_sched_setscheduler SYS_seccomp SYS_select SYS_sendfile SYS_sendmsg SYS_sendto SYS_setpriority
    SYS_setrlimit SYS_setsockopt SYS_setuid SYS_shutdown SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice
    SYS_stat SYS_statfs SYS_statx SYS_symlink SYS_sysinfo SYS_tgkill SYS_timer_create SYS_timerfd_create
    SYS_timerfd_settime SYS_tkill SYS_umask SYS_uname SYS_unlink SYS_unlinkat SYS_unshare SYS_userfaultfd
    SYS_utimensat SYS_vfork SYS_wait4 SYS_waitid SYS_write SYS_writev
}

/// The name of a system call, with its number; its number alone if it is not a common one.
pub fn name(number: i64) -> String {
    let known = NAMES.iter().find(|call| call.0 == number);
    match known.and_then(|call| call.1.strip_prefix("SYS_")) {
        Some(name) => format!("{name} (number {number})"),
        None => format!("number {number}"),
    }
}
