//! The lock that is worked on, exclusive or shared by readers, with one face for the workload.

use super::place::{place, placed};
use crate::machine::Lock as _;
use crate::{Machine, dispatch};
use abi::{Data, Dispatch, LOCK_BYTES_BESIDE_DATA, LockSlot, Params};
use core::marker::PhantomData;
use pvlock::{LockVisitor, RawLock, RawRwLock, RwLockVisitor, WriteSide};

/// A lock as the workload sees it.
pub(super) trait Subject: 'static {
    /// Whether some acquisitions are for reading. Where not, there is no trace of it in the code.
    const SHARED: bool;

    /// What lies in a slot.
    type Lock: Send + Sync + 'static;

    fn new() -> Self::Lock;
    /// Takes it, for reading if `read`; where nothing is shared that is never so.
    fn acquire(lock: &Self::Lock, read: bool);
    /// Releases it, which has been acquired like that.
    fn release(lock: &Self::Lock, read: bool);
}

/// What to do with the lock once its type is known: see [`visit`].
pub(super) trait Visitor<M> {
    fn visit<S: Subject>(self);
}

/// The lock that `params` name.
///
/// # Panics
/// If there is no such lock.
pub(super) fn kind<M: Machine>(params: &Params) -> M::Lock {
    let id = u32::try_from(params.lock_kind).ok();
    let Some(kind) = id.and_then(M::Lock::from_id) else {
        panic!("unknown lock kind {}", params.lock_kind);
    };
    kind
}

fn way(params: &Params) -> Dispatch {
    let Some(way) = Dispatch::from_raw(params.dispatch) else {
        panic!("unknown way {} to call a lock", params.dispatch);
    };
    way
}

/// As [`visit`], for a workload that never reads: there is no code for it.
///
/// # Panics
/// If there is no such lock.
pub(super) fn visit_exclusive<M: Machine, V: Visitor<M>>(params: &Params, visitor: V) {
    let face = Face(visitor, PhantomData);
    dispatch::visit::<M, _>(kind::<M>(params), way(params), face);
}

/// Calls `visitor` with the lock that `params` name.
///
/// # Panics
/// If there is no such lock, or reads are wanted of one that has no read side, or not directly.
pub(super) fn visit<M: Machine, V: Visitor<M>>(params: &Params, visitor: V) {
    if params.readers == 0 && params.read_share == 0 {
        visit_exclusive::<M, V>(params, visitor);
        return;
    }
    let kind = kind::<M>(params);
    assert!(way(params) == Dispatch::Direct, "reads are compiled in");
    assert!(
        kind.visit_rw(Face(visitor, PhantomData)).is_some(),
        "{kind} has no read side"
    );
}

/// As [`visit`], but with both sides of every lock that has two, whether or not somebody is to read; called
/// directly.
///
/// # Panics
/// If there is no such lock.
pub(super) fn visit_whole<M: Machine, V: Visitor<M>>(params: &Params, visitor: V) {
    let kind = kind::<M>(params);
    let face = Face(visitor, PhantomData);
    if kind.is_rw() {
        kind.visit_rw(face);
    } else {
        kind.visit(face);
    }
}

/// Turns a [`Visitor`] into one of locks.
struct Face<M, V>(V, PhantomData<M>);

impl<M: Machine, V: Visitor<M>> LockVisitor<M> for Face<M, V> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        self.0.visit::<Exclusive<L>>();
    }
}

impl<M: Machine, V: Visitor<M>> RwLockVisitor<M> for Face<M, V> {
    type Output = ();

    fn visit<L: RawRwLock>(self) {
        self.0.visit::<Shared<L>>();
    }
}

/// A lock that is only taken exclusively.
struct Exclusive<L>(PhantomData<L>);

impl<L: RawLock> Subject for Exclusive<L> {
    const SHARED: bool = false;
    type Lock = L;

    fn new() -> L {
        L::new()
    }

    #[inline(always)]
    fn acquire(lock: &L, _: bool) {
        lock.lock();
    }

    #[inline(always)]
    fn release(lock: &L, _: bool) {
        lock.unlock();
    }
}

/// A lock that is read and written.
struct Shared<L>(PhantomData<L>);

impl<L: RawRwLock> Subject for Shared<L> {
    const SHARED: bool = true;
    type Lock = WriteSide<L>;

    fn new() -> WriteSide<L> {
        RawLock::new()
    }

    #[inline(always)]
    fn acquire(lock: &WriteSide<L>, read: bool) {
        if read {
            lock.whole().read();
        } else {
            lock.lock();
        }
    }

    #[inline(always)]
    fn release(lock: &WriteSide<L>, read: bool) {
        if read {
            lock.whole().read_unlock();
        } else {
            lock.unlock();
        }
    }
}

/// The lock in `slot`.
#[inline(always)]
pub(super) fn lock_of<S: Subject>(slot: &LockSlot) -> &S::Lock {
    placed(slot)
}

/// Puts a new lock into `slot`, whose data is there.
///
/// # Panics
/// If both are to lie in one line, and do not fit.
pub(super) fn construct<S: Subject>(slot: &LockSlot, data: Data) {
    assert!(
        data != Data::SameLine || size_of::<S::Lock>() <= LOCK_BYTES_BESIDE_DATA,
        "a lock of {} bytes leaves no room for data in its line",
        size_of::<S::Lock>()
    );
    place(slot, S::new());
}

/// Puts a new lock into each of `slots`: see [`construct`].
pub(super) fn construct_all<S: Subject>(slots: &[LockSlot], params: &Params) {
    for slot in slots {
        construct::<S>(slot, params.data());
    }
}
