//! Assertions about the use of sleeping locks: with the feature `debug-rwsems` they look, without they
//! are nothing.
//!
//! What they find is a panic: the platform's way to tell, on every platform, and it comes once. There is
//! no going on with a lock that was released by somebody who did not hold it.

use super::me;
use crate::Platform;
use crate::atomic::ConstZero;
#[cfg(feature = "debug-rwsems")]
use crate::atomic::{Atomic, Watch};
use core::marker::PhantomData;
#[cfg(feature = "debug-rwsems")]
use core::sync::atomic::Ordering::Relaxed;

/// Whether anything is looked at.
pub(super) const ON: bool = cfg!(feature = "debug-rwsems");

/// Tells a lock from memory that is none: once it has been used, the lock's own key. A lock that has
/// been moved or overwritten has another one.
#[repr(transparent)]
pub(super) struct Magic<P: Platform> {
    #[cfg(feature = "debug-rwsems")]
    key: P::U64,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> Default for Magic<P> {
    fn default() -> Self {
        Self {
            #[cfg(feature = "debug-rwsems")]
            key: P::U64::new(0),
            platform: PhantomData,
        }
    }
}

impl<P: Platform> Magic<P> {
    /// What is there, and what should be.
    #[cfg(feature = "debug-rwsems")]
    fn look<L>(&self, lock: &L) -> (u64, u64) {
        let own = P::lock_key(lock);
        let _ = self.key.compare_exchange(0, own, Relaxed, Relaxed);
        (self.key.load(Relaxed), own)
    }

    #[cfg(not(feature = "debug-rwsems"))]
    fn look<L>(&self, _lock: &L) -> (u64, u64) {
        (0, 0)
    }
}

#[cfg(feature = "debug-rwsems")]
impl<P: Platform> ConstZero for Magic<P>
where
    P::U64: ConstZero,
{
    const ZERO: Self = Self {
        key: P::U64::ZERO,
        platform: PhantomData,
    };
}

#[cfg(not(feature = "debug-rwsems"))]
impl<P: Platform> ConstZero for Magic<P> {
    const ZERO: Self = Self {
        platform: PhantomData,
    };
}

/// A reader-writer semaphore, to be looked at.
pub(super) struct Facts<'a, P: Platform, L> {
    pub(super) lock: &'a L,
    pub(super) magic: &'a Magic<P>,
    pub(super) count: u64,
    /// Its owner word, raw.
    pub(super) owner: u32,
    /// The name in the owner word of a writer that is the executing task.
    pub(super) shift: u32,
    pub(super) list_is_empty: bool,
}

impl<P: Platform, L> Facts<'_, P, L> {
    /// # Panics
    /// If `holds` is false, or the lock's magic is wrong, with all that is known.
    #[track_caller]
    pub(super) fn require(&self, holds: bool, what: &str) {
        let (magic, own) = self.magic.look(self.lock);
        if holds && magic == own {
            return;
        }
        let what = if magic == own {
            what
        } else {
            "magic == key of the lock"
        };
        let not = if self.list_is_empty { "" } else { "not " };
        panic!(
            "DEBUG_RWSEMS: does not hold: {what}: count = {:#x}, magic = {magic:#x}, \
             owner = {:#x}, current = {:#x}, list {not}empty",
            self.count,
            self.owner,
            me::<P>() << self.shift,
        );
    }
}

/// # Panics
/// If the mutex with that word is not the executing task's.
#[track_caller]
pub(super) fn mutex_unlock<P: Platform>(word: u32, owner: u32) {
    if ON && owner != me::<P>() {
        panic!(
            "unlock of a mutex by a task that does not own it: owner = {:#x}, current = {:#x}",
            word,
            me::<P>()
        );
    }
}
