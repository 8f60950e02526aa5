//! What a new lock must provide: [`RawLock`], or [`RawRwLock`] if it also lets readers share.

use crate::Platform;

/// A mutual-exclusion lock that guards nothing by itself.
///
/// Implement [`Traced`](crate::traced::Traced) for one type, add a line to [`crate::registry`], and the
/// lock runs on every machine, in every comparison.
///
/// The methods are safe to call in any order: a wrong `unlock` breaks mutual exclusion, which
/// matters to whoever builds a guard on top (see the `lock_api` implementations), not to this trait.
pub trait RawLock: Send + Sync + Sized + 'static {
    /// An unlocked lock.
    fn new() -> Self;

    /// Acquires the lock, waiting as long as it takes.
    fn lock(&self);

    /// Acquires the lock if that needs no waiting.
    fn try_lock(&self) -> bool;

    /// Releases the lock, which this CPU holds.
    fn unlock(&self);

    /// Whether somebody holds or waits for the lock; out of date as soon as it is known.
    fn is_locked(&self) -> bool;
}

/// A [`RawLock`] that a lock which guards data can be built upon: the wait lock of the queued reader-writer
/// locks and of the sleeping ones, whose lists it guards.
///
/// # Safety
/// As long as each `unlock` follows a `lock`, or a `try_lock` that succeeded, on the same CPU:
/// * at most one of those who have called `lock`, or succeeded in `try_lock`, has not yet called `unlock`;
/// * what was done before an `unlock` happens before what is done after the next `lock` or successful
///   `try_lock` returns;
/// * a lock that nobody holds or waits for may be moved.
///
/// The negative controls ([`crate::busted`]) are [`RawLock`]s and not this:
///
#[cfg_attr(feature = "lock_api", doc = "```compile_fail,E0277")]
#[cfg_attr(not(feature = "lock_api"), doc = "```ignore")]
/// # mod platform { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/threads/platform.rs")); }
/// # use platform::Threads;
/// use pvlock::{RawQRwLock, busted::RawBusted};
/// lock_api::RwLock::<RawQRwLock<Threads, RawBusted<Threads>>, u32>::new(0);
/// ```
#[allow(unsafe_code)] // That it excludes is for the implementer to promise.
pub unsafe trait WaitLock: RawLock {}

macro_rules! wait_locks {
    ($($(#[$doc:meta])+ $kind:ident = $id:literal, $name:literal, $side:ident $promise:ident $lock:ty { $($about:tt)* })+) => {
        $(wait_locks!(@ $side $promise $lock);)+
    };
    (@ spin guards $lock:ty) => {
        #[allow(unsafe_code)] // As said above.
        // SAFETY: they exclude on any machine that is a Platform (tests/stepper.rs, tests/loom.rs).
        unsafe impl<P: Platform> WaitLock for $lock {}
    };
    (@ $side:ident $promise:ident $lock:ty) => {};
}

crate::each_lock!(wait_locks);

/// A reader-writer lock that guards nothing by itself: many readers, or one writer.
///
/// As with [`RawLock`], any order of calls is safe as far as the trait is concerned. As a
/// [`RawLock`] such a lock is its write side: see [`WriteSide`].
pub trait RawRwLock: Send + Sync + Sized + 'static {
    /// An unlocked lock.
    fn new() -> Self;

    /// Acquires the lock for reading, waiting as long as it takes.
    fn read(&self);

    /// Acquires the lock for reading if that needs no waiting.
    fn try_read(&self) -> bool;

    /// Releases the lock, which this CPU holds for reading.
    fn read_unlock(&self);

    /// Acquires the lock for writing, waiting as long as it takes.
    fn write(&self);

    /// Acquires the lock for writing if that needs no waiting.
    fn try_write(&self) -> bool;

    /// Releases the lock, which this CPU holds for writing.
    fn write_unlock(&self);

    /// Whether somebody holds or waits for the lock; out of date as soon as it is known.
    fn is_locked(&self) -> bool;
}

/// A reader-writer lock whose writer can become a reader without letting go of it.
pub trait Downgrade: RawRwLock {
    /// Makes this CPU, which holds the lock for writing, one that holds it for reading. No writer gets
    /// in between.
    fn downgrade(&self);
}

/// A reader-writer lock that a task can stop waiting for when it is [killed](crate::Platform::killed).
pub trait KillableRw: RawRwLock {
    /// As [`read`](RawRwLock::read); false if the task was killed before it had the lock.
    fn read_killable(&self) -> bool;

    /// As [`write`](RawRwLock::write); false if the task was killed before it had the lock.
    fn write_killable(&self) -> bool;
}

/// The write side of a reader-writer lock: mutual exclusion, for whoever wants no more.
#[repr(transparent)]
pub struct WriteSide<L>(L);

impl<L> WriteSide<L> {
    /// The lock with both its sides.
    #[inline(always)]
    pub const fn whole(&self) -> &L {
        &self.0
    }
}

impl<L: RawRwLock> RawLock for WriteSide<L> {
    fn new() -> Self {
        Self(L::new())
    }

    #[inline(always)]
    fn lock(&self) {
        self.0.write();
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.0.try_write()
    }

    #[inline(always)]
    fn unlock(&self) {
        self.0.write_unlock();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
