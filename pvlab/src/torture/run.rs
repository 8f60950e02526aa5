//! The course of a test.

use super::count::{Count, entries, exclusive, longest_wait};
use super::shuffle::{Scheduling, shuffle};
use super::stop::{End, stop, wake_pausing};
use super::watch::Watch;
use super::{Interval, Pause, Record, Thread};
use crate::scenario::{Length, Scenario, Torture};
use crate::session::{POLL, Run, RunError, Stuck, with_control};
use guest::abi::{Task, phase};
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

/// How often to look at a test while it goes on.
const LOOK: Duration = Duration::from_millis(50);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Is told how a test goes.
pub trait Observer {
    /// Called when the phase changes.
    fn phase(&mut self, _phase: &'static str) {}
    /// Called at the end of each statistics interval, and at the end of the test.
    fn interval(&mut self, _interval: &Interval) {}
    /// Called now and then with the share of the test done (0..=1).
    fn progress(&mut self, _done: f64) {}
}

/// Tortures the one lock of `scenario`, as its `torture` says; returns when its time is over, when the
/// lock is stuck, or when Ctrl-C was typed.
///
/// # Errors
/// If the test cannot be carried out. What is found wrong with the lock is in the record.
pub fn run(
    scenario: &Scenario,
    torture: &Torture,
    stat_interval: Duration,
    observer: &mut dyn Observer,
) -> Result<Record, RunError> {
    with_control(|control| {
        control.carry_out(async |mut signalled| {
            observer.phase("launching");
            let mut run = Run::launch(scenario, None)?;
            tokio::select! {
                biased;
                () = &mut signalled => return Err(RunError::Interrupted),
                prepared = prepared(&mut run) => prepared?,
            }
            let scheduling = Scheduling::begin(&run, torture)?;
            let record = Test::begin(run, torture, observer)?
                .carry_out(stat_interval, &mut signalled)
                .await;
            drop(scheduling);
            record
        })
    })
}

/// Waits until every vCPU has prepared itself. Without the watchdog: hundreds of them take their time.
async fn prepared(run: &mut Run<'_>) -> Result<(), RunError> {
    while !run.all_are(Task::Ready)? {
        run.listen()?;
        sleep(POLL).await;
    }
    Ok(())
}

/// A test under way.
struct Test<'a> {
    run: Run<'a>,
    torture: &'a Torture,
    observer: &'a mut dyn Observer,
    begun: Instant,
    watch: Watch,
    intervals: Vec<Interval>,
    pauses: Vec<Pause>,
    /// The pause that is going on, and the acquisitions made when everybody was seen to pause.
    pausing: Option<(Pause, u64)>,
    shuffles: usize,
}

impl<'a> Test<'a> {
    fn begin(
        mut run: Run<'a>,
        torture: &'a Torture,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        observer.phase("torturing");
        let watch = Watch::new(run.scenario.vcpus());
        let begun = Instant::now();
        run.enter(phase::MEASURE)?;
        run.kick_all()?;
        Ok(Self {
            run,
            torture,
            observer,
            begun,
            watch,
            intervals: Vec::new(),
            pauses: Vec::new(),
            pausing: None,
            shuffles: 0,
        })
    }

    async fn carry_out(
        mut self,
        stat_interval: Duration,
        signalled: &mut Pin<&mut dyn Future<Output = ()>>,
    ) -> Result<Record, RunError> {
        let duration = match self.run.scenario.length {
            Length::Duration(duration) => duration,
            Length::Iterations(_) => NEVER,
        };
        let end = sleep(duration);
        tokio::pin!(end);
        let mut intervals = ticks(stat_interval);
        let mut stutters = ticks(self.torture.stutter);
        let mut shuffles = ticks(if self.run.scenario.cpus.len() > 1 {
            self.torture.shuffle_interval
        } else {
            Duration::ZERO
        });
        let mut looks = ticks(LOOK);
        let (mut interrupted, mut stuck) = (false, None);
        loop {
            tokio::select! {
                biased;
                () = &mut *signalled => {
                    interrupted = true;
                    break;
                }
                () = &mut end => break,
                _ = intervals.tick() => self.report()?,
                _ = stutters.tick() => self.stutter()?,
                _ = shuffles.tick() => {
                    shuffle(&self.run, self.shuffles)?;
                    self.shuffles += 1;
                }
                _ = looks.tick() => {
                    self.run.listen()?;
                    stuck = self.look()?;
                    if stuck.is_some() {
                        break;
                    }
                    self.observer.progress(self.begun.elapsed().as_secs_f64() / duration.as_secs_f64());
                }
            }
        }
        self.observer.phase("stopping");
        self.finish(interrupted, stuck).await
    }

    fn counts(&self) -> Result<Vec<Count>, RunError> {
        Ok(Count::all(&*self.run.vms[0].machine)?)
    }

    fn at_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Ends a statistics interval.
    fn report(&mut self) -> Result<(), RunError> {
        let at_s = self.at_s();
        let interval = Interval::new(self.run.scenario, at_s, &self.counts()?);
        self.observer.interval(&interval);
        self.intervals.push(interval);
        Ok(())
    }

    /// Makes everybody pause, or go on.
    fn stutter(&mut self) -> Result<(), RunError> {
        match self.pausing {
            None => {
                self.run.vms[0].machine.region().set_pause(true)?;
                let from_s = self.at_s();
                let pause = Pause {
                    from_s,
                    everybody_s: None,
                    acquisitions: 0,
                    to_s: from_s,
                };
                self.pausing = Some((pause, 0));
                Ok(())
            }
            Some(_) => self.end_pause(),
        }
    }

    fn end_pause(&mut self) -> Result<(), RunError> {
        let Some((mut pause, before)) = self.pausing.take() else {
            return Ok(());
        };
        let region = self.run.vms[0].machine.region();
        if pause.everybody_s.is_some() {
            pause.acquisitions = region.acquisitions()? - before;
        }
        pause.to_s = self.at_s();
        region.set_pause(false)?;
        wake_pausing(&self.run)?;
        let length = Duration::from_secs_f64((pause.to_s - pause.from_s).max(0.0));
        self.watch.paused(length);
        self.run.vms[0].last_progress = Instant::now();
        self.pauses.push(pause);
        Ok(())
    }

    /// Looks how everybody gets on; what there is to tell if nobody does.
    fn look(&mut self) -> Result<Option<Stuck>, RunError> {
        if let Some((mut pause, _)) = self.pausing {
            if pause.everybody_s.is_none() && self.run.all_are(Task::Paused)? {
                pause.everybody_s = Some(self.at_s());
                let before = self.run.vms[0].machine.region().acquisitions()?;
                self.pausing = Some((pause, before));
            }
            return Ok(None);
        }
        // Again, for one that began to pause just as the pause ended.
        wake_pausing(&self.run)?;
        let counts = self.counts()?;
        self.watch.look(&self.run.vms[0], &counts, false)?;
        self.watch.stuck(&mut self.run)
    }

    async fn finish(mut self, interrupted: bool, stuck: Option<Stuck>) -> Result<Record, RunError> {
        let scenario = self.run.scenario;
        let measured_s = self.at_s();
        self.end_pause()?;
        let counts = self.counts()?;
        self.watch.look(&self.run.vms[0], &counts, true)?;
        let vcpus = 0..scenario.vcpus();
        let longest = |run: &Run<'_>, vcpu| longest_wait(&*run.vms[0].machine, vcpu);
        let so_far = vcpus.clone().map(|vcpu| longest(&self.run, vcpu));
        let so_far = so_far.collect::<Result<Vec<_>, _>>()?;
        let end = match stuck {
            Some(stuck) => End {
                given_up: vcpus.collect(),
                lost: Some(stuck),
            },
            None => stop(&mut self.run).await?,
        };
        if !end.given_up.is_empty() {
            self.run.vms[0].machine.stop();
        }
        let machine = &*self.run.vms[0].machine;
        let counts = self.counts()?;
        let khz = u128::from(machine.khz().max(1));
        let mut threads = Vec::new();
        for (vcpu, count) in counts.iter().enumerate() {
            let (role, number) = scenario.role(vcpu);
            let longest = so_far[vcpu].max(longest(&self.run, vcpu)?);
            threads.push(Thread {
                role,
                number,
                vcpu,
                acquisitions: count.acquisitions,
                violations: count.violations,
                late: count.late,
                longest_wait_ns: u64::try_from(u128::from(longest) * 1_000_000 / khz)
                    .unwrap_or(u64::MAX),
                starved: self.watch.starved(vcpu),
            });
        }
        let last = Interval::new(scenario, self.at_s(), &counts);
        self.observer.interval(&last);
        self.intervals.push(last);
        Ok(Record {
            scenario: scenario.clone(),
            measured_s,
            interrupted,
            intervals: self.intervals,
            threads,
            contended: counts.iter().map(|count| count.contended).sum(),
            exclusive: exclusive(scenario, &counts),
            entries: entries(machine)?,
            given_up: end.given_up,
            pauses: self.pauses,
            shuffles: self.shuffles as u64,
            stuck: end.lost.map(|lost| lost.to_string()),
        })
    }
}

/// Ticks of that period; none if it is zero.
fn ticks(period: Duration) -> tokio::time::Interval {
    let period = if period.is_zero() { NEVER } else { period };
    let mut ticks = interval_at(tokio::time::Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
