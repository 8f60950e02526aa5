//! How threads are scheduled: less important than others, or real-time; and moved about.

use crate::scenario::Torture;
use crate::session::{Run, RunError};
use host::thread::{set_fifo, set_nice};

/// Niceness of the threads, as of locktorture's.
const NICE: i32 = 19;
/// Real-time priority of writers, if they have one: less than that of the control plane
/// ([`host::sched`]), which must get a CPU from them.
const WRITERS: i32 = 1;

/// Sets up the scheduling of a test's threads.
pub(crate) fn schedule(run: &Run<'_>, torture: &Torture) -> Result<(), RunError> {
    let machine = &run.vms[0].machine;
    let vcpus = 0..machine.region().layout().vcpus();
    for (vcpu, tid) in vcpus.filter_map(|vcpu| Some((vcpu, machine.tid(vcpu)?))) {
        if torture.writer_fifo && vcpu < run.scenario.writers() {
            set_fifo(tid, WRITERS).map_err(RunError::Fifo)?;
        } else {
            set_nice(tid, NICE).map_err(RunError::Scheduling)?;
        }
    }
    Ok(())
}

/// Moves all threads to all CPUs but one: each in turn, and after the last none is left out for once,
/// or two CPUs would never work at the same time. `number` counts the calls from 0.
pub(crate) fn shuffle(run: &Run<'_>, number: usize) -> Result<(), RunError> {
    let cpus = &run.scenario.cpus;
    let idle = number % (cpus.len() + 1);
    let rest = cpus.iter().enumerate().filter(|&(i, _)| i != idle);
    let rest: Vec<_> = rest.map(|(_, &cpu)| cpu).collect();
    let machine = &run.vms[0].machine;
    let mut vcpus = 0..machine.region().layout().vcpus();
    let moved = vcpus.try_for_each(|vcpu| machine.set_affinity(vcpu, &rest));
    moved.map_err(RunError::Scheduling)
}
