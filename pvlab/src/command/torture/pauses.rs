//! Pauses: of all threads together, at times that are told, or to find one that cannot pause.
//!
//! A waiter whose wake-up has been lost sleeps on while others use the lock. Nothing shows that it is not
//! merely late, until everybody else pauses: then it is the only one left, and would have the lock.
//! So where somebody has been halted for long, the roll is called: a pause that ends as soon as
//! everybody is there.

use super::record::Pause;
use super::stop::wake_pausing;
use super::watch::Watch;
use crate::session::{Run, RunError};
use abi::VcpuState;
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two calls of the roll.
const ROLL_EVERY: Duration = Duration::from_secs(2);
/// How long to wait until everybody is there, as long as somebody runs.
const ROLL_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Pauses {
    begun: Instant,
    /// Those that were asked for and are over.
    pub(crate) made: Vec<Pause>,
    going_on: Option<GoingOn>,
    last_roll: Option<Instant>,
}

struct GoingOn {
    since: Instant,
    /// It is a call of the roll.
    roll: bool,
    /// When everybody was seen to pause, and the acquisitions made until then.
    everybody: Option<(Instant, u64)>,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            made: Vec::new(),
            going_on: None,
            last_roll: None,
        }
    }

    pub(crate) fn going_on(&self) -> bool {
        self.going_on.is_some()
    }

    /// Makes everybody pause, or go on.
    pub(crate) fn stutter(&mut self, run: &mut Run<'_>, watch: &mut Watch) -> Result<(), RunError> {
        match &mut self.going_on {
            None => self.begin(run, false),
            Some(call) if call.roll => {
                call.roll = false;
                Ok(())
            }
            Some(_) => self.end(run, watch),
        }
    }

    /// Calls the roll, unless that has just been done.
    pub(crate) fn call_roll(&mut self, run: &Run<'_>) -> Result<(), RunError> {
        if self.last_roll.is_some_and(|at| at.elapsed() < ROLL_EVERY) {
            return Ok(());
        }
        self.last_roll = Some(Instant::now());
        self.begin(run, true)
    }

    fn begin(&mut self, run: &Run<'_>, roll: bool) -> Result<(), RunError> {
        run.vms[0].machine.region().set_pause(true)?;
        self.going_on = Some(GoingOn {
            since: Instant::now(),
            roll,
            everybody: None,
        });
        Ok(())
    }

    /// Looks whether everybody pauses by now.
    pub(crate) fn look(&mut self, run: &mut Run<'_>, watch: &mut Watch) -> Result<(), RunError> {
        let Some(pause) = &mut self.going_on else {
            return Ok(());
        };
        if pause.everybody.is_none() && run.vms.all_are(VcpuState::Paused)? {
            let before = run.vms[0].machine.region().acquisitions()?;
            pause.everybody = Some((Instant::now(), before));
        }
        // While all are halted and one is missing, it is about to be clear that its wake-up was lost.
        let in_vain = pause.since.elapsed() >= ROLL_PATIENCE && !watch.all_are_halted();
        if pause.roll && (pause.everybody.is_some() || in_vain) {
            self.end(run, watch)?;
        }
        Ok(())
    }

    /// Ends the pause that is going on, if there is one.
    pub(crate) fn end(&mut self, run: &mut Run<'_>, watch: &mut Watch) -> Result<(), RunError> {
        let Some(pause) = self.going_on.take() else {
            return Ok(());
        };
        let region = run.vms[0].machine.region();
        let before = pause.everybody.map(|(_, before)| before);
        let acquisitions = before.map_or(Ok(0), |n| region.acquisitions().map(|now| now - n))?;
        region.set_pause(false)?;
        wake_pausing(run)?;
        watch.paused(pause.since.elapsed());
        run.vms[0].last_progress = Instant::now();
        if !pause.roll {
            let seconds = |at: Instant| (at - self.begun).as_secs_f64();
            self.made.push(Pause {
                from_s: seconds(pause.since),
                everybody_s: pause.everybody.map(|(at, _)| seconds(at)),
                acquisitions,
                to_s: seconds(Instant::now()),
            });
        }
        Ok(())
    }
}
