//! A lock: who holds it, who waits, and in which state it has been for how long.

use super::clock::{Class, Clocks};
use super::episode::Open;
use super::order::Order;
use super::result::Tally;

/// How long a lock can look free, while somebody runs who may take it, until that is not believed any
/// more, ns. Such a hand-over takes well under 1 us, and a vCPU is away for at least 100 us.
pub const QUIET_NS: u64 = 20_000;

/// A lock.
#[derive(Debug)]
pub(super) struct Lock {
    /// A waiter without a place can take it past the queue.
    pub(super) steals: bool,
    pub(super) holder: Option<u16>,
    /// Whether `holder` can be relied on.
    pub(super) known: bool,
    /// The vCPU that released it last, as long as that one has done nothing else.
    pub(super) releaser: Option<u16>,
    pub(super) releases: u64,
    pub(super) order: Order,
    pub(super) waiters: Vec<u16>,
    /// The state since `since`, which is not yet on the clocks.
    pub(super) class: Class,
    /// The next waiter, if the lock is free.
    pub(super) next: Option<u16>,
    pub(super) since: u64,
    /// Since when the lock should have been taken.
    pub(super) quiet_since: u64,
    /// The vCPU that is suspected of holding the lock, which looks free.
    pub(super) suspect: Option<u16>,
    pub(super) clocks: Clocks,
    /// What all waiters together have waited, ns.
    pub(super) waited: u64,
    pub(super) episode: Option<Open>,
    pub(super) tally: Tally,
}

impl Lock {
    pub(super) fn new(steals: bool, vcpus: usize) -> Self {
        Self {
            steals,
            holder: None,
            known: false,
            releaser: None,
            releases: 0,
            order: Order::new(vcpus),
            waiters: Vec::new(),
            class: Class::Unknown,
            next: None,
            since: 0,
            quiet_since: 0,
            suspect: None,
            clocks: Clocks::default(),
            waited: 0,
            episode: None,
            tally: Tally::default(),
        }
    }
}
