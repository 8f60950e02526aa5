//! Whether this process has been stopped: by SIGSTOP, by Ctrl-Z, by a debugger.
//!
//! A process does not notice that it is stopped, but it can be told that it goes on: SIGCONT, which ends
//! each stop, can be handled.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Times that this process was told to go on.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

extern "C" fn continued(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CONTINUED.fetch_add(1, Ordering::Relaxed);
}

/// Counts from the first call on how often this process was told to go on.
pub fn times_continued() -> u64 {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if let Err(error) = install() {
            tracing::debug!(%error, "stops of this process will not be told from other absences");
        }
    });
    CONTINUED.load(Ordering::Relaxed)
}

#[allow(unsafe_code)] // The system call has no safe wrapper.
fn install() -> io::Result<()> {
    // SAFETY: all zeros are a valid sigaction, which has no flag and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = continued;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler does nothing but count, which is allowed in any state of the process; `action`
    // outlives the call, and the old action is not asked for.
    match unsafe { libc::sigaction(libc::SIGCONT, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
