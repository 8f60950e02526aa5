//! Locks at the limits of their words, which safe code reaches by forgetting guards: they refuse, and what
//! they refuse leaves no trace.

#![cfg(feature = "lock_api")]
#![allow(clippy::unwrap_used)]

#[path = "support/host.rs"]
mod host;

use host::Host;
use lock_api::{RawMutex, RawRwLock};
use pvlock::percpu::NodeRef;
use pvlock::{
    LockKind, LockVisitor, MAX_CPUS, MAX_NODES, RawLock, RawQRwLock, RawQRwLock2014, RawQSpinLock,
    RawRwLock as _, RawRwSemXadd, RawTicket, RawUnfairRwLock, RwLockVisitor, rwlock, ticket,
};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The first word of a lock.
fn word<L>(lock: &L) -> &AtomicU32 {
    assert!(size_of::<L>() >= 4 && align_of::<L>() >= 4);
    // SAFETY: every lock here begins with a 32-bit atomic.
    #[allow(unsafe_code)]
    unsafe {
        &*std::ptr::from_ref(lock).cast()
    }
}

/// The first two words of a lock that begins with 64 bits.
fn count<L>(lock: &L) -> &AtomicU64 {
    assert!(size_of::<L>() >= 8 && align_of::<L>() >= 8);
    // SAFETY: those with a long count begin with a 64-bit one.
    #[allow(unsafe_code)]
    unsafe {
        &*std::ptr::from_ref(lock).cast()
    }
}

/// What a panic of `action` says.
fn refusal(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).expect_err("it was let in");
    let text = panic.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).into())
}

/// Locks with `state` as first word: `most` readers, each `reader`, are let in, and none beyond; nor is a
/// writer beside them, whatever number of readers beyond is tried.
fn readers_are_bounded<L: RawRwLock>(reader: u32, most: u32) {
    let lock = lock_api::RwLock::<L, ()>::new(());
    // SAFETY: the lock is not unlocked by this.
    #[allow(unsafe_code)]
    let state = word(unsafe { lock.raw() });
    state.store((most - 1) * reader, Relaxed);
    mem::forget(lock.read());
    assert_eq!(state.load(Relaxed), most * reader);
    // Also beyond, as far as readers that have been counted and not refused yet may bring it.
    let width = u32::MAX / reader;
    for present in [most, most + 1, most + 1000, width - 1, width] {
        let full = present * reader;
        state.store(full, Relaxed);
        for _ in 0..3 {
            assert!(lock.try_read().is_none(), "{present} readers");
            let text = refusal(|| mem::forget(lock.read()));
            assert!(text.contains("too many readers"), "{text}");
            assert!(lock.try_write().is_none() && lock.is_locked());
            assert_eq!(state.load(Relaxed), full, "a refused reader stays counted");
        }
    }
    // One that leaves makes room for another.
    state.store(most * reader, Relaxed);
    // SAFETY: there are readers.
    #[allow(unsafe_code)]
    unsafe {
        lock.force_unlock_read();
    }
    drop(lock.try_read().expect("one fewer"));
    assert_eq!(state.load(Relaxed), (most - 1) * reader);
}

#[test]
fn qrwlock_has_four_million_readers_at_most() {
    readers_are_bounded::<RawQRwLock<Host, RawQSpinLock<Host>>>(1 << 9, 1 << 22);
    readers_are_bounded::<RawQRwLock<Host, RawTicket<Host>>>(1 << 9, 1 << 22);
}

#[test]
fn qrwlock_2014_has_eight_million_readers_at_most() {
    readers_are_bounded::<RawQRwLock2014<Host, RawQSpinLock<Host>>>(1 << 8, 1 << 23);
    readers_are_bounded::<RawQRwLock2014<Host, RawTicket<Host>>>(1 << 8, 1 << 23);
}

/// Counted by exchanges: there are none beyond the most.
#[test]
fn rwlock_has_two_billion_readers_at_most() {
    let lock = RawUnfairRwLock::<Host>::new();
    let state = word(&lock);
    state.store(rwlock::MAX_READERS - 1, Relaxed);
    lock.read();
    for _ in 0..3 {
        assert!(!lock.try_read() && !lock.try_write());
        let text = refusal(|| lock.read());
        assert!(text.contains("too many readers"), "{text}");
        assert_eq!(state.load(Relaxed), rwlock::MAX_READERS);
    }
    lock.read_unlock();
    assert!(lock.try_read());
}

/// A 64-bit count of `most` readers, each `reader`.
fn long_count_is_bounded<L: pvlock::RawRwLock>(reader: u64, most: u64, beyond: &[u64]) {
    let lock = L::new();
    let state = count(&lock);
    state.store((most - 1) * reader, Relaxed);
    lock.read();
    for present in [&[most], beyond].concat() {
        let full = present * reader;
        state.store(full, Relaxed);
        let text = refusal(|| lock.read());
        assert!(text.contains("too many readers"), "{text}");
        assert!(!lock.try_write(), "{present} readers");
        assert_eq!(state.load(Relaxed), full);
    }
    state.store(most * reader, Relaxed);
    lock.read_unlock();
    assert!(lock.try_read());
}

/// With `debug-rwsems` another panic comes before.
#[cfg(not(feature = "debug-rwsems"))]
#[test]
fn rwsem_stops_at_its_guard() {
    let most = (1 << 55) - 1;
    let beyond = [most + 1, most + 70_000];
    long_count_is_bounded::<pvlock::RawRwSem<Host>>(1 << 8, most, &beyond);
}

/// Without a limit 2^32 readers would be no reader, for a writer that steals past a list.
#[test]
fn rwsem_xadd_has_two_billion_readers_at_most() {
    const MOST: u64 = pvlock::sleep::rwsem_xadd::MAX_READERS;
    let beyond = [MOST + 1, MOST + 70_000, u64::from(u32::MAX)];
    long_count_is_bounded::<RawRwSemXadd<Host>>(1, MOST, &beyond);
    long_count_is_bounded::<RawRwSemXadd<Host, true>>(1, MOST, &beyond);
    long_count_is_bounded::<RawRwSemXadd<Host, true, true, true, true>>(1, MOST, &beyond);
    let lock = RawRwSemXadd::<Host>::new();
    for readers in [MOST, u64::from(u32::MAX)] {
        count(&lock).store(readers, Relaxed);
        assert!(!lock.try_read());
    }
}

/// A lock whose guard was forgotten, and so many waiters that the next ticket would be the one served.
#[test]
fn ticket_gives_back_what_would_make_a_held_lock_look_free() {
    let lock = <RawTicket<Host> as RawMutex>::INIT;
    let state = word(&lock);
    for serving in [0_u16, 1, 40_000, u16::MAX] {
        for out in [ticket::MAX_WAITERS, 40_000, u16::MAX] {
            let next = serving.wrapping_add(out);
            let full = u32::from(next) << 16 | u32::from(serving);
            state.store(full, Relaxed);
            for _ in 0..3 {
                let text = refusal(|| RawMutex::lock(&lock));
                assert!(text.contains("32768 waiters"), "{text}");
                assert!(!RawMutex::try_lock(&lock) && RawMutex::is_locked(&lock));
                assert_eq!(state.load(Relaxed), full, "a ticket is lost");
            }
        }
    }
}

/// Those that are too many give back in the reverse order of their tickets, whoever looks first.
#[test]
fn tickets_of_many_threads_are_given_back() {
    let lock = <RawTicket<Host> as RawMutex>::INIT;
    let full = u32::from(ticket::MAX_WAITERS) << 16;
    word(&lock).store(full, Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| drop(refusal(|| RawMutex::lock(&lock)))));
        }
    });
    assert_eq!(word(&lock).load(Relaxed), full);
}

/// More tries than any field of a lock word can count.
const TRIES: u32 = 70_000;

struct Untouched;

impl LockVisitor<Host> for Untouched {
    type Output = ();

    fn visit<L: RawLock>(self) {
        let lock = L::new();
        lock.lock();
        let before = word(&lock).load(Relaxed);
        assert!((0..TRIES).all(|_| !lock.try_lock()));
        assert_eq!(word(&lock).load(Relaxed), before);
        lock.unlock();
        assert!(!lock.is_locked());
    }
}

impl RwLockVisitor<Host> for Untouched {
    type Output = ();

    fn visit<L: pvlock::RawRwLock>(self) {
        let lock = L::new();
        lock.write();
        let before = word(&lock).load(Relaxed);
        assert!((0..TRIES).all(|_| !lock.try_read() && !lock.try_write()));
        assert_eq!(word(&lock).load(Relaxed), before);
        lock.write_unlock();
        assert!(!lock.is_locked());
    }
}

/// What has given up is not counted, by any lock, however often it comes.
#[test]
fn tries_that_fail_fill_no_field() {
    for kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        kind.visit::<Host, _>(Untouched);
        kind.visit_rw::<Host, _>(Untouched);
    }
}

#[test]
fn no_node_is_named_that_does_not_fit_into_a_tail() {
    let last = NodeRef::new(MAX_CPUS - 1, MAX_NODES - 1);
    assert_eq!((last.cpu(), last.index()), (MAX_CPUS - 1, MAX_NODES - 1));
    refusal(|| _ = NodeRef::new(MAX_CPUS, 0));
    refusal(|| _ = NodeRef::new(0, MAX_NODES));
}
