//! The lock that is worked on, exclusive or shared by readers, with one face for the workload.

use crate::abi::{Dispatch, LOCK_BYTES, LockSlot, Params};
use crate::{Machine, dispatch};
use core::marker::PhantomData;
use pvlock::{LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor};

/// A lock as the workload sees it.
pub(super) trait Subject: Sized + 'static {
    /// Whether some acquisitions are for reading. Where not, there is no trace of it in the code.
    const SHARED: bool;

    fn new() -> Self;
    fn lock(&self);
    fn unlock(&self);
    fn read(&self);
    fn read_unlock(&self);
}

/// What to do with the lock once its type is known: see [`visit`].
pub(super) trait Visitor<M> {
    fn visit<S: Subject>(self);
}

/// Calls `visitor` with the lock that `params` name.
///
/// # Panics
/// If there is no such lock, or reads are wanted of one that has no read side, or not directly.
pub(super) fn visit<M: Machine, V: Visitor<M>>(params: &Params, visitor: V) {
    let id = u32::try_from(params.lock_kind).ok();
    let Some(kind) = id.and_then(LockKind::from_id) else {
        panic!("unknown lock kind {}", params.lock_kind);
    };
    let Some(way) = Dispatch::from_raw(params.dispatch) else {
        panic!("unknown way {} to call a lock", params.dispatch);
    };
    let face = Face(visitor, PhantomData);
    if params.readers == 0 && params.read_share == 0 {
        dispatch::visit::<M, _>(kind, way, face);
        return;
    }
    assert!(way == Dispatch::Direct, "reads are compiled in");
    assert!(
        kind.visit_rw::<M, _>(face).is_some(),
        "{kind} has no read side"
    );
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
#[repr(transparent)]
struct Exclusive<L>(L);

impl<L: RawLock> Subject for Exclusive<L> {
    const SHARED: bool = false;

    fn new() -> Self {
        Self(L::new())
    }

    #[inline(always)]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline(always)]
    fn unlock(&self) {
        self.0.unlock();
    }

    fn read(&self) {
        self.0.lock();
    }

    fn read_unlock(&self) {
        self.0.unlock();
    }
}

/// A lock that is read and written.
#[repr(transparent)]
struct Shared<L>(L);

impl<L: RawRwLock> Subject for Shared<L> {
    const SHARED: bool = true;

    fn new() -> Self {
        Self(L::new())
    }

    #[inline(always)]
    fn lock(&self) {
        self.0.write();
    }

    #[inline(always)]
    fn unlock(&self) {
        self.0.write_unlock();
    }

    #[inline(always)]
    fn read(&self) {
        self.0.read();
    }

    #[inline(always)]
    fn read_unlock(&self) {
        self.0.read_unlock();
    }
}

/// The lock in `slot`.
#[allow(unsafe_code)] // A slot holds a lock of a type known only here.
#[inline(always)]
pub(super) fn lock_of<S: Subject>(slot: &LockSlot) -> &S {
    // SAFETY: vCPU 0 has put an `S` there (construct()) before any vCPU left start(), and nothing
    // else is ever put there: visit() picks the same type for the same parameters. Locks are Sync.
    unsafe { &*slot.lock_bytes().cast::<S>() }
}

/// Puts a new lock into `slot`.
#[allow(unsafe_code)]
pub(super) fn construct<S: Subject>(slot: &LockSlot) {
    const { assert!(size_of::<S>() <= LOCK_BYTES && align_of::<S>() <= align_of::<LockSlot>()) };
    // SAFETY: the space is large and aligned enough (above), made of atomics, hence writable
    // through a shared reference, and no other vCPU looks at it before the host ends PREPARE.
    unsafe { slot.lock_bytes().cast::<S>().cast_mut().write(S::new()) };
}
