//! What critical sections touch, and what not.

#![allow(clippy::unwrap_used)] // A test fails by panicking.
#![allow(unsafe_code)] // The region is given by address.

mod support;

use abi::{Counter, Data, LockSlot, Params};
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Lab, exact, pinned, spin};

/// The words of the first lock's slot after a while of work.
fn slot_after(data: Data) -> Vec<u64> {
    let params = Params {
        data: data as u64,
        ..spin("tas", 2)
    };
    let mut lab = Lab::new(&exact(&[]), 1, params, &pinned(2, 2));
    let got: u64 = lab.measure(10_000, 100_000).iter().sum();
    assert!(got > 100, "{got}");
    assert_eq!(lab.total(Counter::Violations), 0);
    let start = lab.region.host_address().unwrap() + lab.region.layout().lock(0);
    let words = (0..size_of::<LockSlot>() / 8).map(|word| {
        // SAFETY: within the region, aligned, only ever used atomically, and nothing executes.
        let word: &AtomicU64 = unsafe { &*std::ptr::with_exposed_provenance(start + 8 * word) };
        word.load(Ordering::Relaxed)
    });
    words.collect()
}

#[test]
fn nothing_is_touched_but_the_lock_and_the_data_that_was_asked_for() {
    for data in Data::ALL {
        let expected = LockSlot::guarded_offset(data);
        let words = slot_after(data);
        // The lock is in the first word.
        let touched = (1..words.len()).filter(|&place| words[place] != 0);
        let touched: Vec<usize> = touched.map(|place| 8 * place).collect();
        match expected {
            None => assert!(touched.is_empty(), "{touched:?}"),
            Some([owner, count]) => {
                assert!(touched.contains(&count), "{data:?}: {touched:?}");
                let others = touched
                    .iter()
                    .filter(|place| ![owner, count].contains(place));
                assert_eq!(others.count(), 0, "{data:?}: {touched:?}");
            }
        }
    }
}
