//! What a scenario may be, whatever it was made from: options, a schedule file, a report to be run again.
//!
//! Options are looked at one by one before, and told of by their own names. Here the whole is looked at, by
//! the names that its fields have in JSON (`docs/json.md`). Nothing runs that has not been.

use super::{
    Bench, BenchKind, CplChoice, Data, Length, Mix, Scenario, Simulated, SpinThreshold, Torture,
    whole_ns,
};
use crate::machine::lock_bytes;
use abi::{Dispatch, LOCK_BYTES_BESIDE_DATA, MAX_TASKS};
use guest::workload::nested::MAX_CONTEXTS;
use guest::workload::torture::MOST_NESTED;
use sim::Rule;
use std::fmt::Display;
use std::time::Duration;

/// vCPUs of all VMs together: a trace can number as many.
pub(crate) const MOST_VCPUS: usize = 1 << 16;
/// VMs, each of which takes a region, and on KVM a descriptor and eventfds.
pub(crate) const MOST_VMS: usize = 4096;
pub(crate) const MOST_LOCKS: usize = 1 << 16;
pub(crate) const MOST_SKEW: f64 = 10.0;
/// Threads that compete with the vCPUs.
pub(crate) const MOST_NOISE: usize = 1024;
pub(crate) const MOST_NODES: u32 = 1024;
/// Acquisitions by each vCPU.
pub(crate) const MOST_ITERATIONS: u64 = 1_000_000_000_000;
/// Turns of the busy-wait loop in a critical section: about 0.1 s where a turn takes longest.
pub(crate) const MOST_PAUSES: u64 = 1_000_000;
/// Rules of a schedule, through which the machine looks at each moment.
pub(crate) const MOST_RULES: usize = 10_000;
/// Number that a host CPU can have.
pub(crate) const MOST_CPU: usize = u16::MAX as usize;
/// A piece of work, a hold, a warm-up: longer ones have no use, and their sums still fit.
pub(crate) const LONGEST_PIECE: Duration = Duration::from_secs(3600);
/// A run on a simulated machine, whose clock counts picoseconds in 64 bits.
pub(crate) const LONGEST_SIMULATED: Duration = Duration::from_secs(100 * 24 * 3600);
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(366 * 24 * 3600);

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: {limit}")]
pub struct ScenarioError {
    /// The field, as in JSON: `workload.contexts`.
    pub field: String,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub limit: String,
}

const READ_SHARE: &str = "workload.mix.read_share";
const READERS: &str = "workload.mix.readers";

type Checked = Result<(), ScenarioError>;

fn fault(field: impl Into<String>, value: impl Display, limit: impl Into<String>) -> ScenarioError {
    ScenarioError {
        field: field.into(),
        value: value.to_string(),
        limit: limit.into(),
    }
}

/// A number from `least` to `most`.
fn within<T: PartialOrd + Display>(field: &str, value: T, least: T, most: T) -> Checked {
    if least <= value && value <= most {
        return Ok(());
    }
    // NaN is not within either.
    Err(fault(field, value, format!("it may be {least} to {most}")))
}

fn no_longer(field: &str, time: Duration, most: Duration) -> Checked {
    within(field, whole_ns(time), 0, whole_ns(most))
}

impl Scenario {
    /// Whether it can be run as far as the scenario itself tells.
    ///
    /// # Errors
    /// The first field that it may not have, and why.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_machine()?;
        self.check_vms()?;
        self.check_rules()?;
        self.check_cpus()?;
        self.check_times()?;
        within("noise", self.noise, 0, MOST_NOISE)?;
        match self.spin_threshold {
            SpinThreshold::Turns(turns) => within("spin_threshold", turns, 1, u32::MAX)?,
            SpinThreshold::Time(time) => {
                within("spin_threshold", whole_ns(time), 1, 1_000_000_000)?
            }
            SpinThreshold::Own | SpinThreshold::Auto => {}
        }
        let nodes = u32::try_from(self.fewest_vcpus()).unwrap_or(u32::MAX);
        let nodes = nodes.min(MOST_NODES);
        within("numa_nodes", self.numa_nodes, 1, nodes)?;
        if let Some(preempt) = self.preempt {
            within("preempt.ns", preempt.ns, 1, u32::MAX)?;
            within("preempt.share", preempt.share, 0.0, 1.0)?;
        }
        let ruled = |simulated: &Simulated| !simulated.rules.is_empty();
        let demanded = self.preempt.is_some() || self.simulated.as_ref().is_some_and(ruled);
        if demanded && (self.torture.is_some() || self.bench.is_some()) {
            let limit = "torture and microbenchmarks have no preemption on demand";
            return Err(fault("preempt or simulated.rules", "there", limit));
        }
        match (self.torture, self.bench) {
            (Some(torture), None) => self.check_torture(torture),
            (None, Some(bench)) => self.check_bench(bench),
            (None, None) => self.check_workload(),
            (Some(_), Some(_)) => Err(fault("bench", "there", "a lock under torture has none")),
        }
    }

    /// Of a VM.
    fn fewest_vcpus(&self) -> usize {
        self.vms.iter().map(|vm| vm.vcpus).min().unwrap_or(0)
    }

    fn check_machine(&self) -> Checked {
        let (found, limit) = match self.simulated {
            Some(_) => ("there", "only the machine 'sim' has that"),
            None => ("missing", "the machine is 'sim'"),
        };
        if self.machine.is_simulated() != self.simulated.is_some() {
            return Err(fault("simulated", found, limit));
        }
        if !self.machine.facts().kvm && self.cpl != CplChoice::Auto {
            return Err(fault("cpl", "given", "the machine has no KVM guests"));
        }
        if !self.machine.facts().kvm && !self.seccomp {
            return Err(fault("seccomp", "off", "the machine has no KVM guests"));
        }
        Ok(())
    }

    fn check_rules(&self) -> Checked {
        let Some(simulated) = &self.simulated else {
            return Ok(());
        };
        let most = self.vms.iter().map(|vm| vm.vcpus).max().unwrap_or(0);
        let last = u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX);
        let rules = simulated.rules.len();
        within("the number of simulated.rules", rules, 0, MOST_RULES)?;
        for (i, rule) in simulated.rules.iter().enumerate() {
            let (kind, number) = match rule {
                Rule::DescheduleHolder { .. } => ("deschedule_holder", "section"),
                Rule::DelayWake { .. } => ("delay_wake", "wake"),
            };
            let field = |name: &str| format!("simulated.rules.{i}.{kind}.{name}");
            within(&field("vcpu"), rule.vcpu(), 0, last)?;
            within(&field(number), rule.number(), 1, u64::MAX)?;
            within(&field("ns"), rule.ns(), 1, whole_ns(LONGEST_PIECE))?;
        }
        Ok(())
    }

    fn check_vms(&self) -> Checked {
        let most = self.machine.facts().most_vcpus;
        within("the number of vms", self.vms.len(), 1, MOST_VMS)?;
        for (i, vm) in self.vms.iter().enumerate() {
            (vm.lock.check_peer(self.machine.facts().peers))
                .map_err(|why| fault(format!("vms.{i}.lock"), vm.lock, why.to_string()))?;
            within(&format!("vms.{i}.vcpus"), vm.vcpus, 1, most)?;
            if vm.lock.dispatch == Dispatch::Patched && !self.machine.facts().kvm {
                let limit = "calls are patched in the image of a KVM guest";
                return Err(fault(format!("vms.{i}.lock"), vm.lock, limit));
            }
        }
        within("the number of all vcpus", self.vcpus(), 1, MOST_VCPUS)
    }

    fn check_cpus(&self) -> Checked {
        if self.cpus.is_empty() {
            return Err(fault("cpus", "empty", "there must be one to run on"));
        }
        for (i, &cpu) in self.cpus.iter().enumerate() {
            within(&format!("cpus.{i}"), cpu, 0, MOST_CPU)?;
        }
        let mut sorted = self.cpus.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let limit = "a CPU is named once, and as often as wanted in a placement";
            return Err(fault("cpus", format!("{} twice", twice[0]), limit));
        }
        let super::Placement::Map(map) = &self.placement else {
            return Ok(());
        };
        if map.len() != self.vcpus() {
            let limit = format!("it has one for each of {} vCPUs", self.vcpus());
            return Err(fault("placement.map", format!("{} CPUs", map.len()), limit));
        }
        match map.iter().find(|cpu| sorted.binary_search(cpu).is_err()) {
            Some(cpu) => Err(fault("placement.map", cpu, "it is not among the cpus")),
            None => Ok(()),
        }
    }

    fn check_times(&self) -> Checked {
        match self.length {
            Length::Duration(time) => {
                let longest = whole_ns(LONGEST_RUN);
                within("length.duration_ns", whole_ns(time), 1, longest)?;
            }
            Length::Iterations(n) => within("length.iterations", n, 1, MOST_ITERATIONS)?,
        }
        no_longer("warm_up_ns", self.warm_up, LONGEST_PIECE)?;
        let (critical, outside) = (self.workload.critical, self.workload.outside);
        no_longer("workload.critical_ns", critical.duration(), LONGEST_PIECE)?;
        no_longer("workload.outside_ns", outside.duration(), LONGEST_PIECE)?;
        no_longer("watchdog_ns", self.watchdog, LONGEST_RUN)?;
        let turn = self.workload.turn();
        if self.watchdog <= turn {
            let limit = "it must be longer than one turn of critical section and outside work";
            return Err(fault("watchdog_ns", whole_ns(self.watchdog), limit));
        }
        if !self.machine.is_simulated() {
            return Ok(());
        }
        // Everybody waits for everybody, each time.
        let of_each = whole_ns(turn).saturating_mul(self.length.iterations());
        let turns = of_each.saturating_mul(self.vcpus() as u64);
        let longest = whole_ns(LONGEST_SIMULATED);
        match self.length {
            Length::Duration(time) => within("length.duration_ns", whole_ns(time), 1, longest),
            Length::Iterations(n) if turns > longest => {
                let limit = "so many turns of that length are more time than can be simulated";
                Err(fault("length.iterations", n, limit))
            }
            Length::Iterations(_) => Ok(()),
        }
    }

    fn check_workload(&self) -> Checked {
        let workload = &self.workload;
        within("workload.locks", workload.locks, 1, MOST_LOCKS)?;
        within("workload.skew", workload.skew, 0.0, MOST_SKEW)?;
        within("workload.contexts", workload.contexts, 1, MAX_CONTEXTS)?;
        if workload.contexts > 1 {
            let own = workload.contexts as usize;
            within("workload.locks", workload.locks, own, own)?;
            if let Some(vm) = self.vms.iter().find(|vm| vm.lock.traits().sleeps) {
                let limit = format!("'{}' puts waiters to sleep in interrupts", vm.lock);
                return Err(fault("workload.contexts", workload.contexts, limit));
            }
        }
        if workload.data == Data::SameLine {
            let most = LOCK_BYTES_BESIDE_DATA;
            if let Some(vm) = (self.vms.iter()).find(|vm| lock_bytes(vm.lock.kind) > most) {
                let limit = format!("'{}' has more than {most} bytes", vm.lock);
                return Err(fault("workload.data", "same-line", limit));
            }
        }
        self.check_mix(self.fewest_vcpus())?;
        let (field, value) = match workload.mix {
            Mix::Exclusive => return Ok(()),
            Mix::ReadShare(share) => (READ_SHARE, share.to_string()),
            Mix::Readers(readers) => (READERS, readers.to_string()),
        };
        match self.vms.iter().find(|vm| !vm.lock.can_be_read()) {
            Some(vm) => Err(fault(field, value, format!("'{}' cannot be read", vm.lock))),
            None => Ok(()),
        }
    }

    fn check_mix(&self, most_readers: usize) -> Checked {
        match self.workload.mix {
            Mix::Exclusive => Ok(()),
            Mix::ReadShare(share) => within(READ_SHARE, share, 0.0, 1.0),
            Mix::Readers(readers) => within(READERS, readers, 0, most_readers),
        }
    }

    fn check_torture(&self, torture: Torture) -> Checked {
        for (name, time, most) in [
            ("long_hold_ns", torture.long_hold, LONGEST_PIECE),
            ("acquire_limit_ns", torture.acquire_limit, LONGEST_RUN),
            ("stutter_ns", torture.stutter, LONGEST_RUN),
            ("shuffle_interval_ns", torture.shuffle_interval, LONGEST_RUN),
        ] {
            no_longer(&format!("torture.{name}"), time, most)?;
        }
        let nested = torture.nested_locks;
        within("torture.nested_locks", nested, 0, MOST_NESTED)?;
        let locks = 1 + nested;
        within("workload.locks", self.workload.locks, locks, locks)?;
        if self.watchdog <= torture.long_hold {
            let limit = "it must be longer than a long hold";
            return Err(fault("watchdog_ns", whole_ns(self.watchdog), limit));
        }
        self.check_mix(self.fewest_vcpus())
    }

    fn check_bench(&self, bench: Bench) -> Checked {
        let tasks = self.machine.facts().tasks;
        let most = self.fewest_vcpus() * if tasks { MAX_TASKS } else { 1 };
        within("bench.threads", bench.threads, 1, most)?;
        if bench.workload == BenchKind::Pipe && !bench.threads.is_multiple_of(2) {
            return Err(fault("bench.threads", bench.threads, "pipes take pairs"));
        }
        self.check_mix(bench.threads)?;
        within("bench.pauses", bench.pauses, 0, MOST_PAUSES)?;
        for vm in &self.vms {
            let locks = bench.workload.locks(vm.vcpus, bench.threads);
            within("workload.locks", self.workload.locks, locks, locks)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
