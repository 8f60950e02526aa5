//! The course of a test.

use super::count::{Count, exclusive};
use super::late::Lateness;
use super::pauses::Pauses;
use super::record::{Counts, Outcome, Thread};
use super::shuffle::{schedule, shuffle};
use super::stop::{End, stop, wake_pausing};
use super::watch::Watch;
use crate::ending;
use crate::scenario::{Length, Scenario, Torture};
use crate::session::{
    Found, Observer, Run, RunError, Stuck, entries, longest_wait, look_every, ns, postpone,
    spin_times, with_control,
};
use abi::{VcpuState, phase};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Tortures the one lock of `scenario`, as its `torture` says; returns when its time is over, when the
/// lock is stuck, or when Ctrl-C was typed.
///
/// # Errors
/// If the test cannot be carried out. What is found wrong with the lock is in the record.
pub(crate) fn run(
    scenario: &Scenario,
    torture: &Torture,
    stat_interval: Duration,
    observer: &mut dyn Observer<Counts>,
) -> Result<Outcome, RunError> {
    ending::heed();
    observer.phase("launching");
    let spin_times = spin_times(scenario)?;
    let timed = spin_times.iter().any(Option::is_some);
    with_control(scenario.machine, |control| {
        control.carry_out(async |mut signalled| {
            let mut run = Run::launch(scenario, spin_times, None)?;
            tokio::select! {
                biased;
                () = &mut signalled => return Err(RunError::Interrupted),
                // Without the watchdog: hundreds of them take their time.
                prepared = run.vms.come_to(VcpuState::Ready) => prepared?,
            }
            if timed {
                tokio::select! {
                    biased;
                    () = &mut signalled => return Err(RunError::Interrupted),
                    calibrated = run.calibrate() => calibrated?,
                }
            }
            schedule(&run, torture)?;
            Test::begin(run, torture, observer)?
                .carry_out(stat_interval, &mut signalled)
                .await
        })
    })
}

/// A test under way.
struct Test<'a> {
    run: Run<'a>,
    torture: &'a Torture,
    observer: &'a mut dyn Observer<Counts>,
    begun: Instant,
    /// On the host's clock.
    begun_at: u64,
    watch: Watch,
    late: Lateness,
    intervals: Vec<Counts>,
    pauses: Pauses,
    shuffles: usize,
}

impl<'a> Test<'a> {
    fn begin(
        mut run: Run<'a>,
        torture: &'a Torture,
        observer: &'a mut dyn Observer<Counts>,
    ) -> Result<Self, RunError> {
        observer.phase("torturing");
        let vcpus = run.scenario.vcpus();
        let begun = Instant::now();
        let begun_at = run.vms[0].machine.host_now();
        run.enter(phase::MEASURE)?;
        run.absences.forget();
        run.vms.kick_all()?;
        Ok(Self {
            run,
            torture,
            observer,
            begun,
            begun_at,
            watch: Watch::new(vcpus),
            late: Lateness::new(vcpus),
            intervals: Vec::new(),
            pauses: Pauses::new(),
            shuffles: 0,
        })
    }

    async fn carry_out(
        mut self,
        stat_interval: Duration,
        signalled: &mut Pin<&mut dyn Future<Output = ()>>,
    ) -> Result<Outcome, RunError> {
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
                () = &mut end, if !over => over = !postpone(&mut end, self.notice_absence()?),
                _ = intervals.tick() => {
                    postpone(&mut end, self.notice_absence()?);
                    if self.report()?.is_break() {
                        interrupted = true;
                        break;
                    }
                }
                _ = stutters.tick() => self.pauses.stutter(&mut self.run, &mut self.watch)?,
                _ = shuffles.tick() => {
                    shuffle(&self.run, self.shuffles)?;
                    self.shuffles += 1;
                }
                _ = looks.tick() => {
                    self.run.vms.listen()?;
                    match self.notice_absence()? {
                        None => self.late.look(&self.run, false)?,
                        found => _ = postpone(&mut end, found),
                    }
                    stuck = self.look()?;
                    if stuck.is_some() {
                        break;
                    }
                    self.observer.progress(self.at_s() / duration.as_secs_f64());
                }
            }
        }
        self.observer.phase("stopping");
        self.finish(interrupted, stuck).await
    }

    /// Looks whether nobody had a CPU for a while: then nobody can be blamed for it.
    fn notice_absence(&mut self) -> Result<Option<Found>, RunError> {
        let found = self.run.notice_absence();
        if let Some(found) = found {
            self.watch.absent(found.lost);
            self.late.look(&self.run, true)?;
        }
        Ok(found)
    }

    fn counts(&self) -> Result<Vec<Count>, RunError> {
        let mut counts = Count::all(&*self.run.vms[0].machine)?;
        self.late.forgive(&mut counts);
        Ok(counts)
    }

    /// How long the test has been going on, without absences.
    fn at_s(&self) -> f64 {
        let lost = self.run.absences.lost();
        self.begun.elapsed().saturating_sub(lost).as_secs_f64()
    }

    /// Ends a statistics interval. A break if the observer ends the test.
    fn report(&mut self) -> Result<ControlFlow<()>, RunError> {
        let at_s = self.at_s();
        let counts = Counts::new(self.run.scenario, at_s, &self.counts()?);
        let flow = self.observer.interval(&counts);
        self.intervals.push(counts);
        Ok(flow)
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

    async fn finish(
        mut self,
        interrupted: bool,
        stuck: Option<Stuck>,
    ) -> Result<Outcome, RunError> {
        let scenario = self.run.scenario;
        self.notice_absence()?;
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
        self.late.look(&self.run, false)?;
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
        let last = Counts::new(scenario, self.at_s(), &counts);
        // It is over in any case.
        let _ = self.observer.interval(&last);
        self.intervals.push(last);
        Ok(Outcome {
            scenario: scenario.clone(),
            measured_s,
            without_cpu: self
                .run
                .absences
                .recorded(self.begun_at, host::clock::khz()),
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
