//! What of an execution is not memory: words that one CPU alone uses, who is in a critical section, and counts.

use crate::view::Fingerprint;
use pvlock::LockEvent;
use std::cell::{Cell, RefCell};

thread_local! {
    static OWN: RefCell<Vec<u64>> = const { RefCell::new(vec![]) };
    static INSIDE: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    static COUNTS: Cell<[u64; LockEvent::COUNT]> = const { Cell::new([0; LockEvent::COUNT]) };
    /// Bit by CPU: its task has been killed.
    static KILLED: Cell<u32> = const { Cell::new(0) };
    /// Bit by CPU: it has woken without a reason.
    static WOKEN: Cell<u32> = const { Cell::new(0) };
    static NOW: Cell<[u64; crate::THREADS]> = const { Cell::new([0; crate::THREADS]) };
}

/// A new execution begins.
pub(crate) fn reset() {
    OWN.with_borrow_mut(Vec::clear);
    INSIDE.set((0, 0));
    KILLED.set(0);
    WOKEN.set(0);
    NOW.set([0; crate::THREADS]);
}

pub(crate) fn describe(state: &mut Fingerprint) {
    OWN.with_borrow(|own| own.iter().for_each(|&value| state.add(value)));
    state.add(u64::from(KILLED.get()) << 32 | u64::from(WOKEN.get()));
    NOW.get().into_iter().for_each(|now| state.add(now));
}

/// The value of a word of one CPU, which is 0 at first.
pub(crate) fn own(number: u32) -> u64 {
    OWN.with_borrow(|own| own.get(number as usize).copied().unwrap_or(0))
}

pub(crate) fn set_own(number: u32, value: u64) {
    OWN.with_borrow_mut(|own| {
        let number = number as usize;
        if own.len() <= number {
            own.resize(number + 1, 0);
        }
        own[number] = value;
    });
}

/// A CPU goes into a critical section, to write or to read.
///
/// # Panics
/// If it may not.
pub(crate) fn enter(writes: bool) {
    let (writers, readers) = INSIDE.get();
    assert!(writers == 0, "inside beside a writer");
    assert!(!writes || readers == 0, "a writer inside beside readers");
    INSIDE.set(if writes { (1, 0) } else { (0, readers + 1) });
}

/// It leaves.
pub(crate) fn leave(writes: bool) {
    let (writers, readers) = INSIDE.get();
    INSIDE.set(if writes {
        (writers - 1, readers)
    } else {
        (writers, readers - 1)
    });
}

pub(crate) fn forget_counts() {
    COUNTS.set([0; LockEvent::COUNT]);
}

pub(crate) fn count(event: LockEvent, n: u64) {
    let mut counts = COUNTS.get();
    counts[event as usize] += n;
    COUNTS.set(counts);
}

pub(crate) fn counts() -> [u64; LockEvent::COUNT] {
    COUNTS.get()
}

pub(crate) fn is_killed(cpu: usize) -> bool {
    KILLED.get() >> cpu & 1 != 0
}

pub(crate) fn kill(cpu: usize) {
    KILLED.set(KILLED.get() | 1 << cpu);
}

/// Whether that CPU may still wake without a reason; it may once.
pub(crate) fn may_wake(cpu: usize) -> bool {
    WOKEN.get() >> cpu & 1 == 0
}

pub(crate) fn woke(cpu: usize) {
    WOKEN.set(WOKEN.get() | 1 << cpu);
}

/// The time on that CPU, which is later each time that it is asked, twice at most.
pub(crate) fn now(cpu: usize) -> u64 {
    let mut now = NOW.get();
    now[cpu] = (now[cpu] + 1).min(2);
    NOW.set(now);
    now[cpu]
}
