//! The trace ring: lock events of one vCPU, eight bytes each, for the host to take away.
//!
//! One producer, the vCPU, and one consumer, the host. The vCPU never waits: if the ring is full, the
//! event is counted as dropped, and an [`Entry::Gap`] tells where, as soon as there is room.
//!
//! | bits  | an event                              | [`Entry::Time`]  | [`Entry::Gap`]  |
//! |-------|---------------------------------------|------------------|-----------------|
//! | 0-31  | ticks since the record before         | bits 6-63 of the clock, in bits 0-57 | events dropped (at most) |
//! | 32-41 | lock number                           |                  |                 |
//! | 42-57 | detail (vCPU, ticket)                 |                  |                 |
//! | 58-63 | place in [`TraceEvent::ALL`]          | 62               | 63              |
//!
//! A `Time` precedes the first record, and any that comes too long after the one before for 32 bits.

use pvlock::trace::{Detail, How, TraceEvent};

/// Locks that can be told apart in a trace.
pub const MAX_LOCKS: usize = 1 << LOCK_BITS;

const DELTA_BITS: u32 = 32;
const LOCK_BITS: u32 = 10;
const DETAIL_SHIFT: u32 = DELTA_BITS + LOCK_BITS;
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

/// Stands for no vCPU in the bits of a detail: a vCPU's number is below 2^14.
const NOBODY: u16 = u16::MAX;

/// The detail of a step as 16 bits.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a vCPU's number is below 2^14"
)]
const fn bits(detail: Detail) -> u16 {
    match detail {
        Detail::Nothing => 0,
        Detail::Behind(None) => NOBODY,
        Detail::Behind(Some(cpu)) | Detail::Target(cpu) => cpu as u16,
        Detail::Ticket(ticket) => ticket,
        Detail::How(how) => how as u16,
    }
}

/// The detail, of the same kind as `like`, that the bits stand for.
const fn detail_of(like: Detail, bits: u16) -> Option<Detail> {
    Some(match like {
        Detail::Nothing => like,
        Detail::Behind(_) if bits == NOBODY => Detail::Behind(None),
        Detail::Behind(_) => Detail::Behind(Some(bits as u32)),
        Detail::Target(_) => Detail::Target(bits as u32),
        Detail::Ticket(_) => Detail::Ticket(bits),
        Detail::How(_) if (bits as usize) < How::ALL.len() => Detail::How(How::ALL[bits as usize]),
        Detail::How(_) => return None,
    })
}

const _: () = assert!(TraceEvent::ALL.len() as u64 <= KIND_TIME);

impl Entry {
    /// The entry as a word of the ring.
    #[inline(always)]
    pub const fn encode(self) -> u64 {
        match self {
            Self::Time(ticks) => KIND_TIME << KIND_SHIFT | ticks >> TIME_SHIFT,
            Self::Gap(events) => KIND_GAP << KIND_SHIFT | events as u64,
            Self::Event { delta, lock, event } => {
                let (kind, detail) = (event.number() as u64, bits(event.detail()) as u64);
                let lock = (lock as u64 & ((1 << LOCK_BITS) - 1)) << DELTA_BITS;
                kind << KIND_SHIFT | detail << DETAIL_SHIFT | lock | delta as u64
            }
        }
    }

    /// The entry that a word stands for; `None` if it stands for none.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fields are cut out by shifting"
    )]
    pub fn decode(word: u64) -> Option<Self> {
        match word >> KIND_SHIFT {
            KIND_TIME => Some(Self::Time(word << TIME_SHIFT)),
            KIND_GAP => Some(Self::Gap(word as u32)),
            kind => {
                let like = TraceEvent::ALL.get(usize::try_from(kind).ok()?)?;
                let detail = detail_of(like.detail(), (word >> DETAIL_SHIFT) as u16)?;
                Some(Self::Event {
                    delta: word as u32,
                    lock: (word >> DELTA_BITS) as u16 & ((1 << LOCK_BITS) - 1),
                    event: like.with(detail),
                })
            }
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
            // A guest may have written any time before it.
            Entry::Event { delta, .. } => self.0 = self.0.wrapping_add(delta as u64),
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
        let mut events = TraceEvent::ALL.to_vec();
        events.extend([
            TraceEvent::QueuedBehind(Some(0)),
            TraceEvent::QueuedBehind(Some(4095)),
            TraceEvent::QueuedWithTicket(0xffff),
            TraceEvent::Kick(4095),
            TraceEvent::Yield(1),
        ]);
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
