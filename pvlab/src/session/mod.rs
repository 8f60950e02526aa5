//! Runs a scenario on its machine.
//!
//! vCPUs are plain threads. This is the control plane: one tokio runtime on the calling thread that
//! waits for signals, deadlines, statistics intervals and what the vCPUs have to say, and watches
//! that they get on.

mod absence;
mod calibration;
mod control;
pub(crate) mod costs;
mod counted;
mod error;
mod intervals;
mod launch;
mod live;
mod measure;
mod run;
mod snapshot;
mod spinning;
mod stop;
mod surroundings;
mod tasks;
mod timers;
mod vms;
mod warm_up;
mod weights;

use crate::record::Record;
use crate::scenario::{MachineKind, Scenario};
use crate::trace::Collector;
use std::ops::ControlFlow;
use std::time::Duration;

pub use error::{RunError, Stuck};

pub(crate) use absence::Found;
pub(crate) use control::{unless, with_control};
#[cfg(test)]
pub(crate) use launch::hostile;
pub(crate) use run::{POLL, Run};
pub(crate) use snapshot::{entries, longest_wait, ns};
pub(crate) use spinning::spin_times;
pub(crate) use timers::{Due, Timers};
pub(crate) use vms::Watched;

/// How often to look at a run while it goes on. Each look takes a CPU from a vCPU for a moment, unless
/// the machine is simulated; that works in between, and a Ctrl-C waits so long.
pub(crate) const fn look_every(machine: MachineKind) -> Duration {
    Duration::from_millis(if machine.is_simulated() { 1 } else { 100 })
}

/// Is told how a run goes. `I`: what there is to tell of a statistics interval.
pub trait Observer<I = Interval> {
    /// Called when the phase changes: "launching", "warming up", "measuring", "stopping".
    fn phase(&mut self, _phase: &'static str) {}
    /// Called at each statistics interval of the measurement, if the caller asked for them. A break ends the
    /// run, as if it had been interrupted.
    fn interval(&mut self, _interval: &I) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called about every 100 ms while measuring, with the share of the measurement done (0..=1).
    fn progress(&mut self, _done: f64) {}
}

/// One statistics interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// End of the interval, in s of measured time.
    pub at_s: f64,
    /// Length of the interval, s, without [`Self::without_cpu_s`].
    pub length_s: f64,
    /// For how long nothing of this process had a CPU, s.
    pub without_cpu_s: f64,
    /// One for each VM of the scenario.
    pub vms: Vec<IntervalVm>,
    /// For a live view, the same; `None` where context switches cannot be recorded.
    pub live: Vec<Option<LiveVm>>,
}

/// What a VM did in an interval.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "counts of what they are called")]
pub struct IntervalVm {
    pub acquisitions: u64,
    pub contended: u64,
    pub halts: u64,
    pub kicks: u64,
    /// Wake-ups of queued waiters that had not become queue head.
    pub spurious: u64,
}

/// What the live view shows of a VM beside its interval.
#[derive(Clone, Debug)]
pub struct LiveVm {
    /// Times a vCPU was seen preempted while it held a lock; those of less than 5 ms may be missed.
    pub holder_preemptions: u64,
    /// vCPUs that are preempted now.
    pub preempted: Vec<usize>,
}

/// How to run, apart from what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Length of the statistics intervals, if they are wanted.
    pub stat_interval: Option<Duration>,
    /// Watch, besides, who is preempted.
    pub live: bool,
}

/// Times that a run is repeated, at most, as it was without CPU for a while.
const REPEATS: u32 = 2;

/// [`run`], and again if it was without CPU for a while: a round of a comparison must be like the others.
/// After two repetitions it is left as it is, and its record tells.
///
/// # Errors
/// See [`RunError`].
pub fn run_undisturbed(
    scenario: &Scenario,
    observer: &mut dyn Observer,
) -> Result<Record, RunError> {
    let mut repeated = 0;
    loop {
        let record = run(scenario, &Options::default(), observer)?;
        let held = record.vms.iter().all(|vm| vm.exclusion.held());
        if record.without_cpu.is_empty() || record.interrupted || !held || repeated == REPEATS {
            return Ok(Record { repeated, ..record });
        }
        repeated += 1;
    }
}

/// Runs the scenario; returns when its measurement is over or Ctrl-C was typed.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    scenario: &Scenario,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Record, RunError> {
    course(scenario, options, observer, None)
}

/// [`run`], with everything that happens collected in `collector`. What was collected before an
/// error stays there.
///
/// # Errors
/// See [`RunError`].
pub fn trace(
    scenario: &Scenario,
    options: &Options,
    observer: &mut dyn Observer,
    collector: &mut Collector,
) -> Result<Record, RunError> {
    course(scenario, options, observer, Some(collector))
}

fn course(
    scenario: &Scenario,
    options: &Options,
    observer: &mut dyn Observer,
    collector: Option<&mut Collector>,
) -> Result<Record, RunError> {
    crate::ending::heed();
    observer.phase("launching");
    // Before the control plane is taken: what is measured for it takes one.
    let times = spin_times(scenario)?;
    with_control(scenario.machine, |control| {
        control.run(scenario, options, observer, collector, times)
    })
}
