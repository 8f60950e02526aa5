//! Options of `pvlab compare`.

use crate::human::listed;
use crate::options::{
    CellArgs, LockArg, complain, each, lock_parser, nonzero_duration, positive, rounds, share,
    vcpus,
};
use clap::Args;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  pvlab compare
  pvlab compare --locks tas,qspinlock,pv-qspinlock --vcpus 8 --cpus 0-1
  pvlab compare --vcpus 32 --duration 5s --rounds 10 --format json -o result.json
  pvlab compare --locks tas,tas                   a lock against itself
  pvlab compare --locks qspinlock,qspinlock:pointer,qspinlock:patched --vcpus 1 --cpus 0 \\
      --critical 0 --outside 0 --no-latency       what calling it in other ways costs
  pvlab compare --locks rwlock --readers 6 --vcpus 8   readers against writers
  pvlab compare --vcpus 1 --cpus 0 --critical 0   nobody contends
  pvlab compare --peers --vcpus 8                 locks that others wrote, on host threads
  pvlab compare --outside 1us:exp                 vCPUs that do not fall into step
  pvlab compare --data same-line                  locks embedded in what they guard
  pvlab compare --machine sim:broadwell-ex-4s --locks ticket,qspinlock --warm-up 5ms --duration 50ms";

/// What is compared unless somebody says otherwise.
const DEFAULT: &str = "tas,ticket,qspinlock,pv-qspinlock,pv-next";

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Locks to compare, separated by commas; the same lock may be named again. `auto` is what a guest's
    /// kernel would choose; `LOCK:pointer` calls it through function pointers, `LOCK:patched` by calls
    /// patched into the guest's code.
    #[arg(long, value_name = "LOCKS", value_delimiter = ',', value_parser = each(lock_parser()),
          default_value = DEFAULT)]
    pub(crate) locks: Vec<LockArg>,
    /// Compare pv-next with the locks that others wrote (std, parking_lot, pthread ...) on host threads; with
    /// --reads or --readers, qrwlock+pv-next with those that have a read side.
    #[arg(long, conflicts_with = "locks")]
    pub(crate) peers: bool,
    /// vCPUs of each guest [default: 4 for each CPU, or 1 on a simulated machine].
    #[arg(long, value_name = "N", value_parser = vcpus)]
    pub(crate) vcpus: Option<usize>,
    /// Length of each measurement, with unit, not counting the warm-up.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = nonzero_duration,
          conflicts_with = "iterations")]
    pub(crate) duration: Duration,
    /// Measure this many acquisitions by each vCPU, instead of a time.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) iterations: Option<u64>,
    /// Rounds; in each, every lock runs once, and the order rotates.
    #[arg(long, value_name = "N", default_value = "5", value_parser = rounds)]
    pub(crate) rounds: usize,
    /// Lock that the others are compared with [default: qspinlock if it is among them, else the
    /// first].
    #[arg(long, value_name = "LOCK", value_parser = lock_parser())]
    pub(crate) baseline: Option<LockArg>,
    /// Least difference of the median worth a verdict, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share)]
    pub(crate) min_effect: f64,
    /// Afterwards trace each lock once, and tell what its waiting was spent on.
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) cells: CellArgs,
}

impl CompareArgs {
    /// The locks that are to be compared, but for those of the default list that this host cannot run.
    pub(super) fn chosen(&self) -> Vec<LockArg> {
        let by_default = listed(&self.locks).replace(' ', "") == DEFAULT;
        let barriers = |lock: &LockArg| lock.kind.is_some_and(|kind| kind.traits().barriers);
        let mut locks = self.locks.clone();
        if by_default && !::host::membarrier::is_offered() {
            complain("pv-next is left out: this kernel offers no membarrier(2)");
            locks.retain(|lock| !barriers(lock));
        }
        locks
    }
}
