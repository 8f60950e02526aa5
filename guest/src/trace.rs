//! Fills the trace ring ([`abi::ring`]) with what a vCPU does about its locks.

use crate::Machine;
use crate::machine::{VcpuAreaExt as _, deref};
use crate::workload::choice::by_chance;
use crate::workload::nested;
use abi::ring::{Entry, TIME_SHIFT};
use abi::{ASIDE, LockSlot, TraceRing, VcpuArea, phase, preempt};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pvlock::TraceEvent;

/// Notes `event` of the lock in `lock`, and interrupts the vCPU or holds it off its CPU if chance will
/// have it.
///
/// For [`pvlock::Platform::trace`]. While the lock is held, looking at the clock is all that is done:
/// `Acquired` and `Release` are put aside, and written with the next event, after the release.
#[inline(always)]
pub fn record<M: Machine, L>(lock: &L, event: TraceEvent) {
    let vcpu = M::vcpu();
    nested::at::<M>(vcpu, event);
    if vcpu.header().control.phase.load(Relaxed) != phase::MEASURE {
        return;
    }
    const SLOT_BYTES: u64 = size_of::<LockSlot>() as u64;
    let offset = core::ptr::from_ref(lock).addr() as u64 - vcpu.locks;
    // A lock that is not where its slot begins is the wait lock of the one that is.
    let within = !offset.is_multiple_of(SLOT_BYTES);
    let ring = &vcpu.trace;
    if ring.capacity > 0 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "traced runs have at most MAX_LOCKS"
        )]
        let lock = (offset / SLOT_BYTES) as u16;
        let acquiring = u64::from(lock) + 1;
        let event = if within {
            let acquires = ring.acquiring.load(Relaxed) == acquiring;
            match of_wait_lock(event, acquires) {
                Some(event) => event,
                None => return,
            }
        } else {
            match event {
                TraceEvent::Start => ring.acquiring.store(acquiring, Relaxed),
                TraceEvent::Acquired(_) => ring.acquiring.store(0, Relaxed),
                _ => {}
            }
            event
        };
        let word = Entry::Event {
            delta: 0,
            lock,
            event,
        }
        .encode();
        match event {
            TraceEvent::Acquired(_) | TraceEvent::Release => put_aside(ring, M::now(), word),
            _ => {
                let now = M::now();
                write_aside(ring);
                push(ring, now, word);
            }
        }
    }
    match event {
        // The vCPU that is next for a wait lock is not next for the lock.
        _ if within => {}
        TraceEvent::Acquired(_) => hold_off::<M>(vcpu, preempt::HOLDER),
        TraceEvent::Head | TraceEvent::QueuedBehind(None) => {
            hold_off::<M>(vcpu, preempt::NEXT_WAITER);
        }
        _ => {}
    }
}

/// What a step of a wait lock is for the lock that it belongs to; `None` if it is nothing.
///
/// The queue is the same for both, and the lock itself tells when it begins to wait, when its turn has
/// come (it has the wait lock), and when it has waited enough. All waiting for the wait lock is before
/// that, hence *queued*. Readers report nothing themselves, and so nothing of theirs is of use but whom
/// they kick: `acquires` says whether the vCPU acquires the lock in a way that is reported.
#[inline(always)]
const fn of_wait_lock(event: TraceEvent, acquires: bool) -> Option<TraceEvent> {
    match event {
        TraceEvent::Kick(_) => Some(event),
        TraceEvent::Start | TraceEvent::Head | TraceEvent::Acquired(_) | TraceEvent::Release => {
            None
        }
        TraceEvent::HaltHead if acquires => Some(TraceEvent::HaltQueued),
        _ if acquires => Some(event),
        _ => None,
    }
}

/// The place of record number `number`.
#[inline(always)]
fn slot(ring: &TraceRing, number: u64) -> &'static AtomicU64 {
    let place = number & (ring.capacity - 1);
    deref(ring.records + 8 * place)
}

/// Touches every page of the ring, so that none has to be brought in while it is written.
pub fn prepare(vcpu: &VcpuArea) {
    const RECORDS_PER_PAGE: usize = 512;
    for number in (0..vcpu.trace.capacity).step_by(RECORDS_PER_PAGE) {
        slot(&vcpu.trace, number).store(0, Relaxed);
    }
}

/// Writes what has been put aside; for a vCPU that ends.
pub fn finish(vcpu: &VcpuArea) {
    if vcpu.trace.capacity > 0 {
        write_aside(&vcpu.trace);
    }
}

#[inline(always)]
fn put_aside(ring: &TraceRing, now: u64, word: u64) {
    let mut number = ring.aside.load(Relaxed);
    if number == ASIDE as u64 {
        write_aside(ring);
        number = 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than ASIDE")]
    let [time, record] = &ring.aside_records[number as usize % ASIDE];
    time.store(now, Relaxed);
    record.store(word, Relaxed);
    ring.aside.store(number + 1, Relaxed);
}

#[inline(always)]
fn write_aside(ring: &TraceRing) {
    let count = ring.aside.load(Relaxed);
    #[expect(clippy::cast_possible_truncation, reason = "at most ASIDE")]
    for [time, record] in ring.aside_records.iter().take(count as usize) {
        push(ring, time.load(Relaxed), record.load(Relaxed));
    }
    ring.aside.store(0, Relaxed);
}

/// Writes an event that happened at `now`; `word` is without its time.
#[inline(always)]
fn push(ring: &TraceRing, now: u64, word: u64) {
    let mut at = ring.head.load(Relaxed);
    // Room for a Gap, a Time and the event. The host's progress is looked up only when needed.
    if at + 3 > ring.full_at.load(Relaxed) {
        match make_room(ring, at) {
            Some(after_gap) => at = after_gap,
            None => return,
        }
    }
    let mut delta = now.saturating_sub(ring.last.load(Relaxed));
    if delta > u64::from(u32::MAX) {
        slot(ring, at).store(Entry::Time(now).encode(), Relaxed);
        at += 1;
        delta = now & ((1 << TIME_SHIFT) - 1);
    }
    slot(ring, at).store(word | delta, Relaxed);
    ring.last.store(now, Relaxed);
    // Release pairs with the host's Acquire load: it reads complete records.
    ring.head.store(at + 1, Release);
}

/// Looks whether the host has made room; if not, counts an event as dropped. If some were dropped
/// before, tells of them first. Returns where to go on.
#[cold]
#[inline(never)]
fn make_room(ring: &TraceRing, head: u64) -> Option<u64> {
    // Acquire pairs with the host's Release store: it has read what we now overwrite.
    let full_at = ring.tail.load(Acquire) + ring.capacity;
    let dropped = ring.dropped.load(Relaxed);
    if head + 3 > full_at {
        ring.dropped.store(dropped + 1, Relaxed);
        return None;
    }
    ring.full_at.store(full_at, Relaxed);
    let untold = dropped - ring.dropped_told.load(Relaxed);
    if untold == 0 {
        return Some(head);
    }
    ring.dropped_told.store(dropped, Relaxed);
    let gap = Entry::Gap(u32::try_from(untold).unwrap_or(u32::MAX));
    slot(ring, head).store(gap.encode(), Relaxed);
    Some(head + 1)
}

/// Preemption on demand: gives up the CPU for the time asked for, in the share of events asked for.
#[inline(always)]
fn hold_off<M: Machine>(vcpu: &VcpuArea, whom: u64) {
    let params = &vcpu.header().params;
    if params.preempt_whom == whom {
        hold_off_sometimes::<M>(vcpu);
    }
}

#[cold]
#[inline(never)]
fn hold_off_sometimes<M: Machine>(vcpu: &VcpuArea) {
    let params = &vcpu.header().params;
    if by_chance(vcpu, params.preempt_share) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the host allows less than 2^32 ns"
        )]
        M::hold_off(params.preempt_ns as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvlock::How;

    #[test]
    fn a_wait_lock_tells_who_queues_and_halts_but_not_who_is_next() {
        let kept = [
            TraceEvent::QueuedBehind(None),
            TraceEvent::QueuedWithTicket(3),
            TraceEvent::HaltQueued,
            TraceEvent::Woken,
            TraceEvent::Spurious,
        ];
        for event in kept {
            assert_eq!(of_wait_lock(event, true), Some(event));
            assert_eq!(of_wait_lock(event, false), None);
        }
        let queued = Some(TraceEvent::HaltQueued);
        assert_eq!(of_wait_lock(TraceEvent::HaltHead, true), queued);
        for acquires in [false, true] {
            let kick = TraceEvent::Kick(7);
            assert_eq!(of_wait_lock(kick, acquires), Some(kick));
            for event in [
                TraceEvent::Start,
                TraceEvent::Head,
                TraceEvent::Acquired(How::Queue),
                TraceEvent::Release,
            ] {
                assert_eq!(of_wait_lock(event, acquires), None);
            }
        }
    }
}
