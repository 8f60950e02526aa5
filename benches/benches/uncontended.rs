//! What a lock costs that nobody else wants: one acquisition and release on a warm cache line.
//!
//! Beside each lock stands its floor: the fewest atomic accesses by which its algorithm can take and
//! release, and nothing else. `cas` is a compare-and-exchange and `add` a fetch-and-add, both locked
//! instructions on x86-64; `store` is a plain store.
//!
//! | lock | takes by | releases by |
//! |---|---|---|
//! | `tas`, `ppc-spinlock`, `rwlock` writing | cas of the word | store of the word |
//! | `ticket` | add to the word | store of a half |
//! | `qspinlock`, `virt-tas`, `cna`, `qrwlock`s writing | cas of the word | store of a byte |
//! | `ppc-qspinlock` | cas of the word | store of a half |
//! | `pv-qspinlock` | cas of the word | cas of a byte: the holder may have been marked meanwhile |
//! | `mcs` | exchange of the tail | cas of the tail: somebody may have queued |
//! | `rwlock` reading | cas of the word: it must not pass a writer | add |
//! | `qrwlock`s reading | add | add |
//! | `mutex` | cas of the owner | cas of the owner: somebody may wait |
//! | `rwsem`s writing | cas of the count | add: readers count in the same word |
//! | `rwsem`s reading | add | add |
//!
//! On the portable word every store to a part of it is a locked instruction as well.
//!
//! Measured twice: back to back, and with a little work after each release. Back to back, locks with a
//! byte store have a handicap that their floor has, too: the next cas covers four bytes of which one
//! is still in the CPU's store buffer.

// The host platform is the one that the tests use.
#[path = "../../pvlock/tests/support/host.rs"]
mod host;

use benches::Comparison;
use criterion::Criterion;
use host::{Host, HostWord};
use pvlock::word::PortableWord;
#[cfg(target_arch = "x86_64")]
use pvlock::word::{ByteWord, LockWord};
use pvlock::{LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor};
use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// Multiplications, each waiting for the one before, as work between a release and the next lock.
const WORK: u32 = 32;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .sample_size(40)
        .configure_from_args();
    for (name, work) in [("uncontended", 0), ("uncontended, spaced", WORK)] {
        let mut pairs = Pairs {
            comparison: Comparison::new(&mut criterion, name),
            work,
        };
        floors(&mut pairs);
        locks::<PortableWord<AtomicU32>>(&mut pairs, None);
        #[cfg(target_arch = "x86_64")]
        locks::<ByteWord>(&mut pairs, Some("bytes"));
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
    fn measure<T>(&mut self, name: &str, floor: &str, lock: &T, pair: impl Fn(&T)) {
        let work = self.work;
        self.comparison.measure(name, floor, lock, |lock| {
            pair(lock);
            compute(work);
        });
    }

    fn floor<T: 'static>(&mut self, name: &str, word: T, pair: impl Fn(&T) + 'static) {
        let work = self.work;
        self.comparison.floor(name, word, move |word| {
            pair(word);
            compute(work);
        });
    }
}

#[inline(always)]
fn compute(work: u32) {
    let mut product = 3_u64;
    for _ in 0..work {
        product = black_box(product.wrapping_mul(product));
    }
}

const CAS_STORE: &str = "cas, store";
const CAS_CAS: &str = "cas, cas";
const CAS_ADD: &str = "cas, add";
const ADD_ADD: &str = "add, add";
const SWAP_CAS: &str = "exchange, cas";
const CAS_BYTE: &str = "cas, store of a byte";
const CAS_HALF: &str = "cas, store of a half";
const ADD_HALF: &str = "add, store of a half";
const CAS_CAS_BYTE: &str = "cas, cas of a byte";

fn floors(pairs: &mut Pairs<'_>) {
    let word = || AtomicU32::new(0);
    pairs.floor(CAS_STORE, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store(0, Release);
    });
    pairs.floor(CAS_CAS, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        let _ = word.compare_exchange(1, 0, Release, Relaxed);
    });
    pairs.floor(CAS_ADD, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.fetch_add(u32::MAX, Release);
    });
    pairs.floor(ADD_ADD, word(), |word| {
        black_box(word.fetch_add(1, Acquire));
        black_box(word.fetch_add(u32::MAX, Release));
    });
    pairs.floor(SWAP_CAS, word(), |word| {
        black_box(word.swap(1, AcqRel));
        let _ = word.compare_exchange(1, 0, Release, Relaxed);
    });
    #[cfg(target_arch = "x86_64")]
    byte_floors(pairs);
}

#[cfg(target_arch = "x86_64")]
fn byte_floors(pairs: &mut Pairs<'_>) {
    let word = || ByteWord::new(0);
    pairs.floor(CAS_BYTE, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store_u8(0, 0, Release);
    });
    pairs.floor(CAS_HALF, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        word.store_u16(0, 0, Release);
    });
    pairs.floor(ADD_HALF, word(), |word| {
        black_box(word.fetch_add(1, Acquire));
        word.store_u16(0, 0, Release);
    });
    pairs.floor(CAS_CAS_BYTE, word(), |word| {
        let _ = word.compare_exchange(0, 1, Acquire, Relaxed);
        let _ = word.compare_exchange_u8(0, 1, 0, Release, Relaxed);
    });
}

/// The floor of an exclusive acquisition, on a word whose parts can be stored to or on one without.
fn floor(kind: LockKind, bytes: bool) -> &'static str {
    use LockKind::*;
    match kind {
        Tas | PpcSpinLock | RwLock => CAS_STORE,
        Mcs => SWAP_CAS,
        Mutex => CAS_CAS,
        _ if kind.traits().sleeps => CAS_ADD,
        Ticket if bytes => ADD_HALF,
        Ticket => ADD_ADD,
        PpcQSpinLock if bytes => CAS_HALF,
        PvQSpinLock if bytes => CAS_CAS_BYTE,
        _ if bytes => CAS_BYTE,
        _ => CAS_CAS,
    }
}

fn read_floor(kind: LockKind) -> &'static str {
    match kind {
        LockKind::RwLock => CAS_ADD,
        _ => ADD_ADD,
    }
}

/// Every lock, on the word that `bytes` names.
fn locks<W: HostWord>(pairs: &mut Pairs<'_>, bytes: Option<&str>) {
    let word = bytes.unwrap_or("portable");
    for &kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        let name = |side| format!("{kind}{side}, {word}");
        let side = if kind.is_rw() { ", write" } else { "" };
        kind.visit::<Host<W>, _>(Pair {
            pairs,
            name: name(side),
            floor: floor(kind, bytes.is_some()),
        });
        kind.visit_rw::<Host<W>, _>(Pair {
            pairs,
            name: name(", read"),
            floor: read_floor(kind),
        });
    }
}

struct Pair<'a, 'b> {
    pairs: &'a mut Pairs<'b>,
    name: String,
    floor: &'static str,
}

impl<W: HostWord> LockVisitor<Host<W>> for Pair<'_, '_> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        let floor = self.floor;
        self.pairs.measure(&self.name, floor, &L::new(), |lock| {
            lock.lock();
            lock.unlock();
        });
    }
}

impl<W: HostWord> RwLockVisitor<Host<W>> for Pair<'_, '_> {
    type Output = ();

    fn visit<L: RawRwLock>(self) {
        let floor = self.floor;
        self.pairs.measure(&self.name, floor, &L::new(), |lock| {
            lock.read();
            lock.read_unlock();
        });
    }
}

fn peers(pairs: &mut Pairs<'_>) {
    let spin = spin::mutex::SpinMutex::<u32>::new(0);
    pairs.measure("spin: SpinMutex", CAS_CAS, &spin, |mutex| {
        drop(mutex.lock())
    });
    let ticket = spin::mutex::TicketMutex::<u32>::new(0);
    pairs.measure("spin: TicketMutex", CAS_CAS, &ticket, |mutex| {
        drop(mutex.lock())
    });
    let parking_lot = parking_lot::Mutex::new(0);
    pairs.measure("parking_lot: Mutex", CAS_CAS, &parking_lot, |mutex| {
        drop(mutex.lock())
    });
    let rwlock = parking_lot::RwLock::new(0);
    pairs.measure("parking_lot: RwLock, read", CAS_CAS, &rwlock, |lock| {
        drop(lock.read())
    });
    let std = std::sync::Mutex::new(0);
    pairs.measure("std: Mutex", CAS_CAS, &std, |mutex| drop(mutex.lock()));
}
