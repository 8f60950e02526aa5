//! What models of locks under loom are made of.

use super::machine::{Explored, spawn};
use loom::cell::UnsafeCell;
use pvlock::RawLock;
use std::panic::{UnwindSafe, catch_unwind};
use std::sync::Arc;

/// Two in the critical section, or the second without what the first wrote.
pub(crate) const RACE: &str = "Causality violation";

/// A lock, and a plain variable that it guards.
pub(crate) type Guarded<L> = (L, UnsafeCell<usize>);

#[allow(unsafe_code)]
pub(crate) fn add_one(data: &UnsafeCell<usize>) {
    // SAFETY: what the lock is for; loom reports it if not.
    data.with_mut(|data| unsafe { *data += 1 });
}

#[allow(unsafe_code)]
pub(crate) fn look(data: &UnsafeCell<usize>) -> usize {
    // SAFETY: as in add_one().
    data.with(|data| unsafe { *data })
}

/// CPU 0 and `other` do `work` with a lock and what it guards, each its part; returns both when they have.
pub(crate) fn beside<L: 'static, S: 'static>(
    lock: L,
    other: u32,
    work: impl Fn(&Guarded<L>, S) + Copy + 'static,
    [mine, theirs]: [S; 2],
) -> Arc<Guarded<L>> {
    let shared = Arc::new((lock, UnsafeCell::new(0)));
    let for_other = shared.clone();
    let thread = spawn(other, move || work(&for_other, theirs));
    work(&shared, mine);
    thread.join().unwrap();
    shared
}

/// Two CPUs add to one plain variable under a lock, that many times each.
pub(crate) fn contend<L: RawLock>(rounds: [usize; 2]) {
    let work = |(lock, data): &Guarded<L>, rounds| {
        for _ in 0..rounds {
            lock.lock();
            add_one(data);
            lock.unlock();
        }
    };
    let shared = beside(L::new(), 1, work, rounds);
    assert_eq!(look(&shared.1), rounds[0] + rounds[1]);
    assert!(!shared.0.is_locked());
}

/// How loom reports what `checks` finds.
#[track_caller]
pub(crate) fn report_of(checks: impl FnOnce() -> Explored + UnwindSafe) -> String {
    let panic = catch_unwind(checks).expect_err("the mutant survived");
    let text = panic.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).into())
}
