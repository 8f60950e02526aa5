//! The course of a test.

use super::count::{Count, exclusive};
use super::pauses::Pauses;
use super::shuffle::{schedule, shuffle};
use super::stop::{End, stop, wake_pausing};
use super::watch::Watch;
use super::{Interval, Record, Thread};
use crate::scenario::{Length, Scenario, Torture};
use crate::session::{
    POLL, Run, RunError, Stuck, entries, longest_wait, look_every, ns, with_control,
};
use guest::abi::{Task, phase};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

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
    with_control(scenario.machine, |control| {
        control.carry_out(async |mut signalled| {
            observer.phase("launching");
            let mut run = Run::launch(scenario, None)?;
            tokio::select! {
                biased;
                () = &mut signalled => return Err(RunError::Interrupted),
                prepared = prepared(&mut run) => prepared?,
            }
            schedule(&run, torture)?;
            Test::begin(run, torture, observer)?
                .carry_out(stat_interval, &mut signalled)
                .await
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
    pauses: Pauses,
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
            pauses: Pauses::new(),
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
        let mut looks = ticks(look_every(self.run.scenario.machine));
        let (mut interrupted, mut over, mut stuck) = (false, false, None);
        // Without any acquisition there is nothing to judge: it goes on until there is one, or until the
        // lock is found to be stuck.
        while !over || self.run.vms[0].machine.region().acquisitions()? == 0 {
            tokio::select! {
                biased;
                () = &mut *signalled => {
                    interrupted = true;
                    break;
                }
                () = &mut end, if !over => over = true,
                _ = intervals.tick() => self.report()?,
                _ = stutters.tick() => self.pauses.stutter(&mut self.run, &mut self.watch)?,
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

    /// Looks how everybody gets on; what there is to tell if nobody does.
    fn look(&mut self) -> Result<Option<Stuck>, RunError> {
        self.run.note_reported_preemption()?;
        if self.pauses.going_on() {
            self.pauses.look(&mut self.run, &mut self.watch)?;
        } else {
            // For one that began to pause just as a pause ended.
            wake_pausing(&self.run)?;
            self.watch.look(&self.run.vms[0], false)?;
            if let Some(stuck) = self.watch.stuck(&mut self.run)? {
                return Ok(Some(stuck));
            }
            if self.watch.long_halted {
                self.pauses.call_roll(&self.run)?;
            }
        }
        self.watch.lost(&self.run)
    }

    async fn finish(mut self, interrupted: bool, stuck: Option<Stuck>) -> Result<Record, RunError> {
        let scenario = self.run.scenario;
        let measured_s = self.at_s();
        self.pauses.end(&mut self.run, &mut self.watch)?;
        self.watch.look(&self.run.vms[0], true)?;
        let vcpus = 0..scenario.vcpus();
        let longest = |run: &Run<'_>, vcpu| longest_wait(&*run.vms[0].machine, vcpu);
        let so_far = vcpus.clone().map(|vcpu| longest(&self.run, vcpu));
        let so_far = so_far.collect::<Result<Vec<_>, _>>()?;
        let end = match stuck {
            Some(stuck) => End {
                given_up: vcpus.collect(),
                lost: Some(stuck),
            },
            None => stop(&mut self.run, &mut self.watch).await?,
        };
        if !end.given_up.is_empty() {
            self.run.vms[0].machine.stop();
        }
        let machine = &*self.run.vms[0].machine;
        let counts = self.counts()?;
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
                longest_wait_ns: ns(longest, machine.khz()),
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
            entries: entries(machine.region())?.iter().sum(),
            given_up: end.given_up,
            pauses: self.pauses.made,
            shuffles: self.shuffles as u64,
            preempted_reported: machine.region().preempted_is_reported()?,
            stuck: end.lost.map(|lost| lost.to_string()),
        })
    }
}

/// Ticks of that period; none if it is zero.
fn ticks(period: Duration) -> tokio::time::Interval {
    let period = if period.is_zero() { NEVER } else { period };
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
