//! The measurement, and the record of it.

use super::calibration;
use super::intervals::Intervals;
use super::live::{LOOK_EVERY, Live};
use super::run::{POLL, Run, done, machines, seconds};
use super::snapshot::{self, LongestWaits, VmSnapshot, ns, to_f64};
use super::{LiveVm, Observer, Options, RunError, look_every, tasks};
use crate::record::{Record, Start, VmRecord};
use crate::scenario::Length;
use crate::trace::collect::COLLECT_EVERY;
use guest::abi::{Task, VcpuArea, phase};
use std::mem::offset_of;
use std::time::Duration;
use tokio::time::{Instant, interval_at, sleep};

impl Run<'_> {
    pub(super) fn begin_measurement(&mut self) -> Result<Vec<VmSnapshot>, RunError> {
        if let Some(collector) = &mut self.collector {
            collector.begin(&machines(&self.vms));
        }
        self.enter(phase::MEASURE)?;
        self.snapshots()
    }

    /// Waits until the measurement is over.
    pub(super) async fn measure(
        &mut self,
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
        let mut intervals = interval_at(Instant::now() + stat, stat);
        let mut live = options.live.then(|| Live::new(&self.vms));
        let live_every = if live.is_some() { LOOK_EVERY } else { never };
        let mut live_looks = interval_at(Instant::now() + live_every, live_every);
        live_looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reporter = Intervals::begin(&self.vms)?;
        let look = look_every(self.scenario.machine);
        let mut looks = interval_at(Instant::now() + look, look);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let every = if self.collector.is_some() {
            COLLECT_EVERY
        } else {
            never
        };
        let mut collections = interval_at(Instant::now() + every, every);
        collections.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut end => {
                    if options.stat_interval.is_some() {
                        // The last, perhaps shorter, interval.
                        reporter.report(&self.vms, observer)?;
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
                    reporter.report(&self.vms, observer)?;
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
    pub(super) async fn finish(
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
            let waits = vcpus.map(|vcpu| LongestWaits::of(&*vm.machine, vcpu));
            longest.push(waits.collect::<Result<Vec<_>, _>>()?);
        }
        let mut threads = Vec::new();
        for (vm, from) in self.vms.iter().zip(&from) {
            threads.push(match self.scenario.bench {
                Some(bench) => tasks::threads(self.scenario, bench, vm, from.at)?,
                None => Vec::new(),
            });
        }
        let ended = self.vms.first().map_or(0, |vm| vm.machine.host_now());
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
            let record = snapshot::vm_record(
                self.scenario,
                spec,
                &*vm.machine,
                pair,
                &longest[i],
                vm.first,
                self.calibration,
            )?;
            vms.push(VmRecord {
                threads: std::mem::take(&mut threads[i]),
                ..record
            });
        }
        tracing::debug!(elapsed = ?self.launched.elapsed(), "run is over");
        Ok(Record {
            scenario: self.scenario.clone(),
            start,
            measured_s: self.measured_s(&from, &to)?,
            first_acquisition_ms: self.first_acquisition_ms()?,
            interrupted,
            calibration: self.calibration.map(calibration::record),
            vms,
        })
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

    pub(super) fn first_acquisition_ms(&self) -> Result<f64, RunError> {
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
