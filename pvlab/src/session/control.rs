//! The course of a run: launch, warm up, measure, stop; with an eye on signals, deadlines and
//! progress.

use super::live::{LOOK_EVERY, Live};
use super::snapshot::{self, VmSnapshot, ns, to_f64};
use super::{Interval, IntervalVm, LiveVm, Observer, Options, RunError, Stuck};
use crate::machine::{self, Noise, RunningVm};
use crate::record::{Record, Start, StartReason};
use crate::scenario::{Length, Scenario};
use crate::trace::Collector;
use crate::trace::collect::COLLECT_EVERY;
use guest::abi::{Counter, Task, VcpuArea, phase};
use pvlock::LockEvent;
use std::cell::RefCell;
use std::mem::offset_of;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{interval_at, sleep};
use vmm::Event;
use vmm::thread::ThreadStats;

/// How often to look whether vCPUs are prepared, or done.
const POLL: Duration = Duration::from_micros(500);
/// How often to look at a run while it goes on. Each look takes a CPU from a vCPU for a moment.
const LOOK: Duration = Duration::from_millis(100);
/// How often to look whether every vCPU has been descheduled, once the warm-up's time is over.
const SWITCH_LOOK: Duration = Duration::from_millis(20);
/// The longest warm-up, as a multiple of the shortest, and at least.
const LONGEST_WARM_UP: u32 = 20;
const LEAST_LONGEST_WARM_UP: Duration = Duration::from_secs(5);

/// The control plane. It lives as long as its thread, so that a Ctrl-C between two runs is noticed
/// by the next.
pub(super) struct Control {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

thread_local! {
    static CONTROL: RefCell<Option<Control>> = const { RefCell::new(None) };
}

/// Calls `f` with this thread's control plane.
pub(super) fn with_control<T>(
    f: impl FnOnce(&mut Control) -> Result<T, RunError>,
) -> Result<T, RunError> {
    CONTROL.with_borrow_mut(|control| match control {
        Some(control) => f(control),
        None => f(control.insert(Control::new().map_err(RunError::Control)?)),
    })
}

impl Control {
    fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let guard = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(guard);
        Ok(Self {
            runtime,
            interrupt,
            terminate,
        })
    }

    pub(super) fn run(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        observer: &mut dyn Observer,
        collector: Option<&mut Collector>,
    ) -> Result<Record, RunError> {
        let Self {
            runtime,
            interrupt,
            terminate,
        } = self;
        runtime.block_on(async {
            let signalled = async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            };
            tokio::pin!(signalled);
            observer.phase("launching");
            let mut run = Run::launch(scenario, collector)?;
            tokio::select! {
                biased;
                () = &mut signalled => return Err(RunError::Interrupted),
                prepared = run.prepared() => prepared?,
            }
            run.attach();
            observer.phase("warming up");
            let start = tokio::select! {
                biased;
                () = &mut signalled => return Err(RunError::Interrupted),
                start = run.warm_up() => start?,
            };
            observer.phase("measuring");
            let from = run.begin_measurement()?;
            let interrupted = tokio::select! {
                biased;
                () = &mut signalled => true,
                measured = run.measure(&from, options, observer) => { measured?; false }
            };
            observer.phase("stopping");
            run.finish(start, from, interrupted).await
        })
    }
}

/// A run under way.
struct Run<'a> {
    scenario: &'a Scenario,
    launched: Instant,
    vms: Vec<Watched>,
    collector: Option<&'a mut Collector>,
    _noise: Noise,
}

/// A VM and what is known of it.
pub(super) struct Watched {
    pub(super) machine: Box<dyn RunningVm>,
    events: UnboundedReceiver<Event>,
    /// The number of its first vCPU, counted through all VMs.
    first: usize,
    /// On the VM's clock.
    launched: u64,
    acquisitions: u64,
    last_progress: Instant,
}

impl<'a> Run<'a> {
    fn launch(
        scenario: &'a Scenario,
        collector: Option<&'a mut Collector>,
    ) -> Result<Self, RunError> {
        let records = collector.as_ref().map_or(0, |c| c.records());
        let launched = Instant::now();
        let mut vms = Vec::new();
        let mut first = 0;
        for (number, spec) in scenario.vms.iter().enumerate() {
            let (machine, events) = machine::start(scenario, number, first, records)?;
            let now = machine.now();
            let since_launch =
                launched.elapsed().as_nanos() * u128::from(machine.khz()) / 1_000_000;
            vms.push(Watched {
                launched: now.saturating_sub(u64::try_from(since_launch).unwrap_or(0)),
                machine,
                events,
                first,
                acquisitions: 0,
                last_progress: Instant::now(),
            });
            first += spec.vcpus;
        }
        let noise = Noise::start(scenario.noise, &scenario.cpus).map_err(RunError::Noise)?;
        Ok(Self {
            scenario,
            launched,
            vms,
            collector,
            _noise: noise,
        })
    }

    fn all_are(&self, task: Task) -> Result<bool, RunError> {
        for vm in &self.vms {
            let region = vm.machine.region();
            for vcpu in 0..region.layout().vcpus() {
                if region.task(vcpu)? != task {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether every vCPU has made the acquisitions it was to make.
    fn all_done(&self) -> Result<bool, RunError> {
        for vm in &self.vms {
            if !done(vm)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles what vCPUs have said. An error if one has failed.
    fn listen(&mut self) -> Result<(), RunError> {
        for (vm, watched) in self.vms.iter_mut().enumerate() {
            while let Ok(event) = watched.events.try_recv() {
                match event {
                    Event::Log { vcpu, message } => tracing::info!(vm, vcpu, message, "guest"),
                    Event::Done { vcpu } => tracing::debug!(vm, vcpu, "done"),
                    Event::Panicked { vcpu, message } => {
                        return Err(RunError::Panicked { vm, vcpu, message });
                    }
                    Event::Failed { error, .. } => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// The watchdog: an error if a VM has made no acquisition for too long.
    fn watch(&mut self) -> Result<(), RunError> {
        for (number, vm) in self.vms.iter_mut().enumerate() {
            let acquisitions = vm.machine.region().acquisitions()?;
            if acquisitions != vm.acquisitions {
                vm.acquisitions = acquisitions;
                vm.last_progress = Instant::now();
            } else if vm.last_progress.elapsed() > self.scenario.watchdog && !done(vm)? {
                return Err(stuck(self.scenario, number, vm));
            }
        }
        Ok(())
    }

    /// Listens and watches until `condition` holds.
    async fn wait_until(
        &mut self,
        every: Duration,
        mut condition: impl FnMut(&mut Self) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        loop {
            self.listen()?;
            if condition(self)? {
                return Ok(());
            }
            self.watch()?;
            sleep(every).await;
        }
    }

    fn enter(&mut self, phase: u32) -> Result<(), RunError> {
        for vm in &mut self.vms {
            vm.machine.region().set_phase(phase)?;
            vm.last_progress = Instant::now();
        }
        Ok(())
    }

    fn kick_all(&self) -> Result<(), RunError> {
        for vm in &self.vms {
            for vcpu in 0..vm.machine.region().layout().vcpus() {
                vm.machine.kick(vcpu)?;
            }
        }
        Ok(())
    }

    /// Waits until every vCPU has prepared itself and halts.
    async fn prepared(&mut self) -> Result<(), RunError> {
        self.wait_until(POLL, |run| run.all_are(Task::Ready)).await
    }

    /// Lets the vCPUs work until the measurement may start.
    ///
    /// Fair locks look thousands of times faster until the first of their waiters is descheduled,
    /// so where vCPUs must share CPUs each has to have been off its CPU once.
    async fn warm_up(&mut self) -> Result<Start, RunError> {
        let begun = Instant::now();
        self.enter(phase::WARM_UP)?;
        let mut not_descheduled = self.switches();
        self.kick_all()?;
        let shortest = self.scenario.warm_up;
        self.wait_until(LOOK.min(shortest / 2), |_| Ok(begun.elapsed() >= shortest))
            .await?;

        let longest = (shortest * LONGEST_WARM_UP).max(LEAST_LONGEST_WARM_UP);
        let overcommitted = self.scenario.overcommitted();
        self.wait_until(SWITCH_LOOK, |run| {
            run.note_reported_preemption()?;
            let now = run.switches();
            not_descheduled.retain(|&(vcpu, switches)| now[vcpu].1 == switches);
            let waiting = overcommitted && !not_descheduled.is_empty();
            Ok(!waiting || begun.elapsed() >= longest)
        })
        .await?;
        let reason = if !overcommitted {
            StartReason::NotOvercommitted
        } else if not_descheduled.is_empty() {
            StartReason::EveryVcpuDescheduled
        } else {
            StartReason::LimitReached(not_descheduled.iter().map(|&(vcpu, _)| vcpu).collect())
        };
        Ok(Start {
            warm_up_ms: begun.elapsed().as_secs_f64() * 1e3,
            reason,
        })
    }

    /// Every vCPU's number, through all VMs, and how often it has left its CPU.
    fn switches(&self) -> Vec<(usize, u64)> {
        let tids = self.vms.iter().flat_map(|vm| {
            (0..vm.machine.region().layout().vcpus()).map(|vcpu| vm.machine.tid(vcpu))
        });
        tids.map(|tid| tid.map_or(0, |tid| ThreadStats::of(tid).switches()))
            .enumerate()
            .collect()
    }

    /// Tells guests that this KVM marks preempted vCPUs, as soon as one is seen marked.
    fn note_reported_preemption(&self) -> Result<(), RunError> {
        for vm in &self.vms {
            let region = vm.machine.region();
            for vcpu in 0..region.layout().vcpus() {
                if let Some((_, true)) = region.steal(vcpu)? {
                    region.set_preempted_is_reported()?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn snapshots(&self) -> Result<Vec<VmSnapshot>, RunError> {
        Ok(self
            .vms
            .iter()
            .map(|vm| VmSnapshot::take(&*vm.machine))
            .collect::<Result<_, _>>()?)
    }

    fn attach(&mut self) {
        if let Some(collector) = &mut self.collector {
            let longest = self.scenario.preempt.map_or(0, |p| p.ns.into());
            collector.attach(longest, &machines(&self.vms));
        }
    }

    fn collect(&mut self) -> Result<(), RunError> {
        match &mut self.collector {
            Some(collector) => Ok(collector.collect(&machines(&self.vms))?),
            None => Ok(()),
        }
    }

    fn begin_measurement(&mut self) -> Result<Vec<VmSnapshot>, RunError> {
        if let Some(collector) = &mut self.collector {
            collector.begin();
        }
        self.enter(phase::MEASURE)?;
        self.snapshots()
    }

    /// Waits until the measurement is over.
    async fn measure(
        &mut self,
        from: &[VmSnapshot],
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<(), RunError> {
        let begun = Instant::now();
        let duration = match self.scenario.length {
            Length::Duration(duration) => Some(duration),
            Length::Iterations(_) => None,
        };
        let never = Duration::from_secs(u32::MAX.into());
        let end = sleep(duration.unwrap_or(never));
        tokio::pin!(end);
        let stat = options.stat_interval.unwrap_or(never);
        let mut intervals = interval_at(tokio::time::Instant::now() + stat, stat);
        let mut live = options.live.then(|| Live::new(&self.vms));
        let live_every = if live.is_some() { LOOK_EVERY } else { never };
        let mut live_looks = interval_at(tokio::time::Instant::now() + live_every, live_every);
        live_looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reporter = Intervals::new(from);
        let mut looks = interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let every = if self.collector.is_some() {
            COLLECT_EVERY
        } else {
            never
        };
        let mut collections = interval_at(tokio::time::Instant::now() + every, every);
        collections.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut end => {
                    if options.stat_interval.is_some() {
                        // The last, perhaps shorter, interval.
                        reporter.report(&self.snapshots()?, &self.vms, observer);
                    }
                    return Ok(());
                }
                _ = intervals.tick() => {
                    if let Some(live) = &mut live {
                        let vms = (0..self.vms.len()).map(|vm| {
                            let (holder_preemptions, preempted) = live.take(vm)?;
                            Some(LiveVm { holder_preemptions, preempted })
                        });
                        observer.live(&vms.collect::<Vec<_>>());
                    }
                    reporter.report(&self.snapshots()?, &self.vms, observer);
                }
                _ = live_looks.tick() => {
                    if let Some(live) = &mut live {
                        live.look(&self.vms)?;
                    }
                }
                _ = collections.tick() => self.collect()?,
                _ = looks.tick() => {
                    self.listen()?;
                    self.watch()?;
                    if self.all_done()? {
                        return Ok(());
                    }
                    if let Some(duration) = duration {
                        observer.progress(begun.elapsed().as_secs_f64() / duration.as_secs_f64());
                    }
                }
            }
        }
    }

    /// Ends the measurement, waits until all vCPUs are done, and makes the record.
    async fn finish(
        mut self,
        start: Start,
        mut from: Vec<VmSnapshot>,
        interrupted: bool,
    ) -> Result<Record, RunError> {
        if self.scenario.length.iterations() > 0 {
            for (from, vm) in from.iter_mut().zip(&self.vms) {
                from.start_where_vcpus_did(&*vm.machine)?;
            }
        }
        let to = self.snapshots()?;
        let mut longest = Vec::new();
        for vm in &self.vms {
            let vcpus = 0..vm.machine.region().layout().vcpus();
            let waits = vcpus.map(|vcpu| snapshot::longest_wait(&*vm.machine, vcpu));
            longest.push(waits.collect::<Result<Vec<_>, _>>()?);
        }
        let ended = vmm::clock::now();
        self.enter(phase::STOP)?;
        self.kick_all()?;
        self.wait_until(POLL, |run| run.all_are(Task::Done)).await?;

        if let Some(collector) = &mut self.collector {
            collector.end(ended, &machines(&self.vms))?;
        }

        let mut vms = Vec::new();
        for (i, vm) in self.vms.iter().enumerate() {
            let pair = (&from[i], &to[i]);
            let spec = self.scenario.vms[i];
            vms.push(snapshot::vm_record(
                self.scenario,
                spec,
                &*vm.machine,
                pair,
                &longest[i],
                vm.first,
            )?);
        }
        tracing::debug!(elapsed = ?self.launched.elapsed(), "run is over");
        Ok(Record {
            scenario: self.scenario.clone(),
            start,
            measured_s: self.measured_s(&from, &to)?,
            first_acquisition_ms: self.first_acquisition_ms()?,
            interrupted,
            vms,
        })
    }

    /// Length of the measurement: between the snapshots, or, for a fixed number of acquisitions,
    /// until the last of them.
    fn measured_s(&self, from: &[VmSnapshot], to: &[VmSnapshot]) -> Result<f64, RunError> {
        let mut longest: f64 = 0.0;
        for (i, vm) in self.vms.iter().enumerate() {
            let mut end = to[i].at;
            if self.scenario.length.iterations() > 0 && done(vm)? {
                end = 0;
                for vcpu in 0..vm.machine.region().layout().vcpus() {
                    let field = offset_of!(VcpuArea, finished);
                    let finished = vm.machine.region().vcpu_word(vcpu, field)?;
                    end = end.max(if finished == 0 { to[i].at } else { finished });
                }
            }
            longest = longest.max(seconds(end.saturating_sub(from[i].at), &*vm.machine));
        }
        Ok(longest)
    }

    fn first_acquisition_ms(&self) -> Result<f64, RunError> {
        let mut first = f64::INFINITY;
        for vm in &self.vms {
            for vcpu in 0..vm.machine.region().layout().vcpus() {
                let field = offset_of!(VcpuArea, first_acquisition);
                let at = vm.machine.region().vcpu_word(vcpu, field)?;
                if at > 0 {
                    let ticks = at.saturating_sub(vm.launched);
                    first = first.min(to_f64(ns(ticks, vm.machine.khz())) / 1e6);
                }
            }
        }
        Ok(if first.is_finite() { first } else { 0.0 })
    }
}

fn machines(vms: &[Watched]) -> Vec<&dyn RunningVm> {
    vms.iter().map(|vm| &*vm.machine).collect()
}

/// Whether every vCPU of the VM has ended, or made a fixed number of acquisitions.
fn done(vm: &Watched) -> Result<bool, RunError> {
    let region = vm.machine.region();
    for vcpu in 0..region.layout().vcpus() {
        let finished = region.vcpu_word(vcpu, offset_of!(VcpuArea, finished))?;
        if finished == 0 && region.task(vcpu)? != Task::Done {
            return Ok(false);
        }
    }
    Ok(true)
}

fn stuck(scenario: &Scenario, number: usize, vm: &Watched) -> RunError {
    let silent_for = vm.last_progress.elapsed();
    match Stuck::new(number, scenario.vms[number], silent_for, &*vm.machine) {
        Ok(stuck) => Box::new(stuck).into(),
        Err(e) => e.into(),
    }
}

fn seconds(ticks: u64, machine: &dyn RunningVm) -> f64 {
    to_f64(ticks) / (to_f64(machine.khz()) * 1e3)
}

/// Makes intervals of a sequence of snapshots.
struct Intervals {
    start: u64,
    last: u64,
    totals: Vec<IntervalVm>,
}

impl Intervals {
    fn new(from: &[VmSnapshot]) -> Self {
        let start = from.first().map_or(0, |vm| vm.at);
        Self {
            start,
            last: start,
            totals: from.iter().map(totals).collect(),
        }
    }

    fn report(&mut self, now: &[VmSnapshot], vms: &[Watched], observer: &mut dyn Observer) {
        let (Some(at), Some(vm)) = (now.first().map(|vm| vm.at), vms.first()) else {
            return;
        };
        let totals: Vec<_> = now.iter().map(totals).collect();
        let vms = totals
            .iter()
            .zip(&self.totals)
            .map(|(now, last)| IntervalVm {
                acquisitions: now.acquisitions - last.acquisitions,
                contended: now.contended - last.contended,
                halts: now.halts - last.halts,
                kicks: now.kicks - last.kicks,
                spurious: now.spurious - last.spurious,
            });
        let interval = Interval {
            at_s: seconds(at - self.start, &*vm.machine),
            length_s: seconds(at - self.last, &*vm.machine),
            vms: vms.collect(),
        };
        // The end of the measurement may follow an interval at once.
        if interval.length_s > 0.001 {
            observer.interval(&interval);
        }
        self.last = at;
        self.totals = totals;
    }
}

fn totals(vm: &VmSnapshot) -> IntervalVm {
    IntervalVm {
        acquisitions: vm.total(Counter::Acquisitions),
        contended: vm.total(Counter::Lock(LockEvent::Contended)),
        halts: vm.total(Counter::Halts),
        kicks: vm.total(Counter::Kicks),
        spurious: vm.total(Counter::Lock(LockEvent::PvSpuriousWakeup)),
    }
}
