//! Statistics intervals: what happened between two looks at the counters. Together they are the whole
//! measurement: the first begins where it begins, and the last is what the others have left of it.

use super::absence::Absences;
use super::counted::Counted;
use super::snapshot::VmSnapshot;
use super::vms::{Watched, seconds};
use super::{Interval, IntervalVm, LiveVm, Observer};
use crate::machine::RunningVm;
use crate::record::Record;
use crate::scenario::whole;
use abi::{Counter, VcpuArea};
use host::region::RegionError;
use pvlock::LockEvent;
use std::mem::offset_of;
use std::ops::ControlFlow;

/// Makes intervals of what the counters are at their ends. Nothing else is read: each look takes time
/// from the vCPUs.
pub(super) struct Intervals {
    start: u64,
    last: u64,
    /// Ticks without CPU until then.
    absent: u64,
    /// What each vCPU of each VM had counted at the start; empty if they say so themselves
    /// ([`VcpuArea::begun`]).
    from: Vec<Vec<Counted>>,
    /// What each VM had done by the last, by [`Counter::index`].
    told: Vec<Vec<u64>>,
}

impl Intervals {
    /// The first interval begins with the measurement; `fixed`: of a fixed number of acquisitions.
    pub(super) fn begin(from: &[VmSnapshot], fixed: bool) -> Self {
        let start = from.first().map_or(0, |vm| vm.at);
        let counted = from.iter().filter(|_| !fixed);
        let counted = counted.map(|vm| vm.counted().cloned().collect());
        Self {
            start,
            last: start,
            absent: 0,
            from: counted.collect(),
            told: vec![vec![0; Counter::COUNT]; from.len()],
        }
    }

    /// An interval ends now.
    pub(super) fn report(
        &mut self,
        vms: &[Watched],
        absences: &Absences,
        live: Vec<Option<LiveVm>>,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, RegionError> {
        let vm = &vms[0];
        let at = vm.machine.now();
        let so_far = vms.iter().enumerate().map(|(number, vm)| {
            let from = self.from.get(number).map(Vec::as_slice);
            so_far(&*vm.machine, from)
        });
        let so_far = so_far.collect::<Result<_, _>>()?;
        let absent = absences.ticks_until(at.wrapping_sub(vm.machine.tsc_offset()));
        Ok(observer.interval(&self.turn((at, absent), so_far, live, &*vm.machine)))
    }

    /// The last interval ends with the measurement, and is what is left of it.
    pub(super) fn end(
        &mut self,
        record: &Record,
        absences: &Absences,
        machine: &dyn RunningVm,
        observer: &mut dyn Observer,
    ) {
        let length = whole(record.measured_s * machine.khz() as f64 * 1e3);
        let whole = (record.vms.iter()).map(|vm| Counter::all().map(|c| vm.whole(c)).collect());
        let absent = absences.ticks_until(u64::MAX);
        let end = self.start.saturating_add(length).saturating_add(absent);
        let end = end.max(self.last);
        // It is over in any case.
        let _ = observer.interval(&self.turn((end, absent), whole.collect(), Vec::new(), machine));
    }

    /// The interval that ends at `at`, until when so much time was without CPU.
    fn turn(
        &mut self,
        (at, absent): (u64, u64),
        so_far: Vec<Vec<u64>>,
        live: Vec<Option<LiveVm>>,
        machine: &dyn RunningVm,
    ) -> Interval {
        let vms = so_far.iter().zip(&self.told);
        let lost = absent.saturating_sub(self.absent);
        let measured =
            |from: u64, lost: u64| seconds(at.saturating_sub(from).saturating_sub(lost), machine);
        let interval = Interval {
            at_s: measured(self.start, absent),
            length_s: measured(self.last, lost),
            without_cpu_s: seconds(lost, machine),
            vms: Vec::from_iter(vms.map(|(now, told)| IntervalVm::between(told, now))),
            live,
        };
        self.last = at;
        self.absent = absent;
        self.told = so_far;
        interval
    }
}

impl IntervalVm {
    fn between(from: &[u64], to: &[u64]) -> Self {
        let count = |counter: Counter| to[counter.index()].saturating_sub(from[counter.index()]);
        Self {
            acquisitions: count(Counter::Acquisitions),
            contended: count(Counter::Lock(LockEvent::Contended)),
            halts: count(Counter::Halts),
            kicks: count(Counter::Kicks),
            spurious: count(Counter::Lock(LockEvent::PvSpuriousWakeup)),
        }
    }
}

/// What a VM has done since its vCPUs had counted what is in `from`, or since they began.
fn so_far(vm: &dyn RunningVm, from: Option<&[Counted]>) -> Result<Vec<u64>, RegionError> {
    let region = vm.region();
    let mut sums = vec![0; Counter::COUNT];
    for vcpu in 0..region.layout().vcpus() {
        let begun;
        let from = match from {
            Some(from) => from.get(vcpu),
            None => {
                begun = Counted::at(vm, vcpu, offset_of!(VcpuArea, begun))?;
                begun.as_ref()
            }
        };
        if let Some(from) = from {
            let done = from.done_since(&region.counters(vcpu)?);
            sums.iter_mut().zip(done).for_each(|(sum, n)| *sum += n);
        }
    }
    Ok(sums)
}
