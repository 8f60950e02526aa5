//! The trace ring: lock events of one vCPU, eight bytes each, for the host to take away.
//!
//! One producer, the vCPU, and one consumer, the host. The vCPU never waits: if the ring is full, the
//! event is counted as dropped, and an [`Entry::Gap`] tells where, as soon as there is room.
//!
//! | bits  | an event                              | [`Entry::Time`]  | [`Entry::Gap`]  |
//! |-------|---------------------------------------|------------------|-----------------|
//! | 0-31  | ticks since the record before         | bits 6-63 of the clock, in bits 0-57 | events dropped (at most) |
//! | 32-41 | lock number                           |                  |                 |
//! | 42-57 | argument (vCPU, ticket)               |                  |                 |
//! | 58-63 | kind                                  | 62               | 63              |
//!
//! A `Time` precedes the first record, and any that comes too long after the one before for 32 bits.

use pvlock::{How, TraceEvent};

/// Locks that can be told apart in a trace.
pub const MAX_LOCKS: usize = 1 << LOCK_BITS;

const DELTA_BITS: u32 = 32;
const LOCK_BITS: u32 = 10;
const ARG_SHIFT: u32 = DELTA_BITS + LOCK_BITS;
const KIND_SHIFT: u32 = 58;
/// Bits of the clock that an [`Entry::Time`] leaves out.
pub const TIME_SHIFT: u32 = 6;

const KIND_TIME: u64 = 62;
const KIND_GAP: u64 = 63;

/// What is in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
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

impl Entry {
    /// The entry as a word of the ring.
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

    /// The entry that a word stands for; `None` if it stands for none.
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
    /// The time of `entry`, given those before.
    pub const fn advance(&mut self, entry: Entry) -> u64 {
        match entry {
            Entry::Time(ticks) => self.0 = ticks,
            Entry::Event { delta, .. } => self.0 += delta as u64,
            Entry::Gap(_) => {}
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_survives_the_ring() {
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
                let entry = Entry::Event { delta, lock, event };
                assert_eq!(Entry::decode(entry.encode()), Some(entry));
            }
        }
        let gap = Entry::Gap(u32::MAX);
        assert_eq!(Entry::decode(gap.encode()), Some(gap));
        // The low bits of a time are the event's that follows.
        let time = Entry::decode(Entry::Time(u64::MAX).encode());
        assert_eq!(time, Some(Entry::Time(!63)));
        assert_eq!(Entry::decode(40 << 58), None);
        assert_eq!(
            Entry::decode(
                Entry::Event {
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
        let event = |delta| Entry::Event {
            delta,
            lock: 0,
            event: TraceEvent::Head,
        };
        assert_eq!(clock.advance(Entry::Time(6400)), 6400);
        assert_eq!(clock.advance(event(3)), 6403);
        assert_eq!(clock.advance(Entry::Gap(2)), 6403);
        assert_eq!(clock.advance(event(7)), 6410);
    }
}
