//! Which machine to run on, why on that one, and how many runs at the same time.

use super::cpus::{CpuList, CpuUsage, Usable, cpu_list};
use super::error::{CliError, Ends, usage};
use super::guests::check_vcpus;
use super::numbers::{count, suggesting};
use crate::host::{Device, Host, allowed_cpus};
use crate::human::plural;
use crate::machine::Facts;
use crate::scenario::{MachineKind, SIM_PREFIX, Simulated, VmSpec};
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};

/// vCPUs for each CPU of the host, unless said otherwise.
const OVERCOMMIT: usize = 4;
/// CPUs of the host to use, unless said otherwise.
const CPUS: usize = 2;

/// Where to run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MachineArgs {
    /// Where vCPUs run: KVM guests, host threads, or a simulated machine ('pvlab machines' tells of them)
    /// [default: kvm where /dev/kvm works, else threads].
    #[arg(long, value_name = "MACHINE", value_parser = machine_parser())]
    pub(crate) machine: Option<MachineArg>,
    /// Change a parameter of the simulated machine, such as kick_ns=2us; repeat it to change several.
    #[arg(long, value_name = "PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// CPUs to use, such as 0-1, 0,2 or 0-15:2 (every second one) [default: the first two that may be used; of a simulated machine,
    /// all].
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(crate) cpus: Option<CpuList>,
}

/// How many runs may go on at the same time.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JobsArgs {
    /// Runs that go on at the same time, on a simulated machine [default: one for each CPU that may be
    /// used]. The figures are the same whatever it is.
    #[arg(long, value_name = "N", value_parser = |text: &str| count::<usize>(text, 1, 1024))]
    pub(crate) jobs: Option<usize>,
}

/// What is wrong with the machine that was asked for, or with what it was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MachineUsage {
    #[error("'{0}' is no machine; write kvm, threads or sim:NAME ('pvlab machines' lists them)")]
    NoMachine(String),
    #[error("{option} applies only to KVM guests, but the machine is {machine}; leave it out")]
    NotKvm {
        option: &'static str,
        machine: &'static str,
    },
    #[error(
        "{option} applies only to simulated machines, but the machine is {machine}; leave it out"
    )]
    NotSimulated {
        option: &'static str,
        machine: &'static str,
    },
    #[error("{0} applies only to real machines, but the machine is simulated; leave it out")]
    OnlyReal(&'static str),
    #[error(
        "{0} measures a real machine, but the machine is simulated; use --machine kvm or --machine threads"
    )]
    MeasuresReal(&'static str),
}

usage!(MachineUsage);

impl MachineUsage {
    /// Of an option that KVM guests alone have.
    pub(super) fn only_kvm(option: &'static str, machine: MachineKind) -> Self {
        let machine = machine.name();
        Self::NotKvm { option, machine }
    }

    /// Of an option that real machines do not have.
    pub(crate) fn not_simulated(option: &'static str, machine: MachineKind) -> Self {
        let machine = machine.name();
        Self::NotSimulated { option, machine }
    }
}

/// KVM was asked for and cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KvmError {
    #[error("--machine {machine}: {device}; {}, or use --machine threads", remedy(.device))]
    Device {
        machine: &'static str,
        device: Device,
    },
    #[error(
        "--machine {machine}: guests are x86-64 and this host is {arch}; use --machine threads"
    )]
    NotX86 { machine: &'static str, arch: String },
}

impl Ends for KvmError {}

fn remedy(device: &Device) -> &'static str {
    match device {
        Device::NoPermission => "join the group that owns it (often 'kvm')",
        _ => "load the KVM module of this CPU",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MachineArg {
    /// A machine that this host is.
    OfHost(MachineKind),
    /// A simulated one, by its preset.
    Simulated(String),
}

fn machine(text: &str) -> Result<MachineArg, MachineUsage> {
    if let Some(name) = text.strip_prefix(SIM_PREFIX) {
        return Ok(MachineArg::Simulated(name.to_owned()));
    }
    let found = MachineKind::of_the_host().find(|machine| machine.name() == text);
    let found = found.map(MachineArg::OfHost);
    found.ok_or_else(|| MachineUsage::NoMachine(text.to_owned()))
}

/// Parses a machine, and knows those that there are, for help and completions.
pub(crate) fn machine_parser() -> impl TypedValueParser<Value = MachineArg> {
    suggesting(machine, || {
        let real = MachineKind::of_the_host().map(|machine| machine.name().to_owned());
        let simulated = crate::machine::presets().map(|name| format!("{SIM_PREFIX}{name}"));
        real.chain(simulated).map(PossibleValue::new).collect()
    })
}

pub(super) struct Chosen {
    pub(super) machine: MachineKind,
    pub(super) machine_reason: String,
    pub(super) simulated: Option<Simulated>,
    pub(super) usable: Usable,
}

impl MachineArgs {
    /// Unless a machine was asked for, one of this host that is such.
    pub(crate) fn prefer(&mut self, is: fn(&Facts) -> bool) {
        let such = MachineKind::of_the_host().find(|kind| is(kind.facts()));
        self.machine = self.machine.take().or(such.map(MachineArg::OfHost));
    }

    /// The machine that was asked for, or else the best that there is.
    pub(super) fn choose(&self, host: &Host) -> Result<Chosen, CliError> {
        let no_guests = match host.kvm.device {
            _ if !is_x86(host) => Some(format!("guests are x86-64 and this host is {}", host.arch)),
            Device::Ok => None,
            _ => Some(host.kvm.device.to_string()),
        };
        let (machine, why_not_another) = match &self.machine {
            Some(MachineArg::Simulated(name)) => return choose_simulated(name, &self.set),
            Some(MachineArg::OfHost(machine)) => (*machine, None),
            None => {
                let can = |machine: &MachineKind| !machine.facts().kvm || no_guests.is_none();
                let machine = MachineKind::of_the_host().find(can);
                (machine.ok_or(CpuUsage::NoCpus)?, no_guests)
            }
        };
        let machine_reason = match machine.facts().kvm {
            true => host.kvm.vendor_name().to_owned(),
            false => why_not_another.unwrap_or_else(|| "as asked".to_owned()),
        };
        if !self.set.is_empty() {
            return Err(MachineUsage::not_simulated("--set", machine).into());
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
}

fn choose_simulated(name: &str, set: &[String]) -> Result<Chosen, CliError> {
    let simulated = Simulated {
        preset: name.to_owned(),
        set: set.to_vec(),
        rules: Vec::new(),
    };
    let spec = crate::machine::spec(&simulated)?;
    let (sockets, cores, threads) = spec.shape();
    let mut machine_reason = vec![
        "simulated".to_owned(),
        plural(sockets, "socket"),
        plural(cores, "core") + " each",
        plural(threads, "thread") + " each",
    ];
    machine_reason.extend_from_slice(set);
    Ok(Chosen {
        machine: Simulated::KIND,
        machine_reason: machine_reason.join(", "),
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
pub(crate) fn jobs(asked: JobsArgs, machine: MachineKind) -> Result<usize, MachineUsage> {
    match (machine.is_simulated(), asked.jobs) {
        (true, Some(jobs)) => Ok(jobs),
        (true, None) => Ok(allowed_cpus().len().max(1)),
        (false, None) => Ok(1),
        (false, Some(_)) => Err(MachineUsage::not_simulated("--jobs", machine)),
    }
}

fn is_x86(host: &Host) -> bool {
    host.arch == "x86_64"
}

pub(super) fn check_kvm(machine: MachineKind, host: &Host, vms: &[VmSpec]) -> Result<(), CliError> {
    let machine = machine.name();
    if !is_x86(host) {
        let arch = host.arch.clone();
        return Err(KvmError::NotX86 { machine, arch }.into());
    }
    let device = host.kvm.device.clone();
    if device != Device::Ok {
        return Err(KvmError::Device { machine, device }.into());
    }
    let most = host.kvm.max_vcpus.unwrap_or(usize::MAX);
    Ok(check_vcpus(vms, most, "as this KVM gives a VM no more")?)
}
