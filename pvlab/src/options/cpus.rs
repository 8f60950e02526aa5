//! Which CPUs to use, and how vCPUs are placed on them.

use super::error::usage;
use crate::host::{format_cpu_list, parse_cpu_list};
use crate::scenario::Placement;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CpuUsage {
    #[error(
        "'{0}' is no list of CPUs; write for example 0-1, 0,2,4-7, or 0-15:2 for every second one"
    )]
    NoCpuList(String),
    #[error(
        "'{0}' is no placement; write pinned, floating, or one CPU for each vCPU such as 0,0,1,1"
    )]
    NoPlacement(String),
    #[error("cannot tell which CPUs this process may use; name them with --cpus")]
    NoCpus,
    #[error("--{option}: CPU {cpu} does not exist or is offline; online are {online}")]
    NoSuchCpu {
        option: &'static str,
        cpu: usize,
        online: String,
    },
    #[error("--{option}: this process may not run on CPU {cpu}; it may use {allowed}")]
    NotAllowed {
        option: &'static str,
        cpu: usize,
        allowed: String,
    },
    #[error("--cpus: CPU {0} is named twice; to load a CPU more, list it in --placement")]
    Twice(usize),
    #[error("--placement: CPU {cpu} is not among --cpus {cpus}; name it there or leave --cpus out")]
    PlacementOutside { cpu: usize, cpus: String },
    #[error("--placement lists {listed} CPUs for {vcpus} vCPUs; list one for each vCPU")]
    PlacementLength { listed: usize, vcpus: usize },
}

usage!(CpuUsage);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

pub(crate) fn cpu_list(text: &str) -> Result<CpuList, CpuUsage> {
    let list = parse_cpu_list(text).map(CpuList);
    list.ok_or_else(|| CpuUsage::NoCpuList(text.to_owned()))
}

pub(crate) fn placement(text: &str) -> Result<Placement, CpuUsage> {
    match text.trim() {
        "pinned" => Ok(Placement::Pinned),
        "floating" => Ok(Placement::Floating),
        list => {
            let map = parse_cpu_list(list).map(Placement::Map);
            map.ok_or_else(|| CpuUsage::NoPlacement(text.to_owned()))
        }
    }
}

pub(super) struct Usable {
    /// Those that are online; `None`: the kernel did not tell.
    pub(super) online: Option<Vec<usize>>,
    /// Those of them that may be used; none: the kernel did not tell.
    pub(super) allowed: Vec<usize>,
    /// How many of them to use unless said otherwise, and how many vCPUs for each.
    pub(super) cpus: usize,
    pub(super) vcpus: usize,
}

impl Usable {
    /// The CPUs to use: those given, those that the placement names, or the first that may be used.
    pub(super) fn choose(
        &self,
        given: Option<&CpuList>,
        placement: &Placement,
    ) -> Result<Vec<usize>, CpuUsage> {
        let map = map(placement).unwrap_or(&[]);
        let Some(CpuList(cpus)) = given else {
            self.check("placement", map)?;
            let mut cpus = map.to_vec();
            cpus.sort_unstable();
            cpus.dedup();
            if cpus.is_empty() {
                cpus.extend(self.allowed.iter().take(self.cpus));
            }
            let known = Some(cpus).filter(|cpus| !cpus.is_empty());
            return known.ok_or(CpuUsage::NoCpus);
        };
        self.check("cpus", cpus)?;
        let mut numbered = cpus.iter().enumerate();
        if let Some((_, &cpu)) = numbered.find(|(i, cpu)| cpus[..*i].contains(cpu)) {
            return Err(CpuUsage::Twice(cpu));
        }
        if let Some(&cpu) = map.iter().find(|cpu| !cpus.contains(cpu)) {
            let cpus = format_cpu_list(cpus);
            return Err(CpuUsage::PlacementOutside { cpu, cpus });
        }
        Ok(cpus.clone())
    }

    fn check(&self, option: &'static str, cpus: &[usize]) -> Result<(), CpuUsage> {
        for &cpu in cpus {
            if let Some(online) = &self.online
                && !online.contains(&cpu)
            {
                let online = format_cpu_list(online);
                return Err(CpuUsage::NoSuchCpu {
                    option,
                    cpu,
                    online,
                });
            }
            if !self.allowed.is_empty() && !self.allowed.contains(&cpu) {
                let allowed = format_cpu_list(&self.allowed);
                return Err(CpuUsage::NotAllowed {
                    option,
                    cpu,
                    allowed,
                });
            }
        }
        Ok(())
    }
}

/// The CPU of each vCPU, where each has its own.
pub(super) fn map(placement: &Placement) -> Option<&[usize]> {
    match placement {
        Placement::Map(map) => Some(map),
        Placement::Pinned | Placement::Floating => None,
    }
}
