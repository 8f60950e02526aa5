//! What a critical section does to the data that its lock guards, and what that says of exclusion.

use crate::Machine;
use abi::{Data, Guarded, LockSlot};

/// A critical section under way.
#[derive(Clone, Copy)]
pub(super) struct Inside<'a> {
    guarded: Option<Guarded<'a>>,
    read: bool,
    /// What was found, if it is for reading.
    entered: Option<u64>,
}

impl<'a> Inside<'a> {
    /// To be called with the lock in `slot` just taken by `me` (vCPU, or task, and 1), for reading if `read`.
    #[inline(always)]
    pub(super) fn enter<M: Machine>(slot: &'a LockSlot, data: Data, me: u32, read: bool) -> Self {
        let guarded = slot.guarded(data);
        let entered = guarded.and_then(|guarded| {
            M::touches(guarded.first(), !read);
            if read {
                guarded.read_enter()
            } else {
                guarded.enter(me);
                None
            }
        });
        Self {
            guarded,
            read,
            entered,
        }
    }

    /// To be called just before the release. False if somebody else was inside who should not have been.
    #[inline(always)]
    pub(super) fn leave(self, me: u32) -> bool {
        match self.guarded {
            None => true,
            Some(guarded) if self.read => guarded.read_leave(self.entered),
            Some(guarded) => guarded.leave(me),
        }
    }
}
