//! Which vCPU of a queue is next, and what takes the CPU from one that runs: one type for each policy.

use super::cpu::Cpu;
use crate::units::Ps;

/// What decides. All but [`Self::pick`] is of those that look at how long vCPUs have run.
pub(super) trait Policy {
    /// There is one vCPU more.
    fn add_vcpu(&mut self) {}

    /// `vcpu` is about to wait for `cpu`.
    fn joins(&mut self, _vcpu: u32, _cpu: &Cpu, _now: Ps) {}

    /// `vcpu` has been on a CPU for `time`.
    fn ran(&mut self, _vcpu: u32, _time: Ps) {}

    /// Whether `woken`, which has just begun to wait for `cpu`, takes it from the one that is on it.
    fn preempts(&self, _woken: u32, _cpu: &Cpu, _now: Ps) -> bool {
        false
    }

    /// Whether the vCPU that is on `cpu` keeps it when it is asked whether it should.
    fn stays(&mut self, _cpu: &Cpu, _is_own: bool, _now: Ps) -> bool {
        false
    }

    /// Whether a vCPU that another yields to takes its CPU at once from one of another VM.
    fn favours_at_once(&self) -> bool {
        false
    }

    /// The next on `cpu`, among those that wait for it. `is_own`: the one that it is to be given to, as
    /// another has yielded to that, follows one of its own VM.
    fn pick(&self, cpu: &Cpu, is_own: bool) -> Option<u32>;
}

/// Slices are given in turn.
pub(super) struct InTurn;

impl Policy for InTurn {
    fn pick(&self, cpu: &Cpu, _is_own: bool) -> Option<u32> {
        cpu.favoured().or_else(|| cpu.queue.first().copied())
    }
}
