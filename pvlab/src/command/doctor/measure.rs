//! What this host's KVM does, as throw-away guests see it.

use super::KvmFindings;
use crate::host::Host;
use crate::machine::{self, MachineError, MachineKind};
use crate::session::costs::{CostError, of_tasks, throw_away};
use abi::{Params, Workload};
use std::time::Duration;

/// How long to let two vCPUs fight for a CPU, to see what KVM says of it.
const FIGHT: Duration = Duration::from_millis(150);

/// Pairs of host CPUs to measure between: the same one, and two different ones.
pub(crate) fn placements(host: &Host) -> Vec<[usize; 2]> {
    match host.allowed_cpus[..] {
        [a, b, ..] => vec![[a, b], [a, a]],
        [a] => vec![[a, a]],
        [] => vec![],
    }
}

/// What this KVM does, on that machine.
pub(crate) fn kvm(machine: MachineKind, host: &Host) -> Result<KvmFindings, CostError> {
    let cpu = host.allowed_cpus.first().copied().unwrap_or(0);
    let params = Params {
        workload: Workload::Busy as u64,
        locks: 1,
        ..Params::default()
    };
    let (mut steal_time, mut preempted_reported) = (false, false);
    let (tsc_khz, statistics) =
        throw_away((machine, true), params, &[cpu; 2], Some(FIGHT), |vm| {
            for vcpu in 0..2 {
                if let Some((ns, preempted)) = vm.region().steal(vcpu)? {
                    steal_time |= ns > 0;
                    preempted_reported |= preempted;
                }
            }
            let statistics = vm.kvm_stats(0).is_some_and(|stats| !stats.is_empty());
            Ok((vm.khz(), statistics))
        })?;
    let loop_ticks = |cpl| vmm::cpl::ticks_per_turn(cpl).map_err(MachineError::from);
    Ok(KvmFindings {
        max_vcpus: vmm::max_vcpus().map_err(MachineError::from)?,
        loop_ticks_cpl0: loop_ticks(vmm::Cpl::Cpl0)?,
        loop_ticks_cpl3: loop_ticks(vmm::Cpl::Cpl3)?,
        auto_cpl: machine::auto_cpl()?.level(),
        tsc_khz,
        steal_time,
        preempted_reported,
        statistics,
        task_switch: of_tasks((machine, true), [cpu; 2], 2)?.1,
    })
}
