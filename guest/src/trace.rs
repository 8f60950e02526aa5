//! The trace ring: lock events of one vCPU, eight bytes each, for the host to take away.
//!
//! One producer, the vCPU, and one consumer, the host. The vCPU never waits: if the ring is full, the
//! event is counted as dropped, and a [`Record::Gap`] tells where, as soon as there is room.
//!
//! | bits  | an event                              | [`Record::Time`] | [`Record::Gap`] |
//! |-------|---------------------------------------|------------------|-----------------|
//! | 0-31  | ticks since the record before         | bits 6-63 of the clock, in bits 0-57 | events dropped (at most) |
//! | 32-41 | lock number                           |                  |                 |
//! | 42-57 | argument (vCPU, ticket)               |                  |                 |
//! | 58-63 | kind                                  | 62               | 63              |
//!
//! A `Time` precedes the first record, and any that comes too long after the one before for 32 bits.

use crate::Machine;
use crate::abi::{ASIDE, LockSlot, TraceRing, VcpuArea, phase, preempt};
use crate::workload::nested;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pvlock::{How, TraceEvent};

/// Locks that can be told apart in a trace.
pub const MAX_LOCKS: usize = 1 << LOCK_BITS;

const DELTA_BITS: u32 = 32;
const LOCK_BITS: u32 = 10;
const ARG_SHIFT: u32 = DELTA_BITS + LOCK_BITS;
const KIND_SHIFT: u32 = 58;
/// Bits of the clock that a [`Record::Time`] leaves out.
const TIME_SHIFT: u32 = 6;

const KIND_TIME: u64 = 62;
const KIND_GAP: u64 = 63;

/// What is in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// From here on, times count from this one.
    Time(u64),
    /// A step of an acquisition, `delta` ticks after the record before.
    Event {
        /// Ticks since the record before.
        delta: u32,
        /// The lock's number.
        lock: u16,
        /// The step.
        event: TraceEvent,
    },
    /// So many events are missing here.
    Gap(u32),
}

/// Kind and argument of an event.
#[inline(always)]
const fn code(event: TraceEvent) -> (u64, u16) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a vCPU's number is below 2^14"
    )]
    match event {
        TraceEvent::Start => (0, 0),
        TraceEvent::QueuedBehind(None) => (1, 0),
        TraceEvent::QueuedBehind(Some(cpu)) => (2, cpu as u16),
        TraceEvent::QueuedWithTicket(ticket) => (3, ticket),
        TraceEvent::Head => (4, 0),
        TraceEvent::HaltQueued => (5, 0),
        TraceEvent::HaltHead => (6, 0),
        TraceEvent::Woken => (7, 0),
        TraceEvent::Spurious => (8, 0),
        TraceEvent::Acquired(how) => (9, how as u16),
        TraceEvent::Release => (10, 0),
        TraceEvent::Kick(cpu) => (11, cpu as u16),
        TraceEvent::Yield(cpu) => (12, cpu as u16),
    }
}

const fn event_of(kind: u64, arg: u16) -> Option<TraceEvent> {
    Some(match kind {
        0 => TraceEvent::Start,
        1 => TraceEvent::QueuedBehind(None),
        2 => TraceEvent::QueuedBehind(Some(arg as u32)),
        3 => TraceEvent::QueuedWithTicket(arg),
        4 => TraceEvent::Head,
        5 => TraceEvent::HaltQueued,
        6 => TraceEvent::HaltHead,
        7 => TraceEvent::Woken,
        8 => TraceEvent::Spurious,
        9 => TraceEvent::Acquired(match arg {
            0 => How::Fast,
            1 => How::Pending,
            2 => How::Queue,
            3 => How::Stolen,
            _ => return None,
        }),
        10 => TraceEvent::Release,
        11 => TraceEvent::Kick(arg as u32),
        12 => TraceEvent::Yield(arg as u32),
        _ => return None,
    })
}

impl Record {
    /// The record as a word of the ring.
    #[inline(always)]
    pub const fn encode(self) -> u64 {
        match self {
            Self::Time(ticks) => KIND_TIME << KIND_SHIFT | ticks >> TIME_SHIFT,
            Self::Gap(events) => KIND_GAP << KIND_SHIFT | events as u64,
            Self::Event { delta, lock, event } => {
                let (kind, arg) = code(event);
                let lock = (lock as u64 & ((1 << LOCK_BITS) - 1)) << DELTA_BITS;
                kind << KIND_SHIFT | (arg as u64) << ARG_SHIFT | lock | delta as u64
            }
        }
    }

    /// The record that a word stands for; `None` if it stands for none.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fields are cut out by shifting"
    )]
    pub const fn decode(word: u64) -> Option<Self> {
        match word >> KIND_SHIFT {
            KIND_TIME => Some(Self::Time(word << TIME_SHIFT)),
            KIND_GAP => Some(Self::Gap(word as u32)),
            kind => match event_of(kind, (word >> ARG_SHIFT) as u16) {
                Some(event) => {
                    let lock = (word >> DELTA_BITS) as u16 & ((1 << LOCK_BITS) - 1);
                    Some(Self::Event {
                        delta: word as u32,
                        lock,
                        event,
                    })
                }
                None => None,
            },
        }
    }
}

/// The clock of a ring's reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock(u64);

impl Clock {
    /// The time of `record`, given those before.
    pub const fn advance(&mut self, record: Record) -> u64 {
        match record {
            Record::Time(ticks) => self.0 = ticks,
            Record::Event { delta, .. } => self.0 += delta as u64,
            Record::Gap(_) => {}
        }
        self.0
    }
}

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
    let ring = &vcpu.trace;
    if ring.capacity > 0 {
        let offset = core::ptr::from_ref(lock).addr() as u64 - vcpu.locks;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "traced runs have at most MAX_LOCKS"
        )]
        let lock = (offset / size_of::<LockSlot>() as u64) as u16;
        let word = Record::Event {
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
        TraceEvent::Acquired(_) => hold_off::<M>(vcpu, preempt::HOLDER),
        TraceEvent::Head | TraceEvent::QueuedBehind(None) => {
            hold_off::<M>(vcpu, preempt::NEXT_WAITER);
        }
        _ => {}
    }
}

/// Touches every page of the ring, so that none has to be brought in while it is written.
pub fn prepare(vcpu: &VcpuArea) {
    const RECORDS_PER_PAGE: usize = 512;
    for number in (0..vcpu.trace.capacity).step_by(RECORDS_PER_PAGE) {
        vcpu.trace.slot(number).store(0, Relaxed);
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
        ring.slot(at).store(Record::Time(now).encode(), Relaxed);
        at += 1;
        delta = now & ((1 << TIME_SHIFT) - 1);
    }
    ring.slot(at).store(word | delta, Relaxed);
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
    let gap = Record::Gap(u32::try_from(untold).unwrap_or(u32::MAX));
    ring.slot(head).store(gap.encode(), Relaxed);
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

/// True in that share of cases, a multiple of 2^-32.
pub(crate) fn by_chance(vcpu: &VcpuArea, share: u64) -> bool {
    // xorshift64 (Marsaglia 2003), seeded by vCPU on its first use.
    let mut x = match vcpu.trace.chance.load(Relaxed) {
        0 => {
            let seed = vcpu.header().params.seed;
            (seed ^ u64::from(vcpu.cpu + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1
        }
        x => x,
    };
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    vcpu.trace.chance.store(x, Relaxed);
    x >> 32 < share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_survives_the_ring() {
        let mut events = vec![
            TraceEvent::Start,
            TraceEvent::QueuedBehind(None),
            TraceEvent::QueuedBehind(Some(0)),
            TraceEvent::QueuedBehind(Some(4095)),
            TraceEvent::QueuedWithTicket(0xffff),
            TraceEvent::Head,
            TraceEvent::HaltQueued,
            TraceEvent::HaltHead,
            TraceEvent::Woken,
            TraceEvent::Spurious,
            TraceEvent::Release,
            TraceEvent::Kick(4095),
            TraceEvent::Yield(1),
        ];
        events.extend(How::ALL.map(TraceEvent::Acquired));
        for event in events {
            for (delta, lock) in [(0, 0), (u32::MAX, 1023), (77, 5)] {
                let record = Record::Event { delta, lock, event };
                assert_eq!(Record::decode(record.encode()), Some(record));
            }
        }
        let gap = Record::Gap(u32::MAX);
        assert_eq!(Record::decode(gap.encode()), Some(gap));
        // The low bits of a time are the event's that follows.
        let time = Record::decode(Record::Time(u64::MAX).encode());
        assert_eq!(time, Some(Record::Time(!63)));
        assert_eq!(Record::decode(40 << 58), None);
        assert_eq!(
            Record::decode(
                Record::Event {
                    delta: 0,
                    lock: 0,
                    event: TraceEvent::Acquired(How::Fast)
                }
                .encode()
                    | 9 << 42
            ),
            None
        );
    }

    #[test]
    fn times_add_up() {
        let mut clock = Clock::default();
        let event = |delta| Record::Event {
            delta,
            lock: 0,
            event: TraceEvent::Head,
        };
        assert_eq!(clock.advance(Record::Time(6400)), 6400);
        assert_eq!(clock.advance(event(3)), 6403);
        assert_eq!(clock.advance(Record::Gap(2)), 6403);
        assert_eq!(clock.advance(event(7)), 6410);
    }
}
