//! POSIX threads, as the C library of this host has them: mutex, spin lock, rwlock; all with default attributes.
#![allow(unsafe_code)] // Calls of C functions.

use crate::{Exclude, Share};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

macro_rules! peer {
    ($(#[$doc:meta])+ $name:ident($of:ty) = $new:expr; $lock:ident, $try_lock:ident, $unlock:ident) => {
        $(#[$doc])+
        pub struct $name(UnsafeCell<$of>);

        // SAFETY: made to be used by all threads of a process.
        unsafe impl Sync for $name {}
        // SAFETY: a lock that is moved is not in use yet, and is then but its bytes.
        unsafe impl Send for $name {}

        impl Default for $name {
            fn default() -> Self {
                Self(UnsafeCell::new($new))
            }
        }

        impl Exclude for $name {
            #[inline(always)]
            fn lock(&self) {
                // SAFETY: a lock that has been initialized.
                let error = unsafe { libc::$lock(self.0.get()) };
                debug_assert_eq!(error, 0);
            }

            #[inline(always)]
            fn try_lock(&self) -> bool {
                // SAFETY: as above.
                unsafe { libc::$try_lock(self.0.get()) == 0 }
            }

            #[inline(always)]
            fn unlock(&self) {
                // SAFETY: as above, and the caller holds it.
                unsafe { libc::$unlock(self.0.get()) };
            }
        }
    };
}

peer! {
    /// `pthread_mutex_t`.
    Mutex(libc::pthread_mutex_t) = libc::PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock
}

peer! {
    /// `pthread_spinlock_t`.
    Spin(libc::pthread_spinlock_t) = initialized();
    pthread_spin_lock, pthread_spin_trylock, pthread_spin_unlock
}

peer! {
    /// `pthread_rwlock_t`, which by default prefers readers.
    RwLock(libc::pthread_rwlock_t) = libc::PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_unlock
}

/// There is no constant for it.
fn initialized() -> libc::pthread_spinlock_t {
    let mut lock = MaybeUninit::uninit();
    // SAFETY: initializes what it is given; it fails for a lack of memory only, of which it needs none.
    unsafe {
        libc::pthread_spin_init(lock.as_mut_ptr(), libc::PTHREAD_PROCESS_PRIVATE);
        lock.assume_init()
    }
}

impl Share for RwLock {
    #[inline(always)]
    fn read(&self) {
        // SAFETY: a lock that has been initialized.
        let error = unsafe { libc::pthread_rwlock_rdlock(self.0.get()) };
        debug_assert_eq!(error, 0);
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        // SAFETY: as above.
        unsafe { libc::pthread_rwlock_tryrdlock(self.0.get()) == 0 }
    }

    #[inline(always)]
    fn read_unlock(&self) {
        // SAFETY: as above, and the caller reads.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }
}
