//! What sleeping locks keep outside themselves: a place in a wait list for each task, and a place
//! among the optimistic spinners for each CPU.

use crate::Platform;
use crate::atomic::zeroed;

/// A task's place in the wait list of the one lock that it waits for.
///
/// Tasks are named by their number plus one, 0 is nobody; a name means the same to guest, host and
/// simulator. All but [`granted`](Self::granted) belongs to whoever holds the lock's wait lock.
#[repr(C)]
pub struct Waiter<P: Platform> {
    /// The task behind.
    pub next: P::U32,
    /// The task before.
    pub prev: P::U32,
    /// What is waited for, and flags, as the lock defines them.
    pub state: P::U32,
    /// Set by whoever gives the lock to this waiter.
    pub granted: P::U32,
    /// When the wait began or times out, in ticks.
    pub since: P::U64,
}

/// A CPU's place in a queue of optimistic spinners. CPUs are named by their number plus one.
#[repr(C)]
pub struct OsqNode<P: Platform> {
    /// The CPU behind.
    pub next: P::U32,
    /// The CPU before.
    pub prev: P::U32,
    /// 1 once this CPU may spin on the lock itself.
    pub locked: P::U32,
}

zeroed!(Waiter: next: U32, prev: U32, state: U32, granted: U32, since: U64);
zeroed!(OsqNode: next: U32, prev: U32, locked: U32);
