//! Records made up for tests.

use super::Run;
use crate::record::{
    Context, ExclusionCheck, Figures, Record, Start, StartReason, VcpuRecord, VmRecord, Waits,
};
use crate::scenario::{Length, MachineKind, Mix, Scenario, VmSpec, WorkTime};
use abi::Counter;
use abi::hist::bucket_of;
use pvlock::{LockEvent, LockKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// Two vCPUs on two CPUs for a second.
pub(crate) fn scenario(lock: LockKind) -> Scenario {
    let vms = vec![VmSpec {
        lock: lock.into(),
        vcpus: 2,
    }];
    let second = Length::Duration(Duration::from_secs(1));
    let mut scenario = Scenario::bare(MachineKind::Kvm, vms, vec![0, 1], second);
    scenario.workload.critical = WorkTime::from_ns(130);
    scenario.workload.outside = WorkTime::from_ns(130);
    scenario.warm_up = Duration::from_millis(300);
    scenario
}

/// Waits of that length, ns, and number each, on a clock of 1 GHz, whose ticks are nanoseconds.
pub(crate) fn waits(values: &[(u64, u64)], max_ns: u64) -> Waits {
    let bucket = |&(ns, n): &(u64, u64)| (u16::try_from(bucket_of(ns)).unwrap(), n);
    Waits {
        buckets: values.iter().map(bucket).collect(),
        khz: 1_000_000,
        max_ns,
        cut_off_ns: None,
    }
}

pub(crate) fn counters(counts: &[(Counter, u64)]) -> BTreeMap<String, u64> {
    let counts = counts.iter().filter(|(_, n)| *n > 0);
    let named = |(counter, n): &(Counter, u64)| (counter.name().to_owned(), *n);
    counts.map(named).collect()
}

/// That VM's part of a run of a second.
pub(crate) fn run(vm: &VmRecord, mix: Mix) -> Run<'_> {
    Run {
        vm,
        measured_s: 1.0,
        mix,
    }
}

/// A VM whose vCPUs made that many acquisitions; half of them contended, each waited for 100 ns.
pub(crate) fn vm(lock: &str, acquisitions: &[u64]) -> VmRecord {
    let total = acquisitions.iter().sum();
    let vcpus = acquisitions.iter().enumerate().map(|(i, &n)| VcpuRecord {
        cpu: Some(i % 2),
        whole: Figures {
            counters: counters(&[
                (Counter::Acquisitions, n),
                (Counter::Lock(LockEvent::Contended), n / 2),
            ]),
            waits: Some(waits(&[(100, n)], 100)),
            read_waits: None,
        },
        cpu_ns: Some(0),
        voluntary_switches: Some(0),
        involuntary_switches: Some(0),
        kvm: Some(BTreeMap::new()),
        ..VcpuRecord::default()
    });
    VmRecord {
        lock: lock.to_owned(),
        exclusion: ExclusionCheck {
            acquisitions: total,
            entries: Some(total),
            violations: Some(0),
            cut_off: 0,
        },
        critical_ns: Some(131.5),
        outside_ns: Some(129.5),
        probe_ns: Some(9.25),
        most_used_lock: None,
        preempted_reported: false,
        clock_khz: 1_000_000,
        first_done_s: None,
        spinning: None,
        vcpus: vcpus.collect(),
        threads: Vec::new(),
    }
}

/// A record of a second's run of two vCPUs.
pub(crate) fn record(lock: LockKind, acquisitions: u64) -> Record {
    let half = acquisitions / 2;
    Record {
        context: Context::default(),
        account: None,
        scenario: scenario(lock),
        start: Start {
            warm_up_ms: 300.0,
            reason: StartReason::NotOvercommitted,
        },
        measured_s: 1.0,
        without_cpu: Vec::new(),
        repeated: 0,
        first_acquisition_ms: Some(12.5),
        surroundings: None,
        unknown: Vec::new(),
        interrupted: false,
        control_plane: "real-time".to_owned(),
        calibration: None,
        vms: vec![vm(lock.name(), &[half, acquisitions - half])],
    }
}
