//! What the host may refuse to any machine.

use crate::limits::explain;
use crate::region::RegionError;
use std::io;

/// Why the host cannot do what a machine asks of it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A system call failed.
    #[error("cannot {what}: {}", explain(.source))]
    Os {
        /// What was attempted.
        what: &'static str,
        /// The error of the call.
        source: io::Error,
    },
    /// Memory could not be had, or an address is outside it.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A vCPU could not be placed.
    #[error("cannot place vCPU {vcpu} on host CPU {cpus:?}: {source}")]
    Affinity {
        /// The vCPU.
        vcpu: usize,
        /// Where it should run.
        cpus: Vec<usize>,
        /// The error of the call.
        source: io::Error,
    },
}

impl HostError {
    /// For `map_err` on a system call.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os {
            what,
            source: source.into(),
        }
    }
}
