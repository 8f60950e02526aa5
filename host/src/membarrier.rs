//! A memory barrier on every CPU that executes a thread of this process (membarrier(2)): the heavy side of an
//! asymmetric fence. An interrupt makes it, so that it also reaches what a vCPU does in a guest: leaving guest
//! mode orders its accesses.

use crate::HostError;
use abi::Params;
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

/// Says that this process will ask for barriers, if the lock has waiters that do: before any of them. It makes
/// switches between processes a little dearer.
///
/// # Errors
/// If the kernel refuses.
pub fn prepare_for(params: &Params) -> Result<(), HostError> {
    if params.needs_barriers() {
        register()?;
    }
    Ok(())
}

fn register() -> Result<(), HostError> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited)
        .map_err(HostError::os("use membarrier(2)"))
}

/// Whether this kernel lets this process have such barriers.
pub fn is_offered() -> bool {
    membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
}

/// Such a barrier. Threads that are off their CPUs have passed one as they left.
///
/// # Errors
/// If the process is not registered.
pub fn barrier() -> Result<(), HostError> {
    membarrier(MembarrierCommand::PrivateExpedited)
        .map_err(HostError::os("make a memory barrier on all CPUs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_process_gets_its_barrier() {
        if is_offered() {
            register().unwrap();
            barrier().unwrap();
        } else {
            assert!(register().is_err());
        }
    }
}
