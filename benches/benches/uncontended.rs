//! What a lock costs that nobody else wants: one acquisition and release on a warm cache line.
//!
//! The floor is the least that any lock word needs: a compare-and-exchange to take it and a plain
//! store to release it. A release that must not be a plain store pays for a second exchange; that
//! pair is the floor of locks on the portable word and of every paravirtual lock.
//!
//! Measured twice: back to back, and with a little work after each release. Back to back the
//! byte-wide word has a handicap of its own, which the third floor shows alone: it exchanges four
//! bytes right after the store of one of them. With work in between the handicap is gone, as it
//! would be if the exchange waits for that store to leave the CPU's store buffer.

// The host platform is the one that the tests use.
#[path = "../../pvlock/tests/support/host.rs"]
mod host;

use benches::Comparison;
use criterion::Criterion;
use host::{Host, HostWord};
use pvlock::word::PortableWord;
#[cfg(target_arch = "x86_64")]
use pvlock::word::{ByteWord, LockWord};
use pvlock::{LockKind, LockVisitor, RawLock};
use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Multiplications, each waiting for the one before, as work between a release and the next lock.
const WORK: u32 = 32;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, work) in [("uncontended", 0), ("uncontended, spaced", WORK)] {
        let mut pairs = Pairs {
            comparison: Comparison::new(&mut criterion, name),
            work,
        };
        floors(&mut pairs);
        locks::<PortableWord<AtomicU32>>(&mut pairs, "portable");
        #[cfg(target_arch = "x86_64")]
        locks::<ByteWord>(&mut pairs, "bytes");
        peers(&mut pairs);
        pairs.comparison.finish();
    }
    criterion.final_summary();
}

/// A comparison of acquisition and release pairs.
struct Pairs<'a> {
    comparison: Comparison<'a>,
    work: u32,
}

impl Pairs<'_> {
    fn measure<T>(&mut self, name: &str, lock: &T, pair: impl Fn(&T)) {
        let work = self.work;
        self.comparison.measure(name, lock, |lock| {
            pair(lock);
            let mut product = 3_u64;
            for _ in 0..work {
                product = black_box(product.wrapping_mul(product));
            }
        });
    }
}

fn floors(pairs: &mut Pairs<'_>) {
    let word = AtomicU32::new(0);
    pairs.measure("floor: cmpxchg + store", &word, |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store(0, Release);
    });
    pairs.measure("floor: cmpxchg + cmpxchg", &word, |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        let _ = word.compare_exchange(1, 0, Release, Relaxed);
    });
    #[cfg(target_arch = "x86_64")]
    pairs.measure("floor: cmpxchg + byte store", &ByteWord::new(0), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store_u8(0, 0, Release);
    });
}

fn locks<W: HostWord>(pairs: &mut Pairs<'_>, word: &str) {
    for kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        kind.visit::<Host<W>, _>(Pair {
            pairs,
            name: format!("{kind}, {word}"),
        });
    }
}

struct Pair<'a, 'b> {
    pairs: &'a mut Pairs<'b>,
    name: String,
}

impl<W: HostWord> LockVisitor<Host<W>> for Pair<'_, '_> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        self.pairs.measure(&self.name, &L::new(), |lock| {
            lock.lock();
            lock.unlock();
        });
    }
}

fn peers(pairs: &mut Pairs<'_>) {
    let spin = spin::mutex::SpinMutex::<u32>::new(0);
    pairs.measure("spin: SpinMutex", &spin, |mutex| drop(mutex.lock()));
    let ticket = spin::mutex::TicketMutex::<u32>::new(0);
    pairs.measure("spin: TicketMutex", &ticket, |mutex| drop(mutex.lock()));
    let parking_lot = parking_lot::Mutex::new(0);
    pairs.measure("parking_lot: Mutex", &parking_lot, |mutex| {
        drop(mutex.lock())
    });
    let std = std::sync::Mutex::new(0);
    pairs.measure("std: Mutex", &std, |mutex| drop(mutex.lock()));
}
