//! How the workload reaches the lock's code.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use pvlock::Operations;

/// How the workload reaches the lock's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u64)]
pub enum Dispatch {
    /// Compiled in, and inlined where the compiler likes.
    #[default]
    Direct = 0,
    /// Through a table of function pointers.
    Pointer = 1,
    /// By calls whose targets are written into the image before it runs.
    Patched = 2,
}

impl Dispatch {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Pointer, Self::Patched];

    /// The way's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Pointer => "pointer",
            Self::Patched => "patched",
        }
    }

    /// The way of that number.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|way| *way as u64 == raw)
    }
}

/// A vCPU's table of the operations of its lock. All zeros until `guest::dispatch::visit` has filled it.
#[derive(Debug)]
#[repr(C)]
pub struct CallTable {
    /// `init`.
    pub init: AtomicPtr<()>,
    /// `lock`.
    pub lock: AtomicPtr<()>,
    /// `try_lock`.
    pub try_lock: AtomicPtr<()>,
    /// `unlock`.
    pub unlock: AtomicPtr<()>,
    /// `is_locked`.
    pub is_locked: AtomicPtr<()>,
}

impl CallTable {
    /// Puts the operations there.
    pub fn fill(&self, of: Operations) {
        self.init.store(of.init as *mut (), Relaxed);
        self.lock.store(of.lock as *mut (), Relaxed);
        self.try_lock.store(of.try_lock as *mut (), Relaxed);
        self.unlock.store(of.unlock as *mut (), Relaxed);
        self.is_locked.store(of.is_locked as *mut (), Relaxed);
    }
}
