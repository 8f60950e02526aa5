//! The course of a test.

use super::count::{Count, exclusive};
use super::late::Lateness;
use super::pauses::Pauses;
use super::record::{Counts, Outcome, Thread};
use super::shuffle::{schedule, shuffle};
use super::stop::{End, stop, wake_pausing};
use super::watch::Watch;
use crate::ending;
use crate::scenario::{Scenario, Torture};
use crate::session::{
    Due, Found, Observer, Run, RunError, Stuck, Timers, entries, longest_wait, look_every, ns,
    spin_times, unless, with_control,
};
use abi::{Counter, VcpuState, phase};
use pvlock::LockEvent;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

const CONTENDED: Counter = Counter::Lock(LockEvent::Contended);

/// How a test ended: in its time, or found to be stuck; a break if it was interrupted.
type Ended = ControlFlow<(), Option<Stuck>>;

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
            // Without the watchdog: hundreds of them take their time.
            unless(&mut signalled, run.vms.come_to(VcpuState::Ready)).await?;
            if timed {
                unless(&mut signalled, run.calibrate()).await?;
            }
            schedule(&run, torture)?;
            let mut test = Test::begin(run, torture, observer)?;
            let ended = tokio::select! {
                biased;
                () = &mut signalled => ControlFlow::Break(()),
                ended = test.go_on(stat_interval) => ended?,
            };
            test.finish(ended).await
        })
    })
}

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

    /// Until its time is over, or it is known what the lock is stuck in. A break if the observer ended it.
    async fn go_on(&mut self, stat_interval: Duration) -> Result<Ended, RunError> {
        const INTERVAL: usize = 0;
        const STUTTER: usize = 1;
        const SHUFFLE: usize = 2;
        let scenario = self.run.scenario;
        let duration = scenario.length.duration();
        let shuffled = scenario.cpus.len() > 1;
        let periods = [
            Some(stat_interval),
            Some(self.torture.stutter),
            shuffled.then_some(self.torture.shuffle_interval),
            Some(look_every(scenario.machine)),
        ];
        let periods = periods.map(|period| (period, MissedTickBehavior::Skip));
        let mut timers = Timers::new(Instant::now(), duration, periods);
        let mut over = false;
        // Without any acquisition there is nothing to judge: it goes on until there is one, or until the
        // lock is found to be stuck.
        while !over || self.run.vms[0].machine.region().acquisitions()? == 0 {
            match timers.next().await {
                Due::End => over = !timers.postpone(self.notice_absence()?),
                Due::Tick(INTERVAL) => {
                    timers.postpone(self.notice_absence()?);
                    if self.report()?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Due::Tick(STUTTER) => self.pauses.stutter(&mut self.run, &mut self.watch)?,
                Due::Tick(SHUFFLE) => {
                    shuffle(&self.run, self.shuffles)?;
                    self.shuffles += 1;
                }
                Due::Tick(_) => {
                    self.run.vms.listen()?;
                    match self.notice_absence()? {
                        None => self.late.look(&self.run, false)?,
                        found => _ = timers.postpone(found),
                    }
                    let stuck = self.look()?;
                    if stuck.is_some() {
                        return Ok(ControlFlow::Continue(stuck));
                    }
                    if let Some(duration) = duration {
                        self.observer.progress(self.at_s() / duration.as_secs_f64());
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(None))
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

    async fn finish(mut self, ended: Ended) -> Result<Outcome, RunError> {
        self.observer.phase("stopping");
        let interrupted = ended.is_break();
        let stuck = ended.continue_value().flatten();
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
                acquisitions: count.get(Counter::Acquisitions),
                violations: count.get(Counter::Violations),
                late: count.get(Counter::Late),
                longest_wait_ns: ns(longest, machine.khz()),
                starved: self.watch.starved(vcpu),
            });
        }
        let last = Counts::new(scenario, self.at_s(), &counts);
        let absences = &self.run.absences;
        let without_cpu = absences.recorded(self.begun_at, host::clock::khz());
        // It is over in any case.
        let _ = self.observer.interval(&last);
        self.intervals.push(last);
        Ok(Outcome {
            scenario: scenario.clone(),
            measured_s,
            without_cpu,
            interrupted,
            intervals: self.intervals,
            threads,
            contended: (scenario.vms[0].lock.kind.peer().is_none())
                .then(|| counts.iter().map(|count| count.get(CONTENDED)).sum()),
            exclusive: exclusive(scenario, &counts),
            entries: entries(machine.region())?.iter().sum(),
            given_up: end.given_up,
            pauses: self.pauses.made,
            shuffles: self.shuffles,
            preempted_reported: machine.region().preempted_is_reported()?,
            stuck: end.lost.map(|lost| lost.to_string()),
        })
    }
}
