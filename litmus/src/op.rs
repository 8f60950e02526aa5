//! What a thread asks of memory.

use std::panic::Location;
use std::sync::atomic::Ordering;

/// An atomic, by the order in which those of a model were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u32,
    pub(crate) initial: u64,
}

/// A look at values. It stands on the stack of the thread that waits, for as long as it does.
pub(crate) type Look = *mut dyn FnMut(u64) -> bool;
/// What a read-modify-write makes of a value; `None`: it only reads. Likewise.
pub(crate) type Change = *const dyn Fn(u64) -> Option<u64>;

/// One request.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// Of the bits in `mask`, in the machine's units: all of them, or a byte.
    Load {
        at: Place,
        mask: u64,
        order: Ordering,
    },
    /// A load that is repeated until the look is content.
    Await {
        at: Place,
        order: Ordering,
        done: Look,
    },
    /// The same for a while: it may also end without.
    Spin {
        at: Place,
        order: Ordering,
        done: Look,
    },
    /// Of the bits in `mask`, to `value` there.
    Store {
        at: Place,
        mask: u64,
        value: u64,
        order: Ordering,
    },
    Change {
        at: Place,
        change: Change,
        order: Ordering,
        failure: Ordering,
    },
    Fence(Ordering),
    Barrier(Side),
    /// Of plain data; a read, or a write of that value.
    Data {
        cell: u32,
        write: Option<u64>,
    },
    /// A turn of a loop.
    Relax {
        forgetful: bool,
    },
    /// Until kicked.
    Sleep,
    Kick(usize),
    /// One of so many.
    Choose(usize),
    /// What has been read so far matters no more; the thread is where that number says.
    Forget(u64),
}

/// The sides of an asymmetric barrier: [`pvlock::Platform::heavy_barrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Light,
    Heavy,
}

/// What comes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) value: u64,
    pub(crate) ok: bool,
}

pub(crate) const fn acquires(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

pub(crate) const fn releases(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

impl Op {
    /// The place, if it is about one.
    pub(crate) fn place(&self) -> Option<Place> {
        match *self {
            Self::Load { at, .. }
            | Self::Await { at, .. }
            | Self::Spin { at, .. }
            | Self::Store { at, .. }
            | Self::Change { at, .. } => Some(at),
            _ => None,
        }
    }

    /// What it is, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Load { .. } => "load",
            Self::Await { .. } => "await",
            Self::Spin { .. } => "spin",
            Self::Store { .. } => "store",
            Self::Change { .. } => "exchange",
            Self::Fence(_) => "fence",
            Self::Barrier(Side::Light) => "light barrier",
            Self::Barrier(Side::Heavy) => "heavy barrier",
            Self::Data { write: None, .. } => "read of data",
            Self::Data { .. } => "write of data",
            Self::Relax { .. } => "relax",
            Self::Sleep => "halt",
            Self::Kick(_) => "kick",
            Self::Choose(_) => "choose",
            Self::Forget(_) => "goes on",
        }
    }
}

/// Where in the source a request was made.
pub(crate) type Site = &'static Location<'static>;
