//! What a guest writes that is read as it is: records, steps, words of locks, doorbells.

use crate::words;
use abi::ring::{Clock, Entry};
use abi::{Data, Dispatch, Doorbell, HostStep, Switch, VcpuState, Workload, hist};
use pvlock::{LockKind, NodeRef};

/// Records of trace rings, steps of the host, and words of locks.
pub(crate) fn records(bytes: &[u8]) {
    let words = words(bytes);
    let mut clock = Clock::default();
    for &word in &words {
        if let Some(entry) = Entry::decode(word) {
            clock.advance(entry);
            // What is read is what would have been written.
            assert_eq!(Entry::decode(entry.encode()), Some(entry), "{word:#x}");
        }
        let low = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        if let Some(node) = NodeRef::from_raw(low) {
            assert!(!node.to_string().is_empty());
        }
        for kind in LockKind::ALL {
            assert!(!kind.describe(word).to_string().is_empty());
        }
        let _ = (
            VcpuState::from_raw(low),
            Workload::from_raw(word),
            Data::from_raw(word),
            Dispatch::from_raw(word),
            LockKind::from_id(low),
        );
        assert!(hist::bucket_values(hist::bucket_of(word)).contains(&word));
    }
    for &step in words.as_chunks::<2>().0 {
        if let Some(step) = HostStep::from_words(step) {
            assert_eq!(HostStep::from_words(step.words()), Some(step));
        }
    }
    for &switch in words.as_chunks::<3>().0 {
        if let Some(switch) = Switch::from_words(switch) {
            assert_eq!(Switch::from_words(switch.words()), Some(switch));
        }
    }
}

/// Addresses of doorbells.
pub(crate) fn doorbells(bytes: &[u8]) {
    for address in words(bytes) {
        // Those that are near, too: the pages of doorbells are few.
        for address in [address, Doorbell::BASE + address % (2 * Doorbell::SIZE)] {
            if let Some(bell) = Doorbell::from_address(address) {
                assert_eq!(bell.address(), address);
                assert!((Doorbell::BASE..Doorbell::BASE + Doorbell::SIZE).contains(&address));
            }
        }
    }
}

/// What was collected of a run, merged.
pub(crate) fn merge(bytes: &[u8]) {
    pvlab::fuzzing::merge(&words(bytes));
}
