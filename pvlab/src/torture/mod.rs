//! Torture: hold a lock in every manner, check everything, and say whether it stood it.
//!
//! What vCPUs do is [`guest::workload::torture`]. The host's part is here: it makes everybody pause
//! now and then, moves threads about, watches for locks that are stuck and threads that starve, and
//! gives the verdict. Output is that of Linux's locktorture.

mod count;
mod late;
pub mod lines;
mod pauses;
mod record;
mod run;
mod shuffle;
mod stop;
pub mod verdict;
mod watch;

pub use count::Tally;
pub use record::{Interval, Pause, Record, Role, Starved, Thread};
pub use run::{Observer, run};
pub use verdict::{Failure, failures};
