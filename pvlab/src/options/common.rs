//! What every command asks for that runs guests, and the scenario that comes of it.

use super::cpus::{CpuUsage, map, placement};
use super::effect;
use super::error::CliError;
use super::guests::{Guests, check_vcpus};
use super::lock::LockUsage;
use super::machine::{Chosen, MachineArgs, MachineUsage, check_kvm};
use super::numbers::{count, named, whole};
use super::offer::OfferArgs;
use super::preempt::preempt;
use super::times::{TimeUsage, check_time, duration, nonzero_duration};
use super::work::WorkArgs;
use crate::host::Host;
use crate::record::Context;
use crate::scenario::limits::MOST_NOISE;
use crate::scenario::{
    CplChoice, Length, Lock, Placement, Preempt, Scenario, SpinThreshold, VmSpec,
};
use clap::Args;
use std::time::Duration;

/// Options of every command that runs guests.
#[derive(Clone, Debug, Args)]
pub(crate) struct BaseArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// How long a waiter of a paravirtual lock spins before it halts: turns of its loop, a time such as 20us,
    /// or auto, as long as a halt takes here that a kick ends [default: auto for pv-next, else 32768 turns].
    #[arg(long, value_name = "TURNS|TIME|auto", value_parser = str::parse::<SpinThreshold>)]
    pub(super) spin_threshold: Option<SpinThreshold>,
    /// Privilege level of the guest: 0, 3, or 0 where the host runs it natively [default: auto].
    #[arg(long, value_parser = named(&[("auto", CplChoice::Auto), ("0", CplChoice::Cpl0), ("3", CplChoice::Cpl3)]))]
    cpl: Option<CplChoice>,
    /// Do not confine the threads of KVM guests to the system calls that they need.
    #[arg(long)]
    no_seccomp: bool,
    /// Seed of every random choice.
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole)]
    seed: u64,
    /// Never tell locks that a vCPU is preempted (vcpu_is_preempted), even where that is known: shows what
    /// it is worth.
    #[arg(long)]
    no_vcpu_is_preempted: bool,
    /// Fault injection: drop kicks, so that halted waiters sleep for ever.
    #[arg(long, hide = true)]
    drop_kicks: bool,
    #[command(flatten)]
    offer: OfferArgs,
}

/// Options of every command whose guests work as the user likes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) base: BaseArgs,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Least time before the measurement starts, with unit.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration)]
    warm_up: Duration,
    /// How vCPUs are placed: pinned (round-robin), floating, or one CPU for each vCPU, such as
    /// 0,0,1,1.
    #[arg(long, value_name = "HOW", default_value = "pinned", value_parser = placement)]
    pub(crate) placement: Placement,
    /// Busy host threads that compete with the vCPUs for the CPUs.
    #[arg(long, value_name = "N", default_value = "0", value_parser = noise)]
    noise: usize,
    /// Do not time acquisitions: no waiting times, and no cost of timing them.
    #[arg(long)]
    no_latency: bool,
    /// A guest without any acquisition for this long (with unit) is reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = nonzero_duration)]
    watchdog: Duration,
    /// Preemption on demand: hold the lock's holder, or the next waiter, off its CPU for that long in
    /// that share of acquisitions, such as holder:5ms@1% or next-waiter:5ms@1%.
    #[arg(long, value_name = "WHOM:TIME@SHARE", value_parser = preempt)]
    preempt: Option<Preempt>,
}

pub(crate) fn noise(text: &str) -> Result<usize, super::numbers::NumberUsage> {
    count(text, 0, MOST_NOISE as u64)
}

/// A scenario, and why its machine was chosen.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) scenario: Scenario,
    pub(crate) context: Context,
    /// The locks of [`Guests::Alternatives`], or of the VMs.
    pub(crate) locks: Vec<Lock>,
}

impl Common {
    /// Makes a scenario of the options, or says why it cannot be run on this host.
    pub(crate) fn request(
        &self,
        guests: Guests,
        length: Length,
        host: &Host,
    ) -> Result<Request, CliError> {
        let work = |scenario: &mut Scenario, locks: &[Lock]| {
            scenario.workload = self.work.workload(&scenario.vms, locks)?;
            scenario.numa_nodes = self.work.numa_nodes;
            scenario.warm_up = self.warm_up;
            scenario.noise = self.noise;
            scenario.latency = !self.no_latency;
            scenario.watchdog = self.watchdog;
            scenario.preempt = self.preempt;
            Ok(())
        };
        (self.base).request(guests, length, &self.placement, host, work)
    }
}

impl BaseArgs {
    /// The same for a command that says by itself what the guests do: `work` puts it into the scenario, which
    /// has nothing to do before, and is given all locks that the command runs.
    pub(crate) fn request(
        &self,
        guests: Guests,
        length: Length,
        placement: &Placement,
        host: &Host,
        work: impl FnOnce(&mut Scenario, &[Lock]) -> Result<(), CliError>,
    ) -> Result<Request, CliError> {
        let Chosen {
            machine,
            machine_reason,
            simulated,
            usable,
        } = self.machine.choose(host)?;
        let cpus = usable.choose(self.machine.cpus.as_ref(), placement)?;
        let listed = map(placement).map(<[_]>::len);
        let number = |vcpus: Option<usize>| vcpus.or(listed).unwrap_or(usable.vcpus * cpus.len());
        // Each lock with its vCPUs, and those of them that are VMs of the scenario.
        let (asked, present) = match guests {
            Guests::Given(vms) => (
                vms.iter().map(|vm| (vm.lock, vm.vcpus)).collect(),
                0..vms.len(),
            ),
            Guests::Alternatives {
                locks,
                first,
                vcpus,
            } => {
                let asked = locks.into_iter().map(|lock| (lock, number(vcpus)));
                (asked.collect::<Vec<_>>(), first..first + 1)
            }
        };
        let locks = self.offer.resolve(&asked, machine)?;
        let vm = |i: usize| VmSpec {
            lock: locks[i],
            vcpus: asked[i].1,
        };
        let vms: Vec<_> = present.map(vm).collect();
        let facts = machine.facts();
        check_vcpus(&vms, facts.most_vcpus, facts.why_no_more)?;
        let bare = Scenario::bare(machine, vms, cpus, length);
        let mut scenario = Scenario {
            simulated,
            placement: placement.clone(),
            spin_threshold: self.spin_threshold.unwrap_or(bare.spin_threshold),
            cpl: self.cpl.unwrap_or(bare.cpl),
            seccomp: !self.no_seccomp,
            seed: self.seed,
            offered: self.offer.offered(),
            vcpu_is_preempted: !self.no_vcpu_is_preempted,
            drop_kicks: self.drop_kicks,
            ..bare
        };
        let vcpus = scenario.vcpus();
        if let Some(listed) = listed.filter(|listed| *listed != vcpus) {
            return Err(CpuUsage::PlacementLength { listed, vcpus }.into());
        }
        work(&mut scenario, &locks)?;
        let (watchdog, turn) = (scenario.watchdog, scenario.workload.turn());
        if watchdog <= turn {
            return Err(TimeUsage::ImpatientWatchdog { watchdog, turn }.into());
        }
        if !facts.kvm && self.cpl.is_some() {
            return Err(MachineUsage::only_kvm("--cpl", machine).into());
        }
        if !facts.kvm && self.no_seccomp {
            return Err(MachineUsage::only_kvm("--no-seccomp", machine).into());
        }
        if let Length::Duration(duration) = length {
            check_time("--duration", duration, machine)?;
        }
        effect::check(self, &scenario, &locks)?;
        check_time("--warm-up", scenario.warm_up, machine)?;
        if let Some(&lock) = locks.iter().find(|lock| lock.traits().barriers)
            && !machine.is_simulated()
            && !::host::membarrier::is_offered()
        {
            return Err(LockUsage::NoBarriers(lock).into());
        }
        // Last, so that a wrong command line is called wrong on every host alike.
        if facts.kvm {
            check_kvm(machine, host, &scenario.vms)?;
        }
        Ok(Request {
            context: Context::new(host.clone(), machine_reason, &scenario),
            scenario,
            locks,
        })
    }
}
