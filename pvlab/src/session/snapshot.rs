//! The state of all vCPUs at one moment. A measurement is the difference of two.

use super::counted::{Counted, Kinds};
use super::vms::{Watched, seconds};
use crate::machine::RunningVm;
use crate::record::{ExclusionCheck, VcpuRecord, VmRecord};
use crate::scenario::{Scenario, whole_ns};
use abi::hist::bucket_values;
use abi::{Costs, Counter, Data, Sampled, VcpuArea, VcpuState};
use host::Region;
use host::region::RegionError;
use host::thread::ThreadStats;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::{Range, RangeInclusive};

pub(super) struct VmSnapshot {
    /// On the VM's clock.
    pub(super) at: u64,
    vcpus: Vec<VcpuSnapshot>,
}

struct VcpuSnapshot {
    counted: Counted,
    thread: ThreadStats,
    steal: Option<u64>,
    exits: Named,
    kvm: Option<Named>,
}

impl VmSnapshot {
    pub(super) fn take(vm: &dyn RunningVm, kinds: Kinds) -> Result<Self, RegionError> {
        let region = vm.region();
        let count = region.layout().vcpus();
        // What rates are made of, as nearly at one time as can be; the rest may take longer.
        let at = vm.now();
        let counted = (0..count).map(|vcpu| Counted::now(vm, vcpu, at, kinds));
        let counted = counted.collect::<Result<Vec<_>, _>>()?;
        let mut vcpus = Vec::new();
        for (vcpu, counted) in counted.into_iter().enumerate() {
            vcpus.push(VcpuSnapshot {
                counted,
                thread: vm.thread(vcpu),
                steal: region.steal(vcpu)?.map(|(ns, _)| ns),
                exits: vm.exits(vcpu),
                kvm: vm.kvm_stats(vcpu),
            });
        }
        Ok(Self { at, vcpus })
    }

    pub(super) fn counted(&self) -> impl Iterator<Item = &Counted> {
        self.vcpus.iter().map(|vcpu| &vcpu.counted)
    }

    /// Makes a fixed number of acquisitions exact: this snapshot was taken a moment before or after each
    /// vCPU began to count, which is where it says (`begun`, looked up before `to` was taken).
    pub(super) fn start_where_vcpus_did(&mut self, begun: Marks, to: &Self) {
        let starts = begun.iter().flatten().map(|begun| begun.at);
        self.at = starts.min().unwrap_or(self.at);
        for ((vcpu, begun), to) in self.vcpus.iter_mut().zip(begun).zip(&to.vcpus) {
            // One that has not begun has done nothing.
            vcpu.counted = begun.unwrap_or_else(|| to.counted.clone());
        }
    }
}

/// What each vCPU had counted at a mark of its own, if it has set that.
pub(super) type Marks = Vec<Option<Counted>>;

/// The marks of all vCPUs at the offset `mark` in their areas.
pub(super) fn marks(vm: &dyn RunningVm, mark: usize) -> Result<Marks, RegionError> {
    let vcpus = 0..vm.region().layout().vcpus();
    vcpus.map(|vcpu| Counted::at(vm, vcpu, mark)).collect()
}

type Named = BTreeMap<String, u64>;

fn difference(later: &Named, earlier: &Named) -> Named {
    let gained = later.iter().map(|(name, value)| {
        let before = earlier.get(name).copied().unwrap_or(0);
        (name.clone(), value.saturating_sub(before))
    });
    gained.filter(|&(_, value)| value > 0).collect()
}

/// The longest wait of a vCPU under torture, in ticks, with one that has not ended yet.
pub(crate) fn longest_wait(vm: &dyn RunningVm, vcpu: usize) -> Result<u64, RegionError> {
    let word = |field| vm.region().vcpu_word(vcpu, field);
    let done = word(offset_of!(VcpuArea, wait_max))?;
    let going_on = match word(offset_of!(VcpuArea, wait_since))? {
        0 => 0,
        since => vm.now().saturating_sub(since),
    };
    Ok(done.max(going_on))
}

/// What vCPU `vcpu` did between two snapshots. `numbered` is its number through all VMs.
fn vcpu_record(
    scenario: &Scenario,
    khz: u64,
    (from, to): (&VcpuSnapshot, &VcpuSnapshot),
    numbered: usize,
) -> VcpuRecord {
    let between =
        |figure: fn(&VcpuSnapshot) -> Option<u64>| Some(figure(to)?.saturating_sub(figure(from)?));
    let kinds = Kinds::of(scenario);
    let kvm = to.kvm.as_ref().zip(from.kvm.as_ref());
    VcpuRecord {
        cpu: scenario.cpu_of(numbered),
        whole: from.counted.figures_until(&to.counted, kinds, khz),
        cpu_ns: between(|s| s.thread.cpu.map(whole_ns)),
        voluntary_switches: between(|s| s.thread.voluntary_switches),
        involuntary_switches: between(|s| s.thread.involuntary_switches),
        steal_ns: (to.steal).map(|steal| steal.saturating_sub(from.steal.unwrap_or(0))),
        exits: difference(&to.exits, &from.exits),
        kvm: kvm.map(|(to, from)| difference(to, from)),
        ..VcpuRecord::default()
    }
}

/// What VM `number` did between two snapshots; it has stopped by now.
pub(super) fn vm_record(
    scenario: &Scenario,
    number: usize,
    watched: &Watched,
    (from, to): (&VmSnapshot, &VmSnapshot),
    calibration: Option<Costs>,
) -> Result<VmRecord, RegionError> {
    let vm = &*watched.machine;
    let khz = vm.khz();
    let count = vm.region().layout().vcpus();
    let mut vcpus = (from.vcpus.iter().zip(&to.vcpus))
        .enumerate()
        .map(|(vcpu, pair)| {
            Ok(VcpuRecord {
                critical_ns: achieved(vm, vcpu..vcpu + 1, CRITICAL)?,
                outside_ns: achieved(vm, vcpu..vcpu + 1, OUTSIDE)?,
                ..vcpu_record(scenario, khz, pair, watched.first + vcpu)
            })
        })
        .collect::<Result<Vec<_>, RegionError>>()?;
    let first_done_s = match scenario.length.iterations() {
        0 => None,
        _ if scenario.bench.is_some() => None,
        _ => until_the_first_was_done(scenario, vm, (from, to), &mut vcpus)?,
    };
    Ok(VmRecord {
        lock: scenario.vms[number].lock.name(),
        exclusion: exclusion(scenario, vm)?,
        critical_ns: achieved(vm, 0..count, CRITICAL)?,
        outside_ns: achieved(vm, 0..count, OUTSIDE)?,
        probe_ns: (calibration.filter(|_| scenario.latency))
            .map(|costs| costs.probe_ps as f64 / 1024.0 / 1e3),
        most_used_lock: most_used_lock(vm.region())?,
        preempted_reported: vm.region().preempted_is_reported()?,
        clock_khz: khz,
        first_done_s,
        spinning: None,
        vcpus,
        threads: Vec::new(),
    })
}

/// Adds to the records of the vCPUs what they did until the first of them had made its fixed number of
/// acquisitions; returns when that was, s, if it was.
fn until_the_first_was_done(
    scenario: &Scenario,
    vm: &dyn RunningVm,
    (from, to): (&VmSnapshot, &VmSnapshot),
    vcpus: &mut [VcpuRecord],
) -> Result<Option<f64>, RegionError> {
    let seconds = |at: u64| seconds(at.saturating_sub(from.at), vm);
    let mut first = u64::MAX;
    for (number, vcpu) in vcpus.iter_mut().enumerate() {
        let field = offset_of!(VcpuArea, finished);
        let finished = vm.region().vcpu_word(number, field)?;
        // The run may have been interrupted, and this done while it was stopped.
        if finished > 0 && finished <= to.at {
            first = first.min(finished);
            vcpu.finished_s = Some(seconds(finished));
        }
    }
    if first == u64::MAX {
        return Ok(None);
    }
    let marks = marks(vm, offset_of!(VcpuArea, first_done))?;
    let pairs = from.vcpus.iter().zip(&to.vcpus);
    for ((vcpu, mark), (from, to)) in vcpus.iter_mut().zip(marks).zip(pairs) {
        // One that had not noticed was in the same turn as when the first was done.
        let mark = mark.filter(|mark| mark.at <= to.counted.at);
        let until = mark.as_ref().unwrap_or(&to.counted);
        let kinds = Kinds::of(scenario);
        vcpu.all_at_work = Some(from.counted.figures_until(until, kinds, vm.khz()));
    }
    Ok(Some(seconds(first)))
}

/// What each of the locks has counted.
pub(crate) fn entries(region: &Region) -> Result<Vec<u64>, RegionError> {
    let locks = 0..region.layout().locks();
    locks.map(|lock| Ok(region.lock(lock)?.2)).collect()
}

/// The share of the most used lock in what the locks have counted.
fn most_used_lock(region: &Region) -> Result<Option<f64>, RegionError> {
    let entries = entries(region)?;
    let (most, all) = (entries.iter().max(), entries.iter().sum::<u64>());
    let most = most.filter(|_| entries.len() > 1 && all > 0);
    Ok(most.map(|&most| most as f64 / all as f64))
}

/// The check of mutual exclusion. All vCPUs have stopped.
pub(super) fn exclusion(
    scenario: &Scenario,
    vm: &dyn RunningVm,
) -> Result<ExclusionCheck, RegionError> {
    let region = vm.region();
    // A vCPU has a turn under way in each of its contexts, or for each of its tasks.
    let contexts = u64::from(scenario.workload.contexts);
    let turns = contexts.max(region.layout().tasks_per_vcpu() as u64);
    let (mut acquisitions, mut violations, mut ended_early) = (0, 0, 0);
    for vcpu in 0..region.layout().vcpus() {
        ended_early += u64::from(region.state(vcpu)? != VcpuState::Done);
        let counters = region.counters(vcpu)?;
        let of = |counter: Counter| counters[counter.index()];
        acquisitions += of(Counter::Acquisitions).saturating_sub(of(Counter::Reads));
        violations += of(Counter::Violations);
    }
    let checked = region.data()? != Data::None;
    let counted = entries(region)?.iter().sum();
    Ok(ExclusionCheck {
        acquisitions,
        entries: checked.then_some(counted),
        violations: checked.then_some(violations),
        cut_off: ended_early * turns,
    })
}

/// What is looked at now and then: where its mean is kept, and its histogram.
type Looked = (usize, usize);

const CRITICAL: Looked = (offset_of!(VcpuArea, section), abi::HIST_CRITICAL);
const OUTSIDE: Looked = (offset_of!(VcpuArea, outside), abi::HIST_OUTSIDE);

/// The mean over these vCPUs, in ns, of what was not interrupted; or the median of all, warm-up included, if
/// nearly everything was.
fn achieved(
    vm: &dyn RunningVm,
    vcpus: Range<usize>,
    (place, hist): Looked,
) -> Result<Option<f64>, RegionError> {
    let (mut count, mut ticks) = (0u64, 0u64);
    for vcpu in vcpus.clone() {
        let word = |field| vm.region().vcpu_word(vcpu, place + field);
        // A guest may have written anything there.
        count = count.saturating_add(word(offset_of!(Sampled, count))?);
        ticks = ticks.saturating_add(word(offset_of!(Sampled, ticks))?);
    }
    if count > 0 {
        return Ok(Some(ticks as f64 / count as f64 * 1e6 / vm.khz() as f64));
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
    Ok(percentile(&sums, 50).map(|values| {
        let middle = (*values.start() as f64 + *values.end() as f64) / 2.0;
        middle * 1e6 / vm.khz() as f64
    }))
}

/// What stands in the bucket of a histogram that a percentile falls into, if anything does.
pub(super) fn percentile(buckets: &[u64], percent: u64) -> Option<RangeInclusive<u64>> {
    let total: u64 = buckets.iter().sum();
    let mut seen = 0;
    let bucket = buckets.iter().position(|n| {
        seen += n;
        total > 0 && u128::from(seen) * 100 >= u128::from(total) * u128::from(percent)
    });
    bucket.map(bucket_values)
}

/// Ticks at `khz` in ns.
pub(crate) fn ns(ticks: u64, khz: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1_000_000 / u128::from(khz.max(1))).unwrap_or(u64::MAX)
}
