//! Facts about the host. What cannot be read is absent; nothing is guessed.

pub mod limits;

use crate::host::limits::Limits;
use rustix::io::Errno;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";

/// What the host is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
pub struct Host {
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Its architecture, as Rust names it.
    pub arch: String,
    /// Model of its CPUs, as /proc/cpuinfo has it.
    pub cpu_model: Option<String>,
    /// CPUs that are online.
    pub online_cpus: Option<Vec<usize>>,
    /// CPUs that this process may use.
    pub allowed_cpus: Vec<usize>,
    /// Whether simultaneous multithreading is active.
    pub smt: Option<bool>,
    /// Groups of online CPUs that share a core, each group once; single CPUs are groups too.
    pub thread_siblings: Option<Vec<Vec<usize>>>,
    /// Frequency governor of the first allowed CPU.
    pub governor: Option<String>,
    /// Whether the CPU says that it runs under a hypervisor.
    pub hypervisor: Option<bool>,
    /// What keeps this process from its CPUs.
    #[serde(default)]
    pub limits: Limits,
    /// Its KVM.
    pub kvm: Kvm,
}

/// What the host's KVM is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
pub struct Kvm {
    /// Whether /dev/kvm can be opened.
    pub device: Device,
    /// The vendor module (`kvm_intel`, `kvm_amd`, `kvm_pvm`), if one shows.
    pub vendor: Option<String>,
    /// Longest time that KVM polls before it blocks a halted vCPU, ns.
    pub halt_poll_ns: Option<u64>,
    /// Most vCPUs of a guest of ours, if /dev/kvm can be opened.
    #[serde(default)]
    pub max_vcpus: Option<usize>,
}

/// State of /dev/kvm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// It can be opened.
    #[cfg_attr(test, default)]
    Ok,
    /// There is none.
    Absent,
    /// It may not be opened by this user.
    NoPermission,
    /// It cannot be opened for another reason.
    Broken(String),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("/dev/kvm works"),
            Self::Absent => f.write_str("/dev/kvm is absent"),
            Self::NoPermission => f.write_str("no permission to open /dev/kvm"),
            Self::Broken(why) => write!(f, "/dev/kvm cannot be opened ({why})"),
        }
    }
}

impl Kvm {
    /// The vendor in the words of the field.
    pub fn vendor_name(&self) -> &str {
        match self.vendor.as_deref() {
            Some("kvm_intel") => "VMX",
            Some("kvm_amd") => "SVM",
            Some("kvm_pvm") => "PVM, page-table based",
            Some(other) => other,
            None => "vendor unknown",
        }
    }
}

impl Host {
    /// Reads the facts.
    pub fn examine() -> Self {
        let online = read(format!("{CPUS}/online")).and_then(|list| parse_cpu_list(&list));
        let allowed = allowed_cpus();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH.to_owned(),
            cpu_model: cpuinfo_field(&cpuinfo, "model name").map(str::to_owned),
            thread_siblings: online.as_deref().and_then(thread_siblings),
            online_cpus: online,
            smt: read(format!("{CPUS}/smt/active")).and_then(|text| match text.as_str() {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            }),
            governor: allowed
                .first()
                .and_then(|cpu| read(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor"))),
            hypervisor: cpuinfo_field(&cpuinfo, "flags")
                .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            allowed_cpus: allowed,
            limits: Limits::examine(),
            kvm: Kvm {
                device: device(),
                vendor: vendor().map(str::to_owned),
                halt_poll_ns: read("/sys/module/kvm/parameters/halt_poll_ns")
                    .and_then(|text| text.parse().ok()),
                max_vcpus: vmm::max_vcpus().ok(),
            },
        }
    }
}

/// The CPUs that this process may use, in ascending order; empty if the kernel does not tell.
pub fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cpus = 0..CpuSet::MAX_CPU;
    cpus.filter(|&cpu| set.is_set(cpu)).collect()
}

/// Parses the kernel's notation of CPU lists, such as `0-3,8`, or `0-15:2/4` for the first two of each four;
/// and that of taskset, `0-15:2` for every second one.
pub fn parse_cpu_list(list: &str) -> Option<Vec<usize>> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (range, stride) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            // Of one CPU there is nothing to leave out.
            None => (number(part)?, number(part)?),
        };
        let (used, group) = stride.split_once('/').unwrap_or(("1", stride));
        let (used, group) = (number(used)?, number(group)?);
        // A bound far above any kernel's NR_CPUS keeps a mistyped range from filling the memory.
        if first > last || last >= 1 << 16 || used == 0 || used > group {
            return None;
        }
        cpus.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
    }
    Some(cpus)
}

/// The kernel's notation of CPU lists, such as `0-3,8`; order and repetitions are kept.
pub fn format_cpu_list(cpus: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let part = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// KVM takes one vendor at a time, though several modules can be loaded while they are being exchanged; then
/// nothing tells which one is in charge.
fn vendor() -> Option<&'static str> {
    let there = |module: &&str| Path::new("/sys/module").join(module).is_dir();
    let mut loaded = ["kvm_intel", "kvm_amd", "kvm_pvm"]
        .into_iter()
        .filter(there);
    loaded.next().filter(|_| loaded.next().is_none())
}

fn device() -> Device {
    use rustix::fs::{Mode, OFlags};
    let open = || rustix::fs::open("/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    match rustix::io::retry_on_intr(open) {
        Ok(_) => Device::Ok,
        Err(Errno::NOENT) => Device::Absent,
        Err(Errno::ACCESS | Errno::PERM) => Device::NoPermission,
        Err(errno) => Device::Broken(std::io::Error::from(errno).to_string()),
    }
}

fn thread_siblings(online: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for cpu in online {
        let path = format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
        let group = parse_cpu_list(&read(path)?)?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Some(groups)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let field = fields.find(|(key, _)| key.trim() == name);
    field.map(|(_, value)| value.trim())
}

#[cfg(test)]
impl Host {
    /// An x86-64 host with a /dev/kvm, of which only its CPUs are known.
    pub(crate) fn fixture(online: usize, allowed_cpus: Vec<usize>) -> Self {
        Self {
            arch: "x86_64".into(),
            online_cpus: Some((0..online).collect()),
            allowed_cpus,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(parse_cpu_list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_cpu_list("5"), Some(vec![5]));
        assert_eq!(parse_cpu_list("0-7:2"), Some(vec![0, 2, 4, 6]));
        assert_eq!(parse_cpu_list("1-8:2/4, 9"), Some(vec![1, 2, 5, 6, 9]));
        assert_eq!(parse_cpu_list("3-3:5"), Some(vec![3]));
        let bad = "0-7:0 0-7: 0-7:3/2 0-7:0/2 3:2 0-7:2/ 0-7:/2 0-7:2:2 0, a 3-1 0- -1 0-99999999999 1,,2";
        for bad in bad.split(' ').chain([""]) {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
        assert_eq!(format_cpu_list(&[0, 1, 2, 8]), "0-2,8");
        assert_eq!(format_cpu_list(&[0, 0, 1, 1]), "0,0-1,1");
        assert_eq!(format_cpu_list(&[]), "");
    }

    #[test]
    fn fields_of_cpuinfo_are_found_by_their_whole_name() {
        let text = "model\t\t: 7\nmodel name\t: Some CPU: fast\nflags : fpu hypervisor\n";
        assert_eq!(cpuinfo_field(text, "model name"), Some("Some CPU: fast"));
        assert_eq!(cpuinfo_field(text, "flags"), Some("fpu hypervisor"));
        assert_eq!(cpuinfo_field(text, "name"), None);
    }

    #[test]
    fn the_host_of_the_tests_has_a_cpu_and_survives_json() {
        let host = Host::examine();
        assert!(!host.allowed_cpus.is_empty());
        let json = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
    }
}
