//! Every peer by name: the one list from which tools pick.

use crate::{Foreign, ck, parking, pthread, spinning, standard};
use guest::Machine;
use guest::machine::Lock;
use pvlock::registry::{LockVisitor, RwLockVisitor, SemVisitor, Traits};
use pvlock::{LockKind, Operations};
use std::fmt;

/// Nothing is promised about the order.
const UNFAIR: Traits = LockKind::Tas.traits();
/// First come, first served.
const FAIR: Traits = LockKind::Ticket.traits();

macro_rules! peers {
    (@visit_rw spin $lock:ty, $visitor:ident) => { None };
    (@visit_rw rw $lock:ty, $visitor:ident) => { Some($visitor.visit::<Foreign<M, $lock>>()) };
    (@is_rw spin) => { false };
    (@is_rw rw) => { true };
    ($(#[doc = $doc:literal] $variant:ident = $id:literal, $name:literal, $side:ident $lock:ty { $traits:expr, $built_in:expr })+) => {
        /// A lock of somebody else's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Peer {
            $(#[doc = $doc] $variant = $id,)+
        }

        impl Peer {
            /// Every peer, built in or not.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name, as users write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The lock in one sentence.
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $doc.trim_ascii(),)+ }
            }

            /// What tools ask of locks. What a peer does while it waits is its own affair, and not counted.
            pub const fn traits(self) -> Traits {
                match self { $(Self::$variant => $traits,)+ }
            }

            /// Whether the lock has a read side.
            pub const fn is_rw(self) -> bool {
                match self { $(Self::$variant => peers!(@is_rw $side),)+ }
            }

            /// Whether this program has been built with it.
            pub const fn is_built_in(self) -> bool {
                match self { $(Self::$variant => $built_in,)+ }
            }

            /// Calls `visitor` with the lock's type; if it has a read side, with its write side.
            pub fn visit<M: Machine, V: LockVisitor<M>>(self, visitor: V) -> V::Output {
                match self { $(Self::$variant => visitor.visit::<Foreign<M, $lock>>(),)+ }
            }

            /// Calls `visitor` with the reader-writer lock's type; `None` for a lock that has no read side.
            pub fn visit_rw<M: Machine, V: RwLockVisitor<M>>(self, visitor: V) -> Option<V::Output> {
                match self { $(Self::$variant => peers!(@visit_rw $side $lock, visitor),)+ }
            }
        }
    };
}

peers! {
    /// Rust's `std::sync::Mutex`: a futex, after a short spin
    StdMutex = 2000, "std-mutex", spin standard::Mutex { UNFAIR, true }
    /// Rust's `std::sync::RwLock`: two futexes, writers first
    StdRwLock = 2001, "std-rwlock", rw standard::RwLock { UNFAIR, true }
    /// parking_lot's `Mutex`: a byte, waiters in a table of queues, handed over now and then
    ParkingLot = 2010, "parking-lot", spin parking::Mutex { UNFAIR, true }
    /// parking_lot's `RwLock`: a word, waiters in a table of queues
    ParkingLotRwLock = 2011, "parking-lot-rwlock", rw parking::RwLock { UNFAIR, true }
    /// spin's `SpinMutex`: test-and-test-and-set
    SpinTas = 2020, "spin-tas", spin spinning::Tas<M> { UNFAIR, true }
    /// spin's `TicketMutex`: first come, first served
    SpinTicket = 2021, "spin-ticket", spin spinning::Ticket<M> { FAIR, true }
    /// the C library's `pthread_mutex_t` with default attributes: a futex
    PthreadMutex = 2030, "pthread-mutex", spin pthread::Mutex { UNFAIR, true }
    /// the C library's `pthread_spinlock_t`: test-and-set
    PthreadSpin = 2031, "pthread-spin", spin pthread::Spin { UNFAIR, true }
    /// the C library's `pthread_rwlock_t` with default attributes: readers first
    PthreadRwLock = 2032, "pthread-rwlock", rw pthread::RwLock { UNFAIR, true }
    /// ConcurrencyKit's ticket lock
    CkTicket = 2040, "ck-ticket", spin ck::Ticket { FAIR, ck::BUILT_IN }
    /// ConcurrencyKit's MCS lock
    CkMcs = 2041, "ck-mcs", spin ck::Mcs { FAIR, ck::BUILT_IN }
    /// ConcurrencyKit's reader-writer lock: writers first
    CkRwLock = 2042, "ck-rwlock", rw ck::RwLock { UNFAIR, ck::BUILT_IN }
    /// ConcurrencyKit's phase-fair reader-writer lock
    CkPfLock = 2043, "ck-pflock", rw ck::PfLock { FAIR, ck::BUILT_IN }
}

impl Peer {
    /// The peer of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|peer| peer.name() == name)
    }

    /// The number that stands for it in [`abi::Params::lock_kind`](guest), apart from those of [`LockKind`].
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The peer of that number.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|peer| peer.id() == id)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A lock that host threads can use: one of ours, or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One of [`pvlock`]'s.
    Ours(LockKind),
    /// Another.
    Peer(Peer),
}

/// What both have, by the same name.
macro_rules! either {
    ($self:ident, $lock:ident => $answer:expr) => {
        match $self {
            Self::Ours($lock) => $answer,
            Self::Peer($lock) => $answer,
        }
    };
}

impl Kind {
    /// Every lock: ours, then the peers.
    pub fn all() -> impl Iterator<Item = Self> {
        let ours = LockKind::ALL.iter().copied().map(Self::Ours);
        ours.chain(Peer::ALL.iter().copied().map(Self::Peer))
    }

    /// The lock of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let ours = LockKind::from_name(name).map(Self::Ours);
        ours.or_else(|| Peer::from_name(name).map(Self::Peer))
    }

    /// The number that stands for the lock between host and vCPUs.
    pub const fn id(self) -> u32 {
        either!(self, lock => lock.id())
    }

    /// Its name, as users write it.
    pub const fn name(self) -> &'static str {
        either!(self, lock => lock.name())
    }

    /// The lock in one sentence.
    pub const fn summary(self) -> &'static str {
        either!(self, lock => lock.summary())
    }

    /// What the lock can do and needs.
    pub const fn traits(self) -> Traits {
        either!(self, lock => lock.traits())
    }

    /// Whether it has a read side.
    pub const fn is_rw(self) -> bool {
        either!(self, lock => lock.is_rw())
    }

    /// Whether it is a semaphore: see [`LockKind::is_sem`].
    pub const fn is_sem(self) -> bool {
        matches!(self, Self::Ours(lock) if lock.is_sem())
    }

    /// The lock, if it is a peer.
    pub const fn peer(self) -> Option<Peer> {
        match self {
            Self::Peer(peer) => Some(peer),
            Self::Ours(_) => None,
        }
    }

    /// The first 64 bits of such a lock, decoded; those of a peer are its own affair.
    pub fn describe(self, state: u64) -> String {
        match self {
            Self::Ours(lock) => lock.describe(state).to_string(),
            Self::Peer(_) => "not known: it is not one of ours".to_owned(),
        }
    }
}

impl From<LockKind> for Kind {
    fn from(lock: LockKind) -> Self {
        Self::Ours(lock)
    }
}

impl PartialEq<LockKind> for Kind {
    fn eq(&self, lock: &LockKind) -> bool {
        *self == Self::Ours(*lock)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl<M: Machine> Lock<M> for Kind {
    fn from_id(id: u32) -> Option<Self> {
        let ours = LockKind::from_id(id).map(Self::Ours);
        ours.or_else(|| Peer::from_id(id).map(Self::Peer))
    }

    fn traits(self) -> Traits {
        self.traits()
    }

    fn is_rw(self) -> bool {
        self.is_rw()
    }

    fn visit<V: LockVisitor<M>>(self, visitor: V) -> V::Output {
        either!(self, lock => lock.visit(visitor))
    }

    fn visit_rw<V: RwLockVisitor<M>>(self, visitor: V) -> Option<V::Output> {
        either!(self, lock => lock.visit_rw(visitor))
    }

    fn visit_sem<V: SemVisitor<M>>(self, visitor: V) -> Option<V::Output> {
        match self {
            Self::Ours(lock) => lock.visit_sem(visitor),
            Self::Peer(_) => None,
        }
    }

    fn operations(self) -> Operations {
        match self {
            Self::Ours(lock) => lock.operations::<M>(),
            Self::Peer(lock) => panic!("{lock} can only be called directly"),
        }
    }
}
