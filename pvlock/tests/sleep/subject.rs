//! Sleeping locks of all kinds, as one thing to be driven.

use super::machine::Steps;
use pvlock::{
    Downgrade, KillableRw, LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor, SemVisitor,
};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a program can do to a lock. What the lock cannot do panics.
pub(crate) trait Subject {
    fn write(&self);
    fn try_write(&self) -> bool;
    fn write_unlock(&self);
    fn read(&self) {
        unreachable!("no read side")
    }
    fn try_read(&self) -> bool {
        unreachable!("no read side")
    }
    fn read_unlock(&self) {
        unreachable!("no read side")
    }
    fn downgrade(&self) {
        unreachable!("cannot be downgraded")
    }
    fn read_killable(&self) -> bool {
        unreachable!("cannot be killed")
    }
    fn write_killable(&self) -> bool {
        unreachable!("cannot be killed")
    }
    /// The lock in memory, without making a step.
    fn words(&self) -> Vec<u32>;
}

fn words<L>(lock: &L) -> Vec<u32> {
    let at = std::ptr::from_ref(lock).cast::<AtomicU32>();
    // SAFETY: every lock is made of atomic words, a multiple of four bytes, and this thread runs all vCPUs.
    #[allow(unsafe_code)]
    let words = unsafe { std::slice::from_raw_parts(at, size_of::<L>() / 4) };
    words.iter().map(|word| word.load(Relaxed)).collect()
}

macro_rules! forward {
    ($($method:ident $(-> $result:ty)? => $trait:ident::$call:ident,)+) => {
        $(fn $method(&self) $(-> $result)? {
            $trait::$call(&self.0)
        })+
        fn words(&self) -> Vec<u32> {
            words(&self.0)
        }
    };
}

struct Exclusive<L>(L);

impl<L: RawLock> Subject for Exclusive<L> {
    forward! {
        write => RawLock::lock,
        try_write -> bool => RawLock::try_lock,
        write_unlock => RawLock::unlock,
    }
}

struct Shared<L>(L);

impl<L: RawRwLock> Subject for Shared<L> {
    forward! {
        write => RawRwLock::write,
        try_write -> bool => RawRwLock::try_write,
        write_unlock => RawRwLock::write_unlock,
        read => RawRwLock::read,
        try_read -> bool => RawRwLock::try_read,
        read_unlock => RawRwLock::read_unlock,
    }
}

struct Sem<L>(L);

impl<L: Downgrade + KillableRw> Subject for Sem<L> {
    forward! {
        write => RawRwLock::write,
        try_write -> bool => RawRwLock::try_write,
        write_unlock => RawRwLock::write_unlock,
        read => RawRwLock::read,
        try_read -> bool => RawRwLock::try_read,
        read_unlock => RawRwLock::read_unlock,
        downgrade => Downgrade::downgrade,
        read_killable -> bool => KillableRw::read_killable,
        write_killable -> bool => KillableRw::write_killable,
    }
}

struct Make;

impl LockVisitor<Steps> for Make {
    type Output = Rc<dyn Subject>;
    fn visit<L: RawLock>(self) -> Self::Output {
        Rc::new(Exclusive(L::new()))
    }
}

impl RwLockVisitor<Steps> for Make {
    type Output = Rc<dyn Subject>;
    fn visit<L: RawRwLock>(self) -> Self::Output {
        Rc::new(Shared(L::new()))
    }
}

impl SemVisitor<Steps> for Make {
    type Output = Rc<dyn Subject>;
    fn visit<L: Downgrade + KillableRw>(self) -> Self::Output {
        Rc::new(Sem(L::new()))
    }
}

/// A new lock of that kind.
pub(crate) fn subject(kind: LockKind) -> Rc<dyn Subject> {
    let sem = kind.visit_sem::<Steps, _>(Make);
    let shared = || kind.visit_rw::<Steps, _>(Make);
    sem.or_else(shared)
        .unwrap_or_else(|| kind.visit::<Steps, _>(Make))
}
