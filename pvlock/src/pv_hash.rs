//! The table in which a releasing CPU finds the sleeping queue head of a lock.
//!
//! Open addressing with linear probing from the start of a 64-byte line (four slots), so that the
//! common lookup touches one line. A lock has at most one entry, and a CPU at most one per context,
//! so a table of [`slots_for`] slots is never more than half full.
//!
//! | step   | accesses                                   | pairs with                              |
//! |--------|--------------------------------------------|-----------------------------------------|
//! | insert | CAS lock 0 -> key (Acquire); store node    | Acquire: the Release clear in remove     |
//! | remove | load lock == key; load node; lock = 0 (Release) | Release: the Acquire CAS of an insert |
//!
//! That the remover sees the node at all is the caller's business: in [`crate::qspinlock`] the
//! inserter marks the lock word with a full exchange afterwards, and the remover has seen that mark.

use crate::Platform;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::event::LockEvent;
use crate::percpu::NodeRef;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Slots in a 64-byte line.
const SLOTS_PER_LINE: usize = 4;
/// 2^64 divided by the golden ratio (Fibonacci hashing; Knuth, TAOCP vol. 3, 6.4).
const GOLDEN_RATIO_64: u64 = 0x61C8_8646_80B5_83EB;

/// One entry: which lock, and who sleeps as the head of its queue.
#[repr(C, align(16))]
pub struct HashSlot<P: Platform> {
    /// The lock's key, 0 if the slot is free.
    pub lock: P::U64,
    /// The sleeper's [`NodeRef`].
    pub node: P::U32,
}

zeroed!(HashSlot: lock: U64, node: U32);

/// How many slots a machine of `cpus` CPUs needs: a power of two, 256 at least.
pub const fn slots_for(cpus: usize) -> usize {
    let wanted = 2 * crate::MAX_NODES * cpus;
    if wanted < 256 {
        256
    } else {
        wanted.next_power_of_two()
    }
}

/// The slots in probing order for `key`.
fn probe<P: Platform>(key: u64) -> impl Iterator<Item = &'static HashSlot<P>> {
    let table = P::pv_hash();
    assert!(
        table.len().is_power_of_two(),
        "the pv hash table must have 2^n slots"
    );
    let bits = table.len().trailing_zeros();
    // The top bits of the product; a table of one slot would shift by 64.
    let hash = key
        .wrapping_mul(GOLDEN_RATIO_64)
        .checked_shr(64 - bits)
        .unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, reason = "below the table's length")]
    let start = hash as usize & !(SLOTS_PER_LINE - 1);
    (0..table.len()).map(move |i| &table[(start + i) & (table.len() - 1)])
}

/// Enters the sleeper `node` of the lock `key`.
///
/// # Panics
/// If the table is full: it was made for fewer CPUs than there are.
pub(crate) fn insert<P: Platform>(key: u64, node: NodeRef) -> &'static HashSlot<P> {
    for (hop, slot) in probe::<P>(key).enumerate() {
        // Acquire pairs with the Release in clear(): our store below stays behind the previous
        // remover's load of the node.
        if slot.lock.compare_exchange(0, key, Acquire, Relaxed).is_ok() {
            slot.node.store(node.raw().into(), Relaxed);
            P::count(LockEvent::PvHashHops, hop as u64 + 1);
            return slot;
        }
    }
    panic!(
        "pv-qspinlock: the hash table of {} slots is full",
        P::pv_hash().len()
    );
}

/// Frees `slot`.
pub(crate) fn clear<P: Platform>(slot: &HashSlot<P>) {
    // Release pairs with the Acquire in insert().
    slot.lock.store(0, Release);
}

/// The sleeper of the lock `key`, if there is one: it may be gone when this returns, or be that of another
/// lock that has taken the slot meanwhile.
pub(crate) fn find<P: Platform>(key: u64) -> Option<NodeRef> {
    let slot = probe::<P>(key).find(|slot| slot.lock.load(Relaxed) == key)?;
    NodeRef::from_raw(slot.node.load(Relaxed))
}

/// Takes out the entry of the lock `key`.
///
/// # Panics
/// If there is none: a lock word marked as having a sleeper always has an entry.
pub(crate) fn remove<P: Platform>(key: u64) -> NodeRef {
    for slot in probe::<P>(key) {
        if slot.lock.load(Relaxed) == key {
            let node = NodeRef::from_raw(slot.node.load(Relaxed));
            clear(slot);
            return node.expect("an entry names its sleeper");
        }
    }
    panic!("pv-qspinlock: lock {key:#x} is marked as having a sleeper, but none is hashed");
}
