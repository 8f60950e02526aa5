//! What the host does with a vCPU, noted for a trace.

use crate::clock;
use abi::HostStep;
use std::sync::{Mutex, MutexGuard};

/// One thing the host did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostNote {
    /// When, on the host's TSC.
    pub ticks: u64,
    /// What.
    pub step: HostStep,
}

/// The notes of one vCPU. Off, noting costs next to nothing.
///
/// A lock is enough: the vCPU's thread notes only when it is out of the guest, and the reader comes by
/// some twenty times a second.
#[derive(Debug, Default)]
pub struct Notes {
    on: bool,
    noted: Mutex<Vec<HostNote>>,
}

impl Notes {
    /// Notes that take place only if `on`.
    pub fn new(on: bool) -> Self {
        Self {
            on,
            noted: Mutex::default(),
        }
    }

    /// Notes `step`, now.
    #[inline]
    pub fn note(&self, step: HostStep) {
        if self.on {
            let ticks = clock::now();
            self.noted().push(HostNote { ticks, step });
        }
    }

    /// Takes away what has been noted.
    pub fn take(&self) -> Vec<HostNote> {
        std::mem::take(&mut self.noted())
    }

    fn noted(&self) -> MutexGuard<'_, Vec<HostNote>> {
        self.noted.lock().unwrap_or_else(|e| e.into_inner())
    }
}
