//! The list of machines, and what the rest of the laboratory may ask of each. Nobody else asks for a
//! machine by its name.

use super::{MachineError, Plan, Started, kvm, simulated, threads};
use serde::{Deserialize, Serialize};

/// Where vCPUs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineKind {
    /// vCPUs of KVM guests.
    Kvm,
    /// Host threads.
    Threads,
    /// vCPUs of a simulated machine.
    #[serde(rename = "sim")]
    Simulated,
}

/// What a machine can do, and needs.
#[derive(Debug)]
pub struct Facts {
    /// The name, as users write it; of simulated machines, what it begins with.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its time is virtual: nothing on the host disturbs it, the same run has the same outcome, and several
    /// may go on side by side.
    pub simulated: bool,
    /// Its vCPUs are of KVM guests, which have a privilege level and an image in which calls can be patched.
    pub kvm: bool,
    /// A vCPU can have several tasks; else it is one itself.
    pub tasks: bool,
    /// Locks that need an operating system run there.
    pub peers: bool,
    /// A vCPU can be ended while it waits for a lock, whatever it does there.
    pub ends_waiters: bool,
    /// vCPUs of a VM, at most,
    pub most_vcpus: usize,
    /// and why there can be no more.
    pub why_no_more: &'static str,
    /// What to say of figures that it yields, if they are not of KVM guests.
    pub caution: Option<Caution>,
    pub(super) start: fn(&Plan<'_>) -> Result<Vec<Started>, MachineError>,
}

/// What to say of a machine's figures.
#[derive(Debug)]
pub struct Caution {
    /// For programs; documented in docs/json.md.
    pub code: &'static str,
    /// For people.
    pub text: &'static str,
    /// The same of the threads of a microbenchmark.
    pub of_threads: &'static str,
}

/// vCPUs that the word of a queued lock can name.
pub const MOST_WORD_VCPUS: usize = pvlock::MAX_CPUS as usize;
/// Why there can be no more of them.
pub(super) const WORD_IS_FULL: &str = "as the lock word can name no more";

impl MachineKind {
    /// Every machine: those of the host first, as they are preferred where nobody says which.
    pub const ALL: [Self; 3] = [Self::Kvm, Self::Threads, Self::Simulated];

    /// What it can do, and needs.
    pub const fn facts(self) -> &'static Facts {
        match self {
            Self::Kvm => &kvm::FACTS,
            Self::Threads => &threads::FACTS,
            Self::Simulated => &simulated::FACTS,
        }
    }

    /// The name, as users write it; of simulated machines, what it begins with.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether its time is virtual.
    pub const fn is_simulated(self) -> bool {
        self.facts().simulated
    }

    /// Those that the host is.
    pub fn of_the_host() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| !kind.is_simulated())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_name_machines_as_users_do() {
        for kind in MachineKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
