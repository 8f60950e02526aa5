//! The end of a test: getting everybody to stop, also those that wait for a slow lock.

use super::count::states;
use super::watch::Watch;
use crate::session::{POLL, Run, RunError, Stuck};
use abi::{VcpuState, phase};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long threads get to stop by themselves. Waiters of a fair lock must take it in turn first, and
/// each turn lasts until the host runs the one whose turn it is.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct End {
    /// vCPUs that have not ended.
    pub(crate) given_up: Vec<usize>,
    /// A wake-up was lost.
    pub(crate) lost: Option<Stuck>,
}

/// Tells everybody to stop, and waits for a while until they have.
pub(crate) async fn stop(run: &mut Run<'_>, watch: &mut Watch) -> Result<End, RunError> {
    run.vms[0].machine.region().set_pause(false)?;
    run.enter(phase::STOP)?;
    let mut begun = Instant::now();
    loop {
        run.vms.listen()?;
        if let Some(found) = run.notice_absence() {
            watch.absent(found.lost);
            begun += found.lost;
        }
        wake_pausing(run)?;
        let states = states(&*run.vms[0].machine)?;
        let going_on = |&vcpu: &usize| states[vcpu] != VcpuState::Done;
        let given_up: Vec<_> = (0..states.len()).filter(going_on).collect();
        if given_up.is_empty() {
            return Ok(End::default());
        }
        let lost = watch.lost(run)?;
        // While all are halted it is about to be clear whether a wake-up was lost.
        if lost.is_some() || (begun.elapsed() >= GRACE && !watch.all_are_halted()) {
            return Ok(End { given_up, lost });
        }
        sleep(POLL * 4).await;
    }
}

/// Kicks those that pause (or have not begun), and nobody else: a kick from outside would hide that
/// the lock has forgotten its own.
pub(crate) fn wake_pausing(run: &Run<'_>) -> Result<(), RunError> {
    let machine = &*run.vms[0].machine;
    for (vcpu, state) in states(machine)?.into_iter().enumerate() {
        if matches!(state, VcpuState::Ready | VcpuState::Paused) {
            machine.kick(vcpu)?;
        }
    }
    Ok(())
}
