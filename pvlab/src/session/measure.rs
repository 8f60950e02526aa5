//! The measurement, and the record of it.

use super::calibration;
use super::intervals::Intervals;
use super::live::{LOOK_EVERY, Live};
use super::run::Run;
use super::snapshot::{self, VmSnapshot, ns};
use super::surroundings::Counts;
use super::timers::{Due, Timers};
use super::vms::{Watched, seconds};
use super::{Observer, Options, RunError, look_every, tasks};
use crate::record::{Absence, Context, Record, Start, VmRecord};
use crate::trace::collect::COLLECT_EVERY;
use abi::{VcpuArea, phase};
use std::mem::offset_of;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior::{Burst, Delay};

/// If the measurement ends so soon after a statistics interval, that lasts until then.
const AT_ONCE: Duration = Duration::from_millis(1);

impl Run<'_> {
    pub(super) fn begin_measurement(&mut self) -> Result<Vec<VmSnapshot>, RunError> {
        self.absences.forget();
        self.host = Counts::take(self.scenario);
        // The trace is of what is counted: nothing that takes time comes between.
        if let Some(collector) = &mut self.collector {
            collector.begin(&self.vms.machines());
        }
        self.enter(phase::MEASURE)?;
        self.snapshots()
    }

    /// When the counters were read first. The measurement lasts from then: this thread may have been kept from
    /// its CPU before, and with hundreds of vCPUs it takes a while until it has read all of them.
    pub(super) fn when(&self, from: &[VmSnapshot]) -> Instant {
        let ago = |(vm, from): (&Watched, &VmSnapshot)| {
            seconds(vm.machine.now().saturating_sub(from.at), &*vm.machine)
        };
        // The VM's clock before the host's: what passes between them makes the measurement longer, not shorter.
        let ago = self.vms.iter().zip(from).map(ago).next().unwrap_or(0.0);
        let now = Instant::now();
        let ago = Duration::try_from_secs_f64(ago).unwrap_or_default();
        now.checked_sub(ago).unwrap_or(now)
    }

    /// Waits until the measurement is over, which began at `begun`; a break if the observer ended it.
    pub(super) async fn measure(
        &mut self,
        begun: Instant,
        options: &Options,
        observer: &mut dyn Observer,
        reporter: &mut Intervals,
    ) -> Result<ControlFlow<()>, RunError> {
        const INTERVAL: usize = 0;
        const LIVE: usize = 1;
        const COLLECTION: usize = 2;
        let duration = self.scenario.length.duration();
        let mut live = options.live.then(|| Live::new(&self.vms));
        let periods = [
            (options.stat_interval, Burst),
            (live.as_ref().map(|_| LOOK_EVERY), Delay),
            (self.collector.as_ref().map(|_| COLLECT_EVERY), Delay),
            (Some(look_every(self.scenario.machine)), Delay),
        ];
        let mut timers = Timers::new(begun, duration, periods);
        loop {
            match timers.next().await {
                // What was lost is measured now.
                Due::End => {
                    if !timers.postpone(self.notice_absence()) {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                Due::Tick(INTERVAL) => {
                    // The last interval ends with the measurement.
                    if duration.is_some_and(|all| begun.elapsed() + AT_ONCE >= all) {
                        continue;
                    }
                    let mut seen = Vec::new();
                    if let Some(live) = &mut live {
                        seen.extend((0..self.vms.len()).map(|vm| live.take(vm)));
                    }
                    timers.postpone(self.notice_absence());
                    let flow = reporter.report(&self.vms, &self.absences, seen, observer)?;
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
                Due::Tick(LIVE) => {
                    if let Some(live) = &mut live {
                        live.look(&self.vms)?;
                    }
                }
                Due::Tick(COLLECTION) => self.collect()?,
                Due::Tick(_) => {
                    self.vms.listen()?;
                    timers.postpone(self.notice_absence());
                    self.watch()?;
                    if self.vms.all_done()? {
                        return Ok(ControlFlow::Continue(()));
                    }
                    if let Some(duration) = duration {
                        let measured = begun.elapsed().saturating_sub(self.absences.lost());
                        observer.progress(measured.as_secs_f64() / duration.as_secs_f64());
                    }
                }
            }
        }
    }

    /// Whether vCPUs make a fixed number of acquisitions, and say when they began.
    pub(super) fn fixed(&self) -> bool {
        self.scenario.length.iterations() > 0 && self.scenario.bench.is_none()
    }

    /// Statistics intervals, of which the first begins with the measurement.
    pub(super) fn intervals(&self, from: &[VmSnapshot]) -> Intervals {
        Intervals::begin(from, self.fixed())
    }

    /// Ends the measurement, waits until all vCPUs are done, and makes the record. `last`: who is told the
    /// last statistics interval.
    pub(super) async fn finish(
        mut self,
        start: Start,
        mut from: Vec<VmSnapshot>,
        interrupted: bool,
        last: Option<(&mut Intervals, &mut dyn Observer)>,
    ) -> Result<Record, RunError> {
        self.notice_absence();
        let mut begun = Vec::new();
        for vm in self.vms.iter().filter(|_| self.fixed()) {
            begun.push(snapshot::marks(&*vm.machine, offset_of!(VcpuArea, begun))?);
        }
        // A trace ends where the counters are read; reading the rest takes a while.
        let ended = self.vms.first().map_or(0, |vm| vm.machine.host_now());
        let to = self.snapshots()?;
        for ((from, begun), to) in from.iter_mut().zip(begun).zip(&to) {
            from.start_where_vcpus_did(begun, to);
        }
        let mut threads = Vec::new();
        for (vm, from) in self.vms.iter().zip(&from) {
            threads.push(match self.scenario.bench {
                Some(bench) => tasks::threads(self.scenario, bench, vm, from.at)?,
                None => Vec::new(),
            });
        }
        if interrupted && to.iter().zip(&from).all(|(to, from)| to.at == from.at) {
            return Err(RunError::Interrupted);
        }
        let host = self.host.zip(Counts::take(self.scenario));
        let mut unknown = Vec::new();
        for vm in self.vms.iter() {
            for new in vm.machine.unknown() {
                // Said once, whatever the number of VMs.
                if !unknown.contains(&new) {
                    unknown.push(new);
                }
            }
        }
        self.stop(interrupted).await?;

        if let Some(collector) = &mut self.collector {
            collector.end(ended, &self.vms.machines())?;
        }

        let mut vms = Vec::new();
        for ((i, vm), threads) in self.vms.iter().enumerate().zip(threads) {
            let pair = (&from[i], &to[i]);
            let record = snapshot::vm_record(self.scenario, i, vm, pair, self.calibration)?;
            vms.push(VmRecord {
                threads,
                spinning: self.spinning[i],
                ..record
            });
        }
        tracing::debug!(elapsed = ?self.launched.elapsed(), "run is over");
        let record = Record {
            context: Context::default(),
            account: None,
            scenario: self.scenario.clone(),
            start,
            measured_s: self.measured_s(&from, &to)?,
            without_cpu: self.without_cpu(&from),
            repeated: 0,
            first_acquisition_ms: self.first_acquisition_ms()?,
            surroundings: host.map(|(from, to)| from.until(to)),
            unknown,
            interrupted,
            control_plane: self.control_plane().name(),
            calibration: self.calibration.map(calibration::record),
            vms,
        };
        if let (Some((intervals, observer)), Some(vm)) = (last, self.vms.first()) {
            intervals.end(&record, &self.absences, &*vm.machine, observer);
        }
        Ok(record)
    }

    /// Length of the measurement: between the snapshots, or, for a fixed number of acquisitions,
    /// until the last of them.
    pub(super) fn measured_s(
        &self,
        from: &[VmSnapshot],
        to: &[VmSnapshot],
    ) -> Result<f64, RunError> {
        let mut longest: f64 = 0.0;
        for (i, vm) in self.vms.iter().enumerate() {
            let mut end = to[i].at;
            if self.scenario.length.iterations() > 0 && vm.done()? {
                end = 0;
                for vcpu in 0..vm.machine.region().layout().vcpus() {
                    let field = offset_of!(VcpuArea, finished);
                    let finished = vm.machine.region().vcpu_word(vcpu, field)?;
                    // Nobody has finished in the future, whatever a guest says.
                    let finished = finished.min(vm.machine.now());
                    end = end.max(if finished == 0 { to[i].at } else { finished });
                }
            }
            let host_end = end.wrapping_sub(vm.machine.tsc_offset());
            let lost = self.absences.ticks_until(host_end);
            let ticks = end.saturating_sub(from[i].at).saturating_sub(lost);
            longest = longest.max(seconds(ticks, &*vm.machine));
        }
        Ok(longest)
    }

    /// Times without CPU in the measurement.
    fn without_cpu(&self, from: &[VmSnapshot]) -> Vec<Absence> {
        let (Some(vm), Some(from)) = (self.vms.first(), from.first()) else {
            return Vec::new();
        };
        let begun = from.at.wrapping_sub(vm.machine.tsc_offset());
        self.absences.recorded(begun, vm.machine.khz())
    }

    pub(super) fn first_acquisition_ms(&self) -> Result<Option<f64>, RunError> {
        let mut first = f64::INFINITY;
        for vm in self.vms.iter() {
            for vcpu in 0..vm.machine.region().layout().vcpus() {
                let field = offset_of!(VcpuArea, first_acquisition);
                let at = vm.machine.region().vcpu_word(vcpu, field)?;
                if at > 0 {
                    let ticks = at.saturating_sub(vm.launched);
                    first = first.min(ns(ticks, vm.machine.khz()) as f64 / 1e6);
                }
            }
        }
        Ok(Some(first).filter(|first| first.is_finite()))
    }
}
