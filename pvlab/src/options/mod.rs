//! What the commands share of their options, a file for each concern: its options, what comes of them, and
//! what may be wrong with them. And how commands end.

pub(crate) mod cells;
pub(crate) mod common;
pub(crate) mod cpus;
pub(crate) mod effect;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod guests;
pub(crate) mod lock;
pub(crate) mod machine;
pub(crate) mod numbers;
pub(crate) mod offer;
pub(crate) mod output;
pub(crate) mod pool;
pub(crate) mod preempt;
pub(crate) mod progress;
pub(crate) mod schedule;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod times;
pub(crate) mod work;

pub(crate) use cells::{Cell, CellArgs};
pub(crate) use common::{BaseArgs, Common, Request};
pub(crate) use effect::NoEffect;
pub(crate) use error::{CliError, Ends, usage};
pub(crate) use exit::{BROKEN, DONE, FAILED, SLOWER, complain, interrupted, watch};
pub(crate) use guests::{GuestArgs, Guests, vcpus};
pub(crate) use lock::{LockArg, lock_parser};
pub(crate) use machine::{JobsArgs, MachineArg, MachineUsage, jobs, machine_parser};
pub(crate) use numbers::{
    NumberUsage, count, each, named, positive, reads_to_writes, rounds, share, whole,
};
pub(crate) use output::{ReportArgs, Target, format, in_short, short_format};
pub(crate) use progress::{Aside, Progress, Watcher};
pub(crate) use schedule::ScheduleArgs;
pub(crate) use times::{
    OutsideArg, TimeUsage, check_time, duration, interval, length, long_duration, long_interval,
    nonzero_duration, nonzero_long_duration, outside, work_time,
};
pub(crate) use work::{DataArgs, no_read_side};
