//! Whether there is room for what does not say so when there is none.

use std::io;

/// Descriptors that the control plane takes: tokio's poller, its waker, its pipe of signals and a second
/// handle of it.
const DESCRIPTORS: usize = 8;

/// An error if there is no room for the control plane's descriptors: tokio panics then, where it sets up
/// its pipe of signals.
pub(super) fn for_control() -> io::Result<()> {
    let take = |_| rustix::io::fcntl_dupfd_cloexec(io::stderr(), 0);
    let taken: Result<Vec<_>, _> = (0..DESCRIPTORS).map(take).collect();
    taken.map(drop).map_err(io::Error::from)
}
