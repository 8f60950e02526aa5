//! The end of a run, once its figures are taken: getting every vCPU to stop, soon.
//!
//! A vCPU that is told to stop finishes its turn first, so that the counts of the locks and of the vCPUs
//! can be held against each other. Where hundreds of vCPUs wait in the queue of a fair lock, and each
//! passes it on when the host happens to run it, that takes minutes. So they get a moment, and whatever
//! has not ended by then is ended where it is; the turns that this cuts off are counted
//! ([`crate::record::ExclusionCheck::cut_off`]).
//!
//! A lock that does not get on is no slow lock: nobody is ended before it does, or the watchdog has found
//! the VM stuck. How long nothing may be seen of a slow one depends on how many threads share a CPU.

use super::RunError;
use super::run::{POLL, Run};
use super::vms::all;
use abi::{VcpuState, phase};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long vCPUs get to stop by themselves.
const GRACE: Duration = Duration::from_millis(500);
/// The same if somebody waits for the run to end.
const GRACE_OF_INTERRUPTED: Duration = Duration::from_millis(200);
/// A lock that nobody has acquired for this long does not get on,
const SILENCE: Duration = Duration::from_millis(200);
/// but for this long, for each thread on a CPU, it may have gone to one whose turn on the CPU is to come: a
/// slice ends at a tick, which comes every 10 ms at most.
const SLICE: Duration = Duration::from_millis(12);

impl Run<'_> {
    /// Tells all vCPUs to stop, and returns when they have.
    pub(super) async fn stop(&mut self, interrupted: bool) -> Result<(), RunError> {
        let mut last_progress = Vec::new();
        for vm in self.vms.iter_mut() {
            vm.silence()?;
            last_progress.push(vm.last_progress);
        }
        self.enter(phase::STOP)?;
        for (vm, last_progress) in self.vms.iter_mut().zip(last_progress) {
            // A lock that had stopped before did not stop now.
            vm.last_progress = last_progress;
        }
        self.vms.kick_all()?;
        let grace = match (self.scenario.machine.is_simulated(), interrupted) {
            // A machine that was interrupted stands still.
            (true, true) => return Ok(()),
            // Nobody has to wait for virtual time.
            (true, false) => None,
            (false, false) => Some(GRACE),
            (false, true) => Some(GRACE_OF_INTERRUPTED),
        };
        let begun = Instant::now();
        loop {
            self.vms.listen()?;
            if self.vms.all_are(VcpuState::Done)? {
                return Ok(());
            }
            if grace.is_some_and(|grace| begun.elapsed() >= grace) && self.gets_on()? {
                break;
            }
            self.notice_absence();
            self.watch()?;
            sleep(POLL).await;
        }
        for vm in self.vms.iter_mut() {
            vm.machine.stop();
        }
        tracing::debug!(after = ?begun.elapsed(), "vCPUs were ended in the middle of their turn");
        self.vms.listen()
    }

    /// Whether each VM is done, or has made an acquisition not long ago.
    fn gets_on(&mut self) -> Result<bool, RunError> {
        let cpus = self.scenario.cpus.len().max(1);
        let sharing = u32::try_from(self.scenario.vcpus().div_ceil(cpus)).unwrap_or(u32::MAX);
        let patience = SILENCE.max(SLICE.saturating_mul(sharing));
        all(self.vms.iter_mut(), |vm| {
            Ok(vm.silence()? <= patience || vm.done()?)
        })
    }
}
