//! Locks on real threads, with more of them than this computer may have CPUs.

#![cfg(feature = "lock_api")]
#![allow(clippy::unwrap_used)]

#[path = "support/host.rs"]
mod host;

use host::Host;
use lock_api::{RawMutex, RawRwLock};
use pvlock::atomic::ConstZero;
use pvlock::word::PortableWord;
use pvlock::{LockKind, Platform};
use std::sync::atomic::AtomicU32;

type Mutex<L> = lock_api::Mutex<L, u64>;

/// So many rounds; fewer where each step is interpreted (Miri).
const fn rounds(rounds: u64) -> u64 {
    if cfg!(miri) { rounds / 2000 } else { rounds }
}

/// Every thread adds; nothing may be lost.
fn hammer<L: RawMutex + Sync>(threads: u64, rounds: u64) {
    let mutex = Mutex::<L>::new(0);
    let work = || {
        for _ in 0..rounds {
            // Load and store apart, so that a second holder would show.
            let mut guard = mutex.lock();
            let value = *guard;
            std::hint::spin_loop();
            *guard = value + 1;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    assert_eq!(*mutex.lock(), threads * rounds);
    assert!(!mutex.is_locked());
}

/// `try_lock` and `is_locked` of a lock that nobody, oneself, or another thread holds.
fn tries<L: RawMutex + Sync>() {
    let mutex = Mutex::<L>::new(5);
    assert!(!mutex.is_locked());
    let guard = mutex.try_lock().expect("free");
    assert!(mutex.is_locked());
    assert!(mutex.try_lock().is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_none() && mutex.is_locked()));
    });
    drop(guard);
    assert!(!mutex.is_locked());
    assert_eq!(*mutex.try_lock().expect("free again"), 5);
}

/// A lock is four bytes (MCS twelve), and can be made in a constant.
fn small_and_constant<L: RawMutex>() {
    const { assert!(size_of::<L>() == 4 || size_of::<L>() == 12) };
    assert!(!const { L::INIT }.is_locked());
}

fn all<L: RawMutex + Sync>() {
    hammer::<L>(2, rounds(20_000));
    hammer::<L>(4, rounds(10_000));
    tries::<L>();
    small_and_constant::<L>();
}

type RwLock<L> = lock_api::RwLock<L, [u64; 2]>;

/// Some threads add to both numbers, apart; the others must never find them different.
fn share<L: RawRwLock + Sync>(writers: u64, readers: u64, rounds: u64) {
    let lock = RwLock::<L>::new([0, 0]);
    let write = || {
        for _ in 0..rounds {
            let mut guard = lock.write();
            let value = guard[0];
            guard[0] = value + 1;
            std::hint::spin_loop();
            assert_eq!(guard[1], value);
            guard[1] = value + 1;
        }
    };
    let read = || {
        for _ in 0..rounds {
            let guard = lock.read();
            let first = guard[0];
            std::hint::spin_loop();
            assert_eq!(guard[1], first);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(write);
        }
        for _ in 0..readers {
            scope.spawn(read);
        }
    });
    assert_eq!(*lock.write(), [writers * rounds; 2]);
    assert!(!lock.is_locked());
}

/// Readers share, a writer does not; nobody waits in a try.
fn rw_tries<L: RawRwLock + Sync>() {
    let lock = RwLock::<L>::new([5, 5]);
    assert!(!const { L::INIT }.is_locked() && !lock.is_locked());
    let (first, second) = (lock.read(), lock.try_read().expect("readers share"));
    assert!(lock.is_locked() && lock.try_write().is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_read().is_some() && lock.try_write().is_none()));
    });
    drop((first, second));
    let guard = lock.try_write().expect("free");
    assert!(lock.is_locked() && lock.try_read().is_none() && lock.try_write().is_none());
    drop(guard);
    assert!(!lock.is_locked());
}

fn all_rw<L: RawRwLock + Sync>() {
    share::<L>(2, 2, rounds(5_000));
    share::<L>(1, 5, rounds(2_000));
    rw_tries::<L>();
}

/// All but those that sleep, which are below, and the negative controls.
macro_rules! every_lock {
    ($($(#[$doc:meta])+ $kind:ident = $id:literal, $name:literal, $side:ident $promise:ident $lock:ty { $($about:tt)* })+) => {
        fn every_lock<P: Platform>()
        where
            P::U32: ConstZero,
            P::U64: ConstZero,
            P::LockWord: ConstZero,
        {
            $(if !LockKind::$kind.traits().sleeps {
                every_lock!(@ $side $promise $kind $lock);
            })+
        }
    };
    (@ spin guards $kind:ident $lock:ty) => { all::<$lock>() };
    (@ $side:ident broken $kind:ident $lock:ty) => {};
    (@ spin over $kind:ident $lock:ty) => {};
    (@ $side:ident $promise:ident $kind:ident $lock:ty) => { all_rw::<$lock>() };
}

pvlock::each_lock!(every_lock);

#[test]
fn portable_word() {
    every_lock::<Host<PortableWord<AtomicU32>>>();
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(miri, ignore = "Miri does not interpret assembly")]
#[test]
fn byte_word() {
    every_lock::<Host<pvlock::word::ByteWord>>();
}

/// Sleeping locks, which are more than four bytes.
#[test]
fn sleeping_locks() {
    use pvlock::{RawRwSem, RawSleepMutex};
    type Sem = RawRwSem<Host>;
    hammer::<RawSleepMutex<Host>>(4, rounds(10_000));
    tries::<RawSleepMutex<Host>>();
    assert!(!const { <RawSleepMutex<Host> as RawMutex>::INIT }.is_locked());

    let map = lock_api::RwLock::<Sem, u64>::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds(3_000) {
                    let mut guard = map.write();
                    let value = *guard;
                    std::hint::spin_loop();
                    *guard = value + 1;
                    // Nobody writes in between.
                    let guard = lock_api::RwLockWriteGuard::downgrade(guard);
                    assert_eq!(*guard, value + 1);
                    drop(guard);
                    assert!(*map.read() > value);
                }
            });
        }
    });
    assert_eq!(*map.read(), 4 * rounds(3_000));
}
