//! How a command is ended from outside: by signals, and by whoever reads its output.
//!
//! | what happens                                   | what follows                                        |
//! |------------------------------------------------|-----------------------------------------------------|
//! | the first SIGINT or SIGTERM, a run under way    | the run ends, and what was measured is reported     |
//! | the same, nothing under way that could report   | the process ends at once                            |
//! | another one                                     | the process ends at once, whatever it does          |
//! | the reader of standard output has gone          | the run ends, and so does the command, in silence   |
//!
//! What ends the process at once is the signal's handler: it depends on no thread getting a CPU, nor on
//! what the one that it interrupts was doing.
#![allow(unsafe_code)] // Installing a handler, which must not do all that code may do.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use std::ffi::CString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// Signals that ask the process to end.
const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];
/// Files that may be drafts at the same time, at most.
const MOST_DRAFTS: usize = 16;
/// To the beginning of the line, and erase it (ECMA-48: EL): a progress bar may be there.
const ERASE_LINE: &[u8] = b"\r\x1b[K";

// Relaxed throughout: each says all there is to say.

/// Signals so far.
static SIGNALLED: AtomicU32 = AtomicU32::new(0);
/// Runs are to end: there has been a signal, or nobody reads.
static ASKED: AtomicBool = AtomicBool::new(false);
/// There is somebody who looks at [`ASKED`].
static HEEDED: AtomicBool = AtomicBool::new(false);
/// Standard output is what the command is for.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Nobody reads standard output any more.
static READER_LEFT: AtomicBool = AtomicBool::new(false);
/// Standard error is a terminal, and something is drawn there that is to be erased.
static DRAWN: AtomicBool = AtomicBool::new(false);
/// Paths of drafts, each a C string that is never freed, so that the handler may read it at any time.
static DRAFTS: [AtomicPtr<std::ffi::c_char>; MOST_DRAFTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_DRAFTS];

/// Installs the handler, for the process.
///
/// # Errors
/// If the system refuses.
pub(crate) fn install() -> io::Result<()> {
    for signal in SIGNALS {
        let signal = signal.as_raw();
        // SAFETY: on_signal() does nothing but atomic accesses and system calls that signal-safety(7) lists.
        unsafe { signal_hook::low_level::register(signal, move || on_signal(signal)) }?;
    }
    Ok(())
}

fn on_signal(signal: i32) {
    let before = SIGNALLED.fetch_add(1, Ordering::Relaxed);
    ASKED.store(true, Ordering::Relaxed);
    if before == 0 && HEEDED.load(Ordering::Relaxed) {
        return;
    }
    for draft in &DRAFTS {
        let path = draft.load(Ordering::Relaxed);
        if !path.is_null() {
            // SAFETY: a C string that is never freed.
            let path = unsafe { std::ffi::CStr::from_ptr(path) };
            // There is nobody to tell if it cannot be removed.
            let _ = rustix::fs::unlink(path);
        }
    }
    if DRAWN.load(Ordering::Relaxed) {
        // It may have been closed meanwhile.
        let _ = rustix::io::write(rustix::stdio::stderr(), ERASE_LINE);
    }
    signal_hook::low_level::exit(128 + signal);
}

/// From now on runs look at [`asked`]: the first signal is theirs.
pub(crate) fn heed() {
    HEEDED.store(true, Ordering::Relaxed);
}

/// Whether runs are to end.
pub(crate) fn asked() -> bool {
    if !ASKED.load(Ordering::Relaxed) && reader_is_gone() {
        READER_LEFT.store(true, Ordering::Relaxed);
        ASKED.store(true, Ordering::Relaxed);
    }
    ASKED.load(Ordering::Relaxed)
}

/// What [`asked`] looks at, for those that must not take the time.
pub(crate) fn asked_flag() -> &'static AtomicBool {
    &ASKED
}

/// The command is for those who read standard output: without them it ends.
pub(crate) fn watch_reader() {
    WATCHED.store(true, Ordering::Relaxed);
}

/// Whether the command ends because nobody reads its output.
pub(crate) fn has_reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

/// Something is drawn on standard error that is not to stay.
pub(crate) fn drawn() {
    DRAWN.store(io::stderr().is_terminal(), Ordering::Relaxed);
}

/// It has been erased.
pub(crate) fn erased() {
    DRAWN.store(false, Ordering::Relaxed);
}

/// Whether standard output is watched, and its other end is closed.
fn reader_is_gone() -> bool {
    if !WATCHED.load(Ordering::Relaxed) {
        return false;
    }
    let stdout = io::stdout();
    // Nothing is asked for: errors are told of in any case.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let closed = PollFlags::ERR | PollFlags::HUP;
    let ready = poll(&mut fds, Some(&rustix::time::Timespec::default()));
    matches!(ready, Ok(1..)) && fds[0].revents().intersects(closed)
}

/// A file that is to be removed if the process is ended at once before it is complete.
#[derive(Debug)]
pub(crate) struct Draft(Option<usize>);

impl Draft {
    /// The file at `path`. Beyond the first few at the same time they stay where they are.
    pub(crate) fn at(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let Ok(path) = CString::new(absolute.as_os_str().as_bytes()) else {
            return Self(None);
        };
        // Some bytes for each draft of a process are lost: see DRAFTS.
        let path = path.into_raw();
        let free = |slot: &AtomicPtr<_>| {
            let null = std::ptr::null_mut();
            slot.compare_exchange(null, path, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        Self(DRAFTS.iter().position(free))
    }
}

impl Drop for Draft {
    /// It is complete, or has been removed.
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            DRAFTS[slot].store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
