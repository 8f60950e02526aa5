//! Statistics intervals: what happened between two snapshots.

use super::run::{Watched, seconds};
use super::snapshot::VmSnapshot;
use super::{Interval, IntervalVm, Observer};
use guest::abi::Counter;
use pvlock::LockEvent;

/// Makes intervals of a sequence of snapshots.
pub(super) struct Intervals {
    start: u64,
    last: u64,
    totals: Vec<IntervalVm>,
}

impl Intervals {
    pub(super) fn new(from: &[VmSnapshot]) -> Self {
        let start = from.first().map_or(0, |vm| vm.at);
        Self {
            start,
            last: start,
            totals: from.iter().map(totals).collect(),
        }
    }

    pub(super) fn report(
        &mut self,
        now: &[VmSnapshot],
        vms: &[Watched],
        observer: &mut dyn Observer,
    ) {
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
