//! What the threads of a microbenchmark have done. They are tasks, of which a vCPU may have several.

use super::RunError;
use super::snapshot::ns;
use super::vms::{Watched, seconds};
use crate::record::ThreadRecord;
use crate::scenario::{Bench, Scenario};
use abi::{TaskArea, phase};
use host::region::RegionError;
use std::mem::offset_of;

/// A record of each thread; `from`: when the measurement began, on the VM's clock.
pub(super) fn threads(
    scenario: &Scenario,
    bench: Bench,
    vm: &Watched,
    from: u64,
) -> Result<Vec<ThreadRecord>, RunError> {
    let layout = vm.machine.region().layout();
    let record = |thread| {
        let task = bench.task(scenario.machine, layout.vcpus(), thread);
        let vcpu = task / layout.tasks_per_vcpu();
        one(scenario, vm, (task, vcpu), from)
    };
    let records: Result<_, RegionError> = (0..bench.threads).map(record).collect();
    Ok(records?)
}

fn one(
    scenario: &Scenario,
    vm: &Watched,
    (task, vcpu): (usize, usize),
    from: u64,
) -> Result<ThreadRecord, RegionError> {
    let machine = &*vm.machine;
    let region = machine.region();
    // A thread that has waited ever since the measurement began has not noticed it: its figures are
    // those of the warm-up.
    let counts = region.task_phase(task)? == phase::MEASURE;
    let word = |field| region.task_word(task, field);
    let figure = |field| if counts { word(field) } else { Ok(0) };
    let count = |field| match counts {
        true => region.task_count(task, field),
        false => Ok(0),
    };
    let (waiting, for_reading) = match word(offset_of!(TaskArea, wait_since))? {
        0 => (0, false),
        since => (machine.now().saturating_sub(since), since & 1 != 0),
    };
    let longest = |field, going_on| {
        let longest = figure(field)?.max(if going_on { waiting } else { 0 });
        Ok::<_, RegionError>(scenario.latency.then(|| ns(longest, machine.khz())))
    };
    let finished = figure(offset_of!(TaskArea, finished))?;
    Ok(ThreadRecord {
        vcpu,
        reads: count(offset_of!(TaskArea, reads))?,
        writes: count(offset_of!(TaskArea, writes))?,
        read_wait_max_ns: longest(offset_of!(TaskArea, read_wait_max), for_reading)?,
        write_wait_max_ns: longest(offset_of!(TaskArea, write_wait_max), !for_reading)?,
        finished_s: (finished > 0).then(|| seconds(finished.saturating_sub(from), machine)),
    })
}
