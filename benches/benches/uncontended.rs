//! What a lock costs that nobody else wants: one acquisition and release on a warm cache line.
//!
//! The floor is the least that any lock word needs: a compare-and-exchange to take it and a plain
//! store to release it. A release that must not be a plain store pays for a second exchange; that
//! pair is the floor of locks on the portable word and of every paravirtual lock.

// The host platform is the one that the tests use.
#[path = "../../pvlock/tests/support/host.rs"]
mod host;

use benches::Comparison;
use criterion::Criterion;
use host::{Host, HostWord};
use pvlock::word::PortableWord;
use pvlock::{LockKind, LockVisitor, RawLock};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut comparison = Comparison::new(&mut criterion, "uncontended");
    floors(&mut comparison);
    locks::<PortableWord<AtomicU32>>(&mut comparison, "portable");
    #[cfg(target_arch = "x86_64")]
    locks::<pvlock::word::ByteWord>(&mut comparison, "bytes");
    peers(&mut comparison);
    comparison.finish();
    criterion.final_summary();
}

fn floors(comparison: &mut Comparison<'_>) {
    let word = AtomicU32::new(0);
    comparison.measure("floor: cmpxchg + store", &word, |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store(0, Release);
    });
    comparison.measure("floor: cmpxchg + cmpxchg", &word, |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        let _ = word.compare_exchange(1, 0, Release, Relaxed);
    });
}

fn locks<W: HostWord>(comparison: &mut Comparison<'_>, word: &str) {
    for kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        kind.visit::<Host<W>, _>(Pair {
            comparison,
            name: format!("{kind}, {word}"),
        });
    }
}

struct Pair<'a, 'b> {
    comparison: &'a mut Comparison<'b>,
    name: String,
}

impl<W: HostWord> LockVisitor<Host<W>> for Pair<'_, '_> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        self.comparison.measure(&self.name, &L::new(), |lock| {
            lock.lock();
            lock.unlock();
        });
    }
}

fn peers(comparison: &mut Comparison<'_>) {
    let spin = spin::mutex::SpinMutex::<u32>::new(0);
    comparison.measure("spin: SpinMutex", &spin, |mutex| drop(mutex.lock()));
    let ticket = spin::mutex::TicketMutex::<u32>::new(0);
    comparison.measure("spin: TicketMutex", &ticket, |mutex| drop(mutex.lock()));
    let parking_lot = parking_lot::Mutex::new(0);
    comparison.measure("parking_lot: Mutex", &parking_lot, |mutex| {
        drop(mutex.lock())
    });
    let std = std::sync::Mutex::new(0);
    comparison.measure("std: Mutex", &std, |mutex| drop(mutex.lock()));
}
