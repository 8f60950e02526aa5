//! Statistics intervals: what happened between two looks at the counters.

use super::absence::Absences;
use super::run::{Watched, seconds};
use super::{Interval, IntervalVm, Observer};
use crate::machine::RunningVm;
use guest::abi::Counter;
use pvlock::LockEvent;
use vmm::region::RegionError;

/// Makes intervals of what the counters are at their ends. Nothing else is read: each look takes time
/// from the vCPUs.
pub(super) struct Intervals {
    start: u64,
    last: u64,
    /// Ticks without CPU until then.
    absent: u64,
    totals: Vec<IntervalVm>,
}

impl Intervals {
    /// The first interval begins now.
    pub(super) fn begin(vms: &[Watched]) -> Result<Self, RegionError> {
        let start = vms.first().map_or(0, |vm| vm.machine.now());
        Ok(Self {
            start,
            last: start,
            absent: 0,
            totals: all_totals(vms)?,
        })
    }

    /// An interval ends now.
    pub(super) fn report(
        &mut self,
        vms: &[Watched],
        absences: &Absences,
        observer: &mut dyn Observer,
    ) -> Result<(), RegionError> {
        let Some(vm) = vms.first() else {
            return Ok(());
        };
        let at = vm.machine.now();
        let totals = all_totals(vms)?;
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
        let absent = absences.ticks_until(at.wrapping_sub(vm.machine.tsc_offset()));
        let lost = absent.saturating_sub(self.absent);
        let measured = |ticks: u64, lost| seconds(ticks.saturating_sub(lost), &*vm.machine);
        let interval = Interval {
            at_s: measured(at - self.start, absent),
            length_s: measured(at - self.last, lost),
            without_cpu_s: seconds(lost, &*vm.machine),
            vms: vms.collect(),
        };
        // The end of the measurement may follow an interval at once.
        if interval.length_s > 0.001 {
            observer.interval(&interval);
        }
        self.last = at;
        self.absent = absent;
        self.totals = totals;
        Ok(())
    }
}

fn all_totals(vms: &[Watched]) -> Result<Vec<IntervalVm>, RegionError> {
    vms.iter().map(|vm| totals(&*vm.machine)).collect()
}

fn totals(vm: &dyn RunningVm) -> Result<IntervalVm, RegionError> {
    let region = vm.region();
    let counters = (0..region.layout().vcpus())
        .map(|vcpu| region.counters(vcpu))
        .collect::<Result<Vec<_>, _>>()?;
    let total = |counter: Counter| counters.iter().map(|vcpu| vcpu[counter.index()]).sum();
    Ok(IntervalVm {
        acquisitions: total(Counter::Acquisitions),
        contended: total(Counter::Lock(LockEvent::Contended)),
        halts: total(Counter::Halts),
        kicks: total(Counter::Kicks),
        spurious: total(Counter::Lock(LockEvent::PvSpuriousWakeup)),
    })
}
