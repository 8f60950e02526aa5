//! The memory that a guest shares with its host, with anything in it: the host reads all that it ever reads.
#![allow(unsafe_code)] // Writes as a guest does, past all that keeps the host from it.

use crate::words;
use abi::{HISTS, Params, TaskArea, VcpuArea};
use host::Region;
use host::region::RegionError;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What there is.
const PARAMS: Params = {
    // Without a constant default.
    let zeros = [0u64; size_of::<Params>() / 8];
    // SAFETY: a Params is 64-bit words, all of which may be 0.
    let zeros: Params = unsafe { std::mem::transmute(zeros) };
    Params {
        vcpus: 2,
        locks: 2,
        tasks: 2,
        trace_records: 16,
        ..zeros
    }
};

/// Pairs of words: where to write, and what.
pub(crate) fn region(bytes: &[u8]) {
    let Ok(region) = Region::in_process(&PARAMS) else {
        return;
    };
    let Ok(base) = region.host_address() else {
        return;
    };
    let mut taken = [0; 2];
    look(&region, &mut taken);
    for &[place, value] in words(bytes).as_chunks::<2>().0 {
        let place = usize::try_from(place).unwrap_or(0) % region.layout().size() / 8 * 8;
        let word: *const AtomicU64 = std::ptr::with_exposed_provenance(base + place);
        // SAFETY: an aligned word within the region, which lives as long as `region`, and which all access
        // atomically.
        unsafe { &*word }.store(value, Relaxed);
    }
    look(&region, &mut taken);
    look(&region, &mut taken);
}

/// Nothing but a count that cannot be keeps the host from reading.
fn check<T>(read: Result<T, RegionError>) {
    if let Err(error) = read {
        assert!(
            !matches!(error, RegionError::Access(_) | RegionError::Map { .. }),
            "{error}"
        );
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

fn look(region: &Region, taken: &mut [u64; 2]) {
    check(region.acquisitions());
    check(region.preempted_is_reported());
    for lock in 0..region.layout().locks() {
        check(region.lock(lock));
    }
    for task in 0..region.layout().tasks() {
        check(region.task_phase(task));
        check(region.task_count(task, offset_of!(TaskArea, reads)));
    }
    for (cpu, taken) in taken.iter_mut().enumerate() {
        check(region.state(cpu));
        check(
            region
                .counters(cpu)
                .map(|counters| counters.iter().sum::<u64>()),
        );
        for hist in 0..HISTS {
            check(region.hist(cpu, hist).map(|hist| hist.iter().sum::<u64>()));
        }
        let mark = offset_of!(VcpuArea, begun);
        check(region.counters_of_mark(cpu, mark));
        check(region.hist_of_mark(cpu, mark, offset_of!(abi::Mark, waits)));
        check(region.steal(cpu));
        check(region.calibration(cpu));
        check(region.queue_nodes(cpu).map(|nodes| {
            for node in nodes {
                assert!(!format!("{node:?}").is_empty());
            }
        }));
        check(region.log(cpu).map(|log| {
            assert!(!log.chars().any(|c| c.is_control() && c != '\n'), "{log:?}");
        }));
        check(region.trace_aside(cpu));
        check(region.trace_dropped(cpu));
        let mut records = Vec::new();
        check(region.drain_trace(cpu, taken, &mut records));
        assert!(records.len() <= 8 * 16);
        check(region.count_yield(cpu, host::yielding::Yielded::WasHalted));
    }
}
