//! A lock and what it guards.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Bytes reserved for a lock of any kind.
pub const LOCK_BYTES: usize = 64;

/// A lock of some kind, and, on a line of its own, what it guards.
///
/// The guarded words are read and written by separate plain accesses (Relaxed atomics, so that a
/// broken lock is a wrong number and not undefined behaviour): if two vCPUs are ever inside
/// together, an owner is overwritten or an increment is lost.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct LockSlot {
    lock: [AtomicU64; LOCK_BYTES / 8],
    /// vCPU inside plus 1, or 0.
    pub owner: AtomicU32,
    /// Entries, counted without atomicity.
    pub count: AtomicU64,
}

impl LockSlot {
    /// Where the lock itself is placed.
    pub fn lock_bytes(&self) -> *const [AtomicU64; LOCK_BYTES / 8] {
        &raw const self.lock
    }

    /// To be called with the lock just taken by `me` (vCPU + 1).
    ///
    /// The owner is written without being read first: whoever is inside already will notice on
    /// leaving. A read would fetch the line a second time before it can be written, and make every
    /// critical section longer by a transfer that no real one need have.
    #[inline(always)]
    pub fn enter(&self, me: u32) {
        self.owner.store(me, Relaxed);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// To be called by `me` just before it releases the lock. False if somebody else has entered or
    /// left since `me` entered.
    #[inline(always)]
    pub fn leave(&self, me: u32) -> bool {
        let found = self.owner.load(Relaxed);
        self.owner.store(0, Relaxed);
        found == me
    }

    /// To be called with the lock just taken for reading: the entries counted, or `None` if a writer
    /// is inside. Readers write nothing here: they would disturb each other.
    #[inline(always)]
    pub fn read_enter(&self) -> Option<u64> {
        let entries = self.count.load(Relaxed);
        (self.owner.load(Relaxed) == 0).then_some(entries)
    }

    /// To be called just before the lock is released that was taken for reading, with what
    /// [`Self::read_enter`] returned. False if a writer was inside then, is now, or has been meanwhile.
    #[inline(always)]
    pub fn read_leave(&self, entered: Option<u64>) -> bool {
        entered.is_some() && self.read_enter() == entered
    }
}
