//! The state of all vCPUs at one moment. A measurement is the difference of two.

use crate::machine::RunningVm;
use crate::record::{Exclusion, VcpuRecord, VmRecord, Waits};
use crate::scenario::{Mix, Scenario, VmSpec, whole_ns};
use guest::abi::{Costs, Counter, Data, Sampled, VcpuArea};
use guest::hist::bucket_values;
use guest::workload::turn;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;
use vmm::Region;
use vmm::region::RegionError;
use vmm::thread::ThreadStats;

/// One VM at one moment.
pub(super) struct VmSnapshot {
    /// On the VM's clock.
    pub(super) at: u64,
    vcpus: Vec<VcpuSnapshot>,
}

struct VcpuSnapshot {
    counters: Vec<u64>,
    waits: Vec<u64>,
    read_waits: Vec<u64>,
    thread: ThreadStats,
    steal: Option<u64>,
    exits: BTreeMap<String, u64>,
    kvm: BTreeMap<String, u64>,
}

impl VmSnapshot {
    pub(super) fn take(vm: &dyn RunningVm) -> Result<Self, RegionError> {
        let region = vm.region();
        let count = region.layout().vcpus();
        // What rates are made of, as nearly at one time as can be; the rest may take longer.
        let at = vm.now();
        let counters = (0..count)
            .map(|vcpu| region.counters(vcpu))
            .collect::<Result<Vec<_>, _>>()?;
        let vcpus = counters
            .into_iter()
            .enumerate()
            .map(|(vcpu, counters)| {
                Ok(VcpuSnapshot {
                    counters,
                    waits: region.hist(vcpu, turn::HIST_WAIT)?,
                    read_waits: region.hist(vcpu, turn::HIST_READ_WAIT)?,
                    thread: vm.thread(vcpu),
                    steal: region.steal(vcpu)?.map(|(ns, _)| ns),
                    exits: vm.exits(vcpu),
                    kvm: vm.kvm_stats(vcpu),
                })
            })
            .collect::<Result<_, RegionError>>()?;
        Ok(Self { at, vcpus })
    }

    /// Makes a fixed number of acquisitions exact: the snapshot was taken a moment before or after
    /// each vCPU began to count.
    pub(super) fn start_where_vcpus_did(&mut self, vm: &dyn RunningVm) -> Result<(), RegionError> {
        for (vcpu, snapshot) in self.vcpus.iter_mut().enumerate() {
            let word = |field| vm.region().vcpu_word(vcpu, field);
            match word(offset_of!(VcpuArea, measured_from))? {
                0 => {} // It had not begun, or began with nothing.
                from => {
                    snapshot.counters[Counter::Acquisitions.index()] = from;
                    snapshot.counters[Counter::Reads.index()] =
                        word(offset_of!(VcpuArea, measured_reads_from))?;
                }
            }
        }
        Ok(())
    }
}

fn difference(
    later: &BTreeMap<String, u64>,
    earlier: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    later
        .iter()
        .map(|(name, &value)| {
            (
                name.clone(),
                value.saturating_sub(earlier.get(name).copied().unwrap_or(0)),
            )
        })
        .filter(|&(_, value)| value > 0)
        .collect()
}

/// The longest waits of a vCPU in the measurement, in ticks, with one that has not ended yet.
#[derive(Clone, Copy)]
pub(super) struct LongestWaits {
    /// Of acquisitions that were not for reading.
    write: u64,
    read: u64,
}

impl LongestWaits {
    pub(super) fn of(vm: &dyn RunningVm, vcpu: usize) -> Result<Self, RegionError> {
        let read = [
            offset_of!(VcpuArea, read_wait_max),
            offset_of!(VcpuArea, read_wait_since),
        ];
        Ok(Self {
            write: longest_wait(vm, vcpu)?,
            read: longest(vm, vcpu, read)?,
        })
    }
}

/// The longest wait of a vCPU for an acquisition that is not for reading (under torture, for any), in
/// ticks, with one that has not ended yet.
pub(crate) fn longest_wait(vm: &dyn RunningVm, vcpu: usize) -> Result<u64, RegionError> {
    let fields = [
        offset_of!(VcpuArea, wait_max),
        offset_of!(VcpuArea, wait_since),
    ];
    longest(vm, vcpu, fields)
}

fn longest(vm: &dyn RunningVm, vcpu: usize, [max, since]: [usize; 2]) -> Result<u64, RegionError> {
    let word = |field| vm.region().vcpu_word(vcpu, field);
    let done = word(max)?;
    let going_on = match word(since)? {
        0 => 0,
        since => vm.now().saturating_sub(since),
    };
    Ok(done.max(going_on))
}

fn waits(from: &[u64], to: &[u64], khz: u64, longest: u64) -> Waits {
    let buckets = (0u16..)
        .zip(to.iter().zip(from))
        .map(|(bucket, (to, from))| (bucket, to.saturating_sub(*from)))
        .filter(|&(_, n)| n > 0)
        .collect();
    Waits {
        buckets,
        khz,
        max_ns: ns(longest, khz),
    }
}

/// What vCPU `vcpu` did between two snapshots. `numbered` is its number through all VMs.
fn vcpu_record(
    scenario: &Scenario,
    khz: u64,
    (from, to): (&VcpuSnapshot, &VcpuSnapshot),
    longest: LongestWaits,
    numbered: usize,
) -> VcpuRecord {
    let counters = Counter::all()
        .map(|counter| {
            let i = counter.index();
            let n = to.counters[i].saturating_sub(from.counters[i]);
            (counter.name().to_owned(), n)
        })
        .filter(|&(_, n)| n > 0)
        .collect();
    let reads = scenario.workload.mix != Mix::Exclusive;
    VcpuRecord {
        cpu: scenario.cpu_of(numbered),
        counters,
        waits: waits(&from.waits, &to.waits, khz, longest.write),
        read_waits: reads.then(|| waits(&from.read_waits, &to.read_waits, khz, longest.read)),
        cpu_ns: whole_ns(to.thread.cpu.saturating_sub(from.thread.cpu)),
        voluntary_switches: to
            .thread
            .voluntary_switches
            .saturating_sub(from.thread.voluntary_switches),
        involuntary_switches: to
            .thread
            .involuntary_switches
            .saturating_sub(from.thread.involuntary_switches),
        steal_ns: to
            .steal
            .map(|steal| steal.saturating_sub(from.steal.unwrap_or(0))),
        exits: difference(&to.exits, &from.exits),
        kvm: difference(&to.kvm, &from.kvm),
        ..VcpuRecord::default()
    }
}

/// What a VM did between two snapshots; `vm` has stopped by now.
pub(super) fn vm_record(
    scenario: &Scenario,
    spec: VmSpec,
    vm: &dyn RunningVm,
    (from, to): (&VmSnapshot, &VmSnapshot),
    longest: &[LongestWaits],
    first: usize,
    calibration: Option<Costs>,
) -> Result<VmRecord, RegionError> {
    let khz = vm.khz();
    let count = vm.region().layout().vcpus();
    let vcpus = (from.vcpus.iter().zip(&to.vcpus))
        .enumerate()
        .map(|(vcpu, pair)| {
            Ok(VcpuRecord {
                critical_ns: achieved(vm, vcpu..vcpu + 1, CRITICAL)?,
                outside_ns: achieved(vm, vcpu..vcpu + 1, OUTSIDE)?,
                ..vcpu_record(scenario, khz, pair, longest[vcpu], first + vcpu)
            })
        })
        .collect::<Result<_, RegionError>>()?;
    Ok(VmRecord {
        lock: spec.lock.name(),
        exclusion: exclusion(vm)?,
        critical_ns: achieved(vm, 0..count, CRITICAL)?,
        outside_ns: achieved(vm, 0..count, OUTSIDE)?,
        probe_ns: (calibration.filter(|_| scenario.latency))
            .map(|costs| to_f64(costs.probe_ps) / 1024.0 / 1e3),
        most_used_lock: most_used_lock(vm.region())?,
        preempted_reported: vm.region().preempted_is_reported()?,
        vcpus,
        threads: Vec::new(),
    })
}

/// What each of the locks has counted.
pub(crate) fn entries(region: &Region) -> Result<Vec<u64>, RegionError> {
    let locks = 0..region.layout().locks();
    locks.map(|lock| Ok(region.lock(lock)?.2)).collect()
}

/// The share of the most used lock in what the locks have counted.
fn most_used_lock(region: &Region) -> Result<Option<f64>, RegionError> {
    let entries = entries(region)?;
    let (most, all) = (entries.iter().max().copied(), entries.iter().sum());
    Ok(most
        .filter(|_| entries.len() > 1 && all > 0)
        .map(|most| to_f64(most) / to_f64(all)))
}

/// The check of mutual exclusion. All vCPUs have stopped.
pub(super) fn exclusion(vm: &dyn RunningVm) -> Result<Exclusion, RegionError> {
    let region = vm.region();
    let (mut acquisitions, mut violations) = (0, 0);
    for vcpu in 0..region.layout().vcpus() {
        let counters = region.counters(vcpu)?;
        acquisitions += counters[Counter::Acquisitions.index()]
            .saturating_sub(counters[Counter::Reads.index()]);
        violations += counters[Counter::Violations.index()];
    }
    let checked = region.data()? != Data::None;
    let counted = entries(region)?.iter().sum();
    Ok(Exclusion {
        acquisitions,
        entries: checked.then_some(counted),
        violations: checked.then_some(violations),
    })
}

/// What is looked at now and then: where its mean is kept, and its histogram.
type Looked = (usize, usize);

const CRITICAL: Looked = (offset_of!(VcpuArea, section), turn::HIST_CRITICAL);
const OUTSIDE: Looked = (offset_of!(VcpuArea, outside), turn::HIST_OUTSIDE);

/// The mean over these vCPUs, in ns, of what was not interrupted; or the median of all, warm-up included, if
/// nearly everything was.
fn achieved(
    vm: &dyn RunningVm,
    vcpus: Range<usize>,
    (place, hist): Looked,
) -> Result<Option<f64>, RegionError> {
    let (mut count, mut ticks) = (0, 0);
    for vcpu in vcpus.clone() {
        let word = |field| vm.region().vcpu_word(vcpu, place + field);
        count += word(offset_of!(Sampled, count))?;
        ticks += word(offset_of!(Sampled, ticks))?;
    }
    if count > 0 {
        return Ok(Some(to_f64(ticks) / to_f64(count) * 1e6 / to_f64(vm.khz())));
    }
    median_ns(vm, vcpus, hist)
}

/// The median of a histogram over these vCPUs, in ns: the middle of the bucket it falls into.
fn median_ns(
    vm: &dyn RunningVm,
    vcpus: Range<usize>,
    hist: usize,
) -> Result<Option<f64>, RegionError> {
    let mut sums: Vec<u64> = Vec::new();
    for vcpu in vcpus {
        let counts = vm.region().hist(vcpu, hist)?;
        sums.resize(counts.len(), 0);
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    let total: u64 = sums.iter().sum();
    let mut seen = 0;
    Ok(sums
        .iter()
        .position(|n| {
            seen += n;
            total > 0 && 2 * seen >= total
        })
        .map(|bucket| {
            let values = bucket_values(bucket);
            let middle = (to_f64(*values.start()) + to_f64(*values.end())) / 2.0;
            middle * 1e6 / to_f64(vm.khz())
        }))
}

/// Ticks at `khz` in ns.
pub(crate) fn ns(ticks: u64, khz: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1_000_000 / u128::from(khz.max(1))).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ticks are weeks")]
pub(super) fn to_f64(n: u64) -> f64 {
    n as f64
}
