//! Options of `pvlab run`.

use crate::options::{
    Common, GuestArgs, ReportArgs, ScheduleArgs, interval, nonzero_duration, positive,
};
use clap::Args;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab run --lock pv-qspinlock --vcpus 8 --cpus 0-1
  pvlab run --vm lock=pv-qspinlock,vcpus=4 --vm lock=qspinlock,vcpus=4 \\
      --cpus 0-1 --duration 5s --stat-interval 1s
  pvlab run --lock ticket --vcpus 4 --placement 0,0,0,1
  pvlab run --lock auto --no-pv-unhalt            what a guest's kernel would choose there
  pvlab run --lock rwlock --vcpus 8 --reads 4:1
  pvlab run --lock qspinlock --vcpus 8 --contexts 5
  pvlab run --lock tas --vcpus 8 --lock-count 64 --skew 1
  pvlab run --lock ticket --vcpus 2 --critical 4.2ns --outside 1us:exp --no-check --no-latency
  pvlab run --lock qspinlock --vcpus 2 --iterations 100000 --format json
  pvlab run --lock pv-qspinlock --machine sim:broadwell-ex-4s --set kick_ns=2us --duration 50ms
  pvlab run --lock pv-qspinlock --vcpus 3 --machine sim:here --deschedule 0:5:2ms --save-schedule case.json";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) guests: GuestArgs,
    /// Length of the measurement, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = nonzero_duration,
          conflicts_with = "iterations")]
    pub(crate) duration: Duration,
    /// Measure this many acquisitions by each vCPU, instead of a time.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) iterations: Option<u64>,
    /// Show a line for each guest at this interval (at least 1ms).
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) stat_interval: Option<Duration>,
    /// Redraw a small table each second instead: throughput, halts, kicks, preempted holders (LHP; those
    /// back within 5 ms may be missed), and who is preempted now.
    #[arg(long, conflicts_with = "stat_interval")]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}
