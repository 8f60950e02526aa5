//! What a new lock must provide.

/// A mutual-exclusion lock that guards nothing by itself.
///
/// Implement this for one type, add a line to [`crate::registry`], and the lock runs on every
/// machine, in every comparison.
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
