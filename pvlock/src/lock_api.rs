//! The raw traits of the [`lock_api`] crate, so that `lock_api::Mutex<RawQSpinLock<P>, T>` works.
#![allow(unsafe_code)] // lock_api's traits are unsafe to implement.

use crate::atomic::ConstZero;
use crate::{Downgrade, Platform, RawLock, RawRwLock, WaitLock};
use lock_api::GuardNoSend;

macro_rules! raw_mutex {
    ($($lock:ty $(, wait $wait:ident)?;)+) => {$(
        // SAFETY: on any machine that keeps the promises of Platform, with a wait lock that keeps those of
        // WaitLock, these locks exclude each other's holders (tests/stepper.rs, tests/loom.rs). The guard
        // cannot leave the context that took the lock (GuardNoSend), whose number is its own as long.
        unsafe impl<P: Platform $(, $wait: WaitLock)?> lock_api::RawMutex for $lock
        where
            $lock: ConstZero + RawLock,
        {
            const INIT: Self = Self::ZERO;
            type GuardMarker = GuardNoSend;

            #[inline]
            fn lock(&self) {
                RawLock::lock(self);
            }

            #[inline]
            fn try_lock(&self) -> bool {
                RawLock::try_lock(self)
            }

            #[inline]
            unsafe fn unlock(&self) {
                RawLock::unlock(self);
            }

            #[inline]
            fn is_locked(&self) -> bool {
                RawLock::is_locked(self)
            }
        }
    )+};
}

// SAFETY: no writer gets in between (tests/sleep.rs).
unsafe impl<P: Platform, W: WaitLock> lock_api::RawRwLockDowngrade for crate::RawRwSem<P, W>
where
    Self: ConstZero,
{
    #[inline]
    unsafe fn downgrade(&self) {
        Downgrade::downgrade(self);
    }
}

macro_rules! raw_rwlock {
    ($([$(const $flag:ident)*] $lock:ty $(, wait $wait:ident)?;)+) => {$(
        // SAFETY: likewise these keep writers apart from each other and from readers (tests/stepper.rs,
        // tests/sleep.rs, tests/loom.rs), however many guards are forgotten (tests/limits.rs). The guard cannot
        // leave the context that took the lock (GuardNoSend).
        unsafe impl<P: Platform $(, const $flag: bool)* $(, $wait: WaitLock)?> lock_api::RawRwLock for $lock
        where
            $lock: ConstZero + RawRwLock,
        {
            const INIT: Self = Self::ZERO;
            type GuardMarker = GuardNoSend;

            #[inline]
            fn lock_shared(&self) {
                RawRwLock::read(self);
            }

            #[inline]
            fn try_lock_shared(&self) -> bool {
                RawRwLock::try_read(self)
            }

            #[inline]
            unsafe fn unlock_shared(&self) {
                RawRwLock::read_unlock(self);
            }

            #[inline]
            fn lock_exclusive(&self) {
                RawRwLock::write(self);
            }

            #[inline]
            fn try_lock_exclusive(&self) -> bool {
                RawRwLock::try_write(self)
            }

            #[inline]
            unsafe fn unlock_exclusive(&self) {
                RawRwLock::write_unlock(self);
            }

            #[inline]
            fn is_locked(&self) -> bool {
                RawRwLock::is_locked(self)
            }
        }
    )+};
}

// Those over any wait lock.
raw_mutex! {
    crate::RawSleepMutex<P, W>, wait W;
    crate::RawSleepMutex316<P, W>, wait W;
    crate::RawPiMutex<P, W>, wait W;
}
raw_rwlock! {
    [] crate::RawQRwLock<P, W>, wait W;
    [] crate::RawQRwLock2014<P, W>, wait W;
    [] crate::RawRwSem<P, W>, wait W;
    [const ASM const OLD const RSPIN const RESPIN]
        crate::RawRwSemXadd<P, ASM, OLD, RSPIN, RESPIN, W>, wait W;
}

macro_rules! guards {
    ($($(#[$doc:meta])+ $kind:ident = $id:literal, $name:literal, $side:ident $promise:ident $lock:ty { $($about:tt)* })+) => {
        $(guards!(@ $side $promise $lock);)+
    };
    (@ spin guards $lock:ty) => { raw_mutex! { $lock; } };
    (@ rw guards $lock:ty) => { raw_rwlock! { [] $lock; } };
    (@ spin over $lock:ty) => { guards!(@listed RawMutex $lock); };
    (@ $side:ident over $lock:ty) => { guards!(@listed RawRwLock $lock); };
    (@ $side:ident broken $lock:ty) => {};
    // Does not compile if it is not among those above.
    (@listed $trait:ident $lock:ty) => {
        const _: () = {
            #[allow(dead_code)]
            fn listed<P: Platform>() -> impl Sized
            where
                P::U32: ConstZero,
                P::U64: ConstZero,
                P::LockWord: ConstZero,
            {
                <$lock as lock_api::$trait>::is_locked
            }
        };
    };
}

crate::each_lock!(guards);
