//! From options to a scenario that can be run on this host, or a reason why it cannot.

use super::args::{Common, GuestArgs, JobsArgs, MachineArgs};
use super::effect;
use super::error::{CliError, KvmError, Usage};
use super::mix;
use super::values::{LockArg, MachineArg, PlacementArg, VmArg};
use crate::host::{Device, Host, allowed_cpus, format_cpu_list};
use crate::human::plural;
use crate::scenario::{Cpl, Length, Lock, MachineKind, Placement, Scenario, Simulated, VmSpec};
use std::time::Duration;

/// Turns that a waiter spins before it halts, unless said otherwise: as in Linux.
const SPIN_THRESHOLD: u32 = 32768;
/// vCPUs for each CPU of the host, unless said otherwise.
const OVERCOMMIT: usize = 4;
/// CPUs of the host to use, unless said otherwise.
const CPUS: usize = 2;
/// Which guests are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Guests {
    /// These.
    Given(Vec<VmArg>),
    /// A single one, with four vCPUs for each CPU unless a number was given.
    One {
        /// Its lock.
        lock: LockArg,
        /// Its vCPUs.
        vcpus: Option<usize>,
    },
    /// As [`Self::One`], with one after another of several locks.
    Alternatives {
        /// The locks.
        locks: Vec<LockArg>,
        /// Place of the one that is in the scenario.
        first: usize,
        /// vCPUs.
        vcpus: Option<usize>,
    },
}

impl Guests {
    /// From the options.
    pub(crate) fn of(args: &GuestArgs) -> Result<Self, Usage> {
        match args.lock {
            Some(lock) => Ok(Self::One {
                lock,
                vcpus: args.vcpus,
            }),
            None if args.vm.is_empty() => Err(Usage::NoVm),
            None => Ok(Self::Given(args.vm.clone())),
        }
    }
}

/// A scenario, and why its machine was chosen.
#[derive(Debug)]
pub(crate) struct Request {
    /// What to run.
    pub(crate) scenario: Scenario,
    /// Why on that machine.
    pub(crate) machine_reason: String,
    /// The locks of [`Guests::Alternatives`], or of the VMs.
    pub(crate) locks: Vec<Lock>,
}

/// How long to measure.
pub(crate) fn length(duration: Duration, iterations: Option<u64>) -> Length {
    iterations.map_or(Length::Duration(duration), Length::Iterations)
}

/// Makes a scenario of the options.
pub(crate) fn request(
    common: &Common,
    guests: Guests,
    length: Length,
    host: &Host,
) -> Result<Request, CliError> {
    let Chosen {
        machine,
        machine_reason,
        simulated,
        usable,
    } = choose(&common.machine, host)?;
    let cpus = cpus(common, &usable)?;
    let map_length = match &common.placement {
        PlacementArg::Map(map) => Some(map.len()),
        PlacementArg::Pinned | PlacementArg::Floating => None,
    };
    let number = |vcpus: Option<usize>| vcpus.or(map_length).unwrap_or(usable.vcpus * cpus.len());
    // Each lock with its vCPUs, and those of them that are VMs of the scenario.
    let (asked, present) = match guests {
        Guests::Given(vms) => {
            let all = 0..vms.len();
            (vms.iter().map(|vm| (vm.lock, vm.vcpus)).collect(), all)
        }
        Guests::One { lock, vcpus } => (vec![(lock, number(vcpus))], 0..1),
        Guests::Alternatives {
            locks,
            first,
            vcpus,
        } => {
            let asked = locks.into_iter().map(|lock| (lock, number(vcpus)));
            (asked.collect::<Vec<_>>(), first..first + 1)
        }
    };
    let locks = common.offer.resolve(&asked, machine)?;
    let vms: Vec<_> = present
        .map(|i| VmSpec {
            lock: locks[i],
            vcpus: asked[i].1,
        })
        .collect();
    check_sizes(machine, &vms, map_length)?;
    let workload = mix::workload(common, &vms)?;
    let turn = common.critical.duration() + common.outside.mean.duration();
    if common.watchdog <= turn {
        return Err(Usage::ImpatientWatchdog {
            watchdog: common.watchdog,
            turn,
        }
        .into());
    }
    if !machine.facts().kvm && common.cpl.is_some() {
        let machine = machine.name();
        return Err(Usage::CplWithoutKvm { machine }.into());
    }
    if let Length::Duration(duration) = length {
        effect::check_time("--duration", duration, machine)?;
    }
    let request = Request {
        scenario: Scenario {
            machine,
            simulated,
            vms,
            cpus,
            placement: match &common.placement {
                PlacementArg::Pinned => Placement::Pinned,
                PlacementArg::Floating => Placement::Floating,
                PlacementArg::Map(map) => Placement::Map(map.clone()),
            },
            workload,
            length,
            warm_up: common.warm_up,
            spin_threshold: common.spin_threshold.unwrap_or(SPIN_THRESHOLD),
            noise: common.noise,
            cpl: common.cpl.unwrap_or(Cpl::Auto),
            latency: !common.no_latency,
            seed: common.seed,
            watchdog: common.watchdog,
            offered: common.offer.offered(),
            numa_nodes: common.mix.numa_nodes,
            preempt: common.preempt,
            torture: None,
            bench: None,
            vcpu_is_preempted: !common.no_vcpu_is_preempted,
            drop_kicks: common.drop_kicks,
        },
        machine_reason,
        locks,
    };
    effect::check(common, &request.scenario, &request.locks)?;
    // Last, so that a wrong command line is called wrong on every host alike.
    if machine.facts().kvm {
        check_kvm(machine, host, &request.scenario.vms)?;
    }
    Ok(request)
}

/// A machine, and why it was chosen.
struct Chosen {
    machine: MachineKind,
    machine_reason: String,
    simulated: Option<Simulated>,
    usable: Usable,
}

/// The CPUs of a machine.
struct Usable {
    /// Those that are online; `None`: the kernel did not tell.
    online: Option<Vec<usize>>,
    /// Those of them that may be used; none: the kernel did not tell.
    allowed: Vec<usize>,
    /// How many of them to use unless said otherwise, and how many vCPUs for each.
    cpus: usize,
    vcpus: usize,
}

fn choose(asked: &MachineArgs, host: &Host) -> Result<Chosen, Usage> {
    let no_guests = match host.kvm.device {
        _ if !is_x86(host) => Some(format!("guests are x86-64 and this host is {}", host.arch)),
        Device::Ok => None,
        _ => Some(host.kvm.device.to_string()),
    };
    let (machine, why_not_another) = match &asked.machine {
        Some(MachineArg::Simulated(name)) => return choose_simulated(name, &asked.set),
        Some(MachineArg::OfHost(machine)) => (*machine, None),
        None => {
            let can = |machine: &MachineKind| !machine.facts().kvm || no_guests.is_none();
            let machine = MachineKind::of_the_host().find(can);
            (machine.ok_or(Usage::NoCpus)?, no_guests)
        }
    };
    let machine_reason = if machine.facts().kvm {
        host.kvm.vendor_name().to_owned()
    } else {
        why_not_another.unwrap_or_else(|| "as asked".to_owned())
    };
    if !asked.set.is_empty() {
        return Err(Usage::NotSimulated {
            option: "--set",
            machine: machine.name(),
        });
    }
    Ok(Chosen {
        machine,
        machine_reason,
        simulated: None,
        usable: Usable {
            online: host.online_cpus.clone(),
            allowed: host.allowed_cpus.clone(),
            cpus: CPUS,
            vcpus: OVERCOMMIT,
        },
    })
}

fn choose_simulated(name: &str, set: &[String]) -> Result<Chosen, Usage> {
    let simulated = Simulated {
        preset: name.to_owned(),
        set: set.to_vec(),
        rules: Vec::new(),
    };
    let spec = crate::machine::spec(&simulated)?;
    let (sockets, cores, threads) = spec.shape();
    let mut machine_reason = format!(
        "simulated, {}, {} each, {} each",
        plural(sockets, "socket"),
        plural(cores, "core"),
        plural(threads, "thread")
    );
    for assignment in set {
        machine_reason += &format!(", {assignment}");
    }
    Ok(Chosen {
        machine: Simulated::KIND,
        machine_reason,
        simulated: Some(simulated),
        usable: Usable {
            online: Some((0..spec.cpus()).collect()),
            allowed: (0..spec.cpus()).collect(),
            cpus: spec.cpus(),
            vcpus: 1,
        },
    })
}

/// How many runs may go on at the same time: on a real machine they would disturb each other.
pub(crate) fn jobs(asked: JobsArgs, machine: MachineKind) -> Result<usize, Usage> {
    match (machine.is_simulated(), asked.jobs) {
        (true, Some(jobs)) => Ok(jobs),
        (true, None) => Ok(allowed_cpus().len().max(1)),
        (false, None) => Ok(1),
        (false, Some(_)) => Err(Usage::NotSimulated {
            option: "--jobs",
            machine: machine.name(),
        }),
    }
}

fn is_x86(host: &Host) -> bool {
    host.arch == "x86_64"
}

fn check_kvm(machine: MachineKind, host: &Host, vms: &[VmSpec]) -> Result<(), CliError> {
    if !is_x86(host) {
        return Err(KvmError::NotX86 {
            machine: machine.name(),
            arch: host.arch.clone(),
        }
        .into());
    }
    if host.kvm.device != Device::Ok {
        return Err(KvmError::Device {
            machine: machine.name(),
            device: host.kvm.device.clone(),
        }
        .into());
    }
    match host.kvm.max_vcpus {
        Some(most) => check_vcpus(vms, most, "as this KVM gives a VM no more").map_err(Into::into),
        None => Ok(()),
    }
}

/// The CPUs to use: those given, those that the placement names, or the first that may be used.
fn cpus(common: &Common, usable: &Usable) -> Result<Vec<usize>, Usage> {
    let map = match &common.placement {
        PlacementArg::Map(map) => map.as_slice(),
        PlacementArg::Pinned | PlacementArg::Floating => &[],
    };
    let Some(given) = &common.machine.cpus else {
        check_usable("placement", map, usable)?;
        let mut cpus = map.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            cpus.extend(usable.allowed.iter().take(usable.cpus));
        }
        return if cpus.is_empty() {
            Err(Usage::NoCpus)
        } else {
            Ok(cpus)
        };
    };
    let cpus = &given.0;
    check_usable("cpus", cpus, usable)?;
    if let Some((_, &cpu)) = cpus
        .iter()
        .enumerate()
        .find(|(i, cpu)| cpus[..*i].contains(cpu))
    {
        return Err(Usage::CpuTwice { cpu });
    }
    if let Some(&cpu) = map.iter().find(|cpu| !cpus.contains(cpu)) {
        return Err(Usage::PlacementOutside {
            cpu,
            cpus: format_cpu_list(cpus),
        });
    }
    Ok(cpus.clone())
}

fn check_usable(option: &'static str, cpus: &[usize], usable: &Usable) -> Result<(), Usage> {
    for &cpu in cpus {
        match &usable.online {
            Some(online) if !online.contains(&cpu) => {
                let online = format_cpu_list(online);
                return Err(Usage::NoSuchCpu {
                    option,
                    cpu,
                    online,
                });
            }
            // An empty list means that the kernel did not tell.
            _ if !usable.allowed.is_empty() && !usable.allowed.contains(&cpu) => {
                let allowed = format_cpu_list(&usable.allowed);
                return Err(Usage::CpuNotAllowed {
                    option,
                    cpu,
                    allowed,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_sizes(
    machine: MachineKind,
    vms: &[VmSpec],
    map_length: Option<usize>,
) -> Result<(), Usage> {
    let facts = machine.facts();
    check_vcpus(vms, facts.most_vcpus, facts.why_no_more)?;
    let vcpus = vms.iter().map(|vm| vm.vcpus).sum();
    match map_length {
        Some(listed) if listed != vcpus => Err(Usage::PlacementLength { listed, vcpus }),
        _ => Ok(()),
    }
}

fn check_vcpus(vms: &[VmSpec], most: usize, why: &'static str) -> Result<(), Usage> {
    match vms.iter().find(|vm| vm.vcpus > most) {
        Some(vm) => Err(Usage::TooManyVcpus {
            vcpus: vm.vcpus,
            most,
            why,
        }),
        None => Ok(()),
    }
}
