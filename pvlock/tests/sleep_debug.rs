//! What the feature `debug-rwsems` notices, on threads: `cargo test -p pvlock --features debug-rwsems`.

#![cfg(all(feature = "debug-rwsems", feature = "lock_api"))]
#![allow(clippy::unwrap_used)]

#[path = "support/host.rs"]
#[allow(dead_code)]
mod host;

use host::Host;
use pvlock::{Downgrade, RawLock, RawRwLock, RawRwSem, RawRwSemXadd, RawSleepMutex};
use std::panic::{AssertUnwindSafe, catch_unwind};

type RwSem = RawRwSem<Host>;
type Xadd = RawRwSemXadd<Host>;
type Mutex = RawSleepMutex<Host>;

/// The panic of what another thread does.
#[track_caller]
fn report(act: impl FnOnce() + Send) -> String {
    let act = AssertUnwindSafe(act);
    let outcome = std::thread::scope(|scope| scope.spawn(|| catch_unwind(act)).join().unwrap());
    let panic = outcome.expect_err("it was not noticed");
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_release_by_another_thread() {
    let lock = RwSem::new();
    lock.write();
    let text = report(|| lock.write_unlock());
    assert!(text.contains("the owner is the current task"), "{text}");
    for fact in [
        "count = 0x1,",
        "magic = 0x",
        "owner = 0x",
        "current = 0x",
        "list empty",
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    lock.write_unlock();

    let lock = Xadd::new();
    lock.write();
    let text = report(|| lock.write_unlock());
    assert!(text.contains("the owner is the current task"), "{text}");

    let lock = Mutex::new();
    lock.lock();
    let text = report(|| lock.unlock());
    assert!(text.contains("does not own it: owner = 0x"), "{text}");
    lock.unlock();
}

#[test]
fn a_downgrade_by_another_thread() {
    let lock = RwSem::new();
    lock.write();
    let text = report(|| lock.downgrade());
    assert!(text.contains("the owner is the current task"), "{text}");
}

#[test]
fn a_reader_that_is_none() {
    let text = report(|| RwSem::new().read_unlock());
    assert!(text.contains("the owner is a reader"), "{text}");
    let text = report(|| Xadd::new().read_unlock());
    assert!(text.contains("somebody holds the lock"), "{text}");
    // The last reader has left its mark, but not its name.
    let lock = RwSem::new();
    lock.read();
    lock.read_unlock();
    let text = report(|| lock.read_unlock());
    assert!(
        text.contains("count = 0x0, ") && text.contains("owner = 0x1, "),
        "{text}"
    );
}

#[test]
fn a_lock_that_has_been_copied() {
    let lock = Box::new(RwSem::new());
    lock.read();
    lock.read_unlock();
    let moved = *lock;
    let text = report(|| moved.read());
    assert!(text.contains("magic == key of the lock"), "{text}");
}

#[test]
fn right_use_is_not_noticed() {
    let (sem, xadd, mutex) = (RwSem::new(), Xadd::new(), Mutex::new());
    let work = || {
        for round in 0..500 {
            sem.write();
            if round % 2 == 0 {
                sem.write_unlock();
            } else {
                sem.downgrade();
                sem.read_unlock();
            }
            sem.read();
            xadd.write();
            mutex.lock();
            mutex.unlock();
            xadd.write_unlock();
            sem.read_unlock();
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(work)));
    });
    assert!(!sem.is_locked() && !xadd.is_locked() && !mutex.is_locked());
}
