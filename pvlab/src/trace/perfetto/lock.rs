//! A vCPU's locks: the track of what it does to get them, and of those that it holds.
//!
//! Slices nest: a vCPU that waits for a lock may hold others, and one that halts is still queued. Where
//! locks are not released in the reverse order, the slices above the released one are ended with it
//! and begun again.

use super::names::{Arg, Category, Drawn, FIRST_HOW, Name, Shape};
use super::packets::{Kind, Packets, TrackEvent};
use super::proto::event;
use pvlock::trace::{Detail, TraceEvent};

/// Most slices open at a time. Kernels nest locks four deep; a stream that goes beyond this has lost
/// its releases, and starts anew.
const DEEPEST: usize = 32;

/// An open slice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    name: Name,
    lock: u16,
}

impl Open {
    /// It is within another slice of the same acquisition.
    const fn halted(self) -> bool {
        matches!(
            self.name,
            Name::HaltedQueued | Name::HaltedHead | Name::Halted
        )
    }

    const fn waits_in_queue(self) -> bool {
        matches!(self.name, Name::Queued | Name::Head)
    }
}

/// Adds what a step tells.
#[inline]
fn tell(event: TrackEvent<'_>, detail: Detail) -> TrackEvent<'_> {
    match detail {
        Detail::Nothing | Detail::Behind(None) => event,
        Detail::Behind(Some(cpu)) => event.arg(Arg::Behind, cpu),
        Detail::Ticket(ticket) => event.arg(Arg::Ticket, ticket),
        Detail::How(how) => event.text(Arg::How, FIRST_HOW + how as u8),
        Detail::Target(cpu) => event.arg(Arg::Target, cpu),
    }
}

/// A vCPU's track of locks.
#[derive(Default)]
pub(super) struct LockLane {
    track: u64,
    open: Vec<Open>,
    /// How many of them wait in a queue.
    pub(super) queued: i64,
    /// Nothing is known before this time, and nothing has been written since.
    fresh_since: Option<u64>,
    /// The flow that its next wake ends.
    kick: Option<u64>,
    /// It is halted.
    halted: bool,
}

impl LockLane {
    pub(super) fn new(track: u64) -> Self {
        Self {
            track,
            fresh_since: Some(0),
            ..Self::default()
        }
    }

    /// It has been kicked. The first kick of a halted vCPU is the one that wakes it; of kicks before
    /// that, only the last can still be on its way.
    pub(super) fn kicked(&mut self, flow: u64) {
        if self.kick.is_none() || !self.halted {
            self.kick = Some(flow);
        }
    }

    /// Writes a step. `flow` is that of a kick.
    #[inline]
    pub(super) fn step(
        &mut self,
        packets: &mut Packets,
        at: u64,
        lock: u16,
        step: TraceEvent,
        flow: Option<u64>,
    ) {
        let Drawn {
            shape,
            name,
            before,
        } = Drawn::of(step);
        let open = Open { name, lock };
        if let Some(since) = self.fresh_since.take()
            && let Some(name) = before
        {
            let open = Open { name, lock };
            self.begin(packets, since, open).derived().write();
        }
        let mut end_of_flow = None;
        let event = match shape {
            Shape::Begin => self.begin(packets, at, open),
            Shape::Turn => self.turn(packets, at, open),
            Shape::Halt => {
                self.wake(packets, at, lock);
                self.halted = true;
                self.begin(packets, at, open)
            }
            Shape::End => {
                self.wake(packets, at, lock);
                end_of_flow = self.kick.take();
                self.draw(packets, Kind::Instant, at, open)
            }
            Shape::Release => return self.release(packets, at, open),
            Shape::Instant => self.draw(packets, Kind::Instant, at, open),
        };
        let event = tell(event, step.detail()).flow(event::FLOW_IDS, flow);
        event.flow(event::TERMINATING_FLOW_IDS, end_of_flow).write();
    }

    /// Events are missing: nothing that was open is known to go on.
    pub(super) fn gap(&mut self, packets: &mut Packets, at: u64, dropped: u64) {
        self.close(packets, at);
        self.kick = None;
        self.halted = false;
        let event = packets.event(Kind::Instant, at, self.track);
        let event = event.name(Name::Gap, Category::Lock);
        event.arg(Arg::Dropped, dropped).write();
        self.fresh_since = Some(at);
    }

    /// Ends all slices.
    pub(super) fn close(&mut self, packets: &mut Packets, at: u64) {
        while self.pop(packets, at).is_some() {}
    }

    #[inline]
    fn draw<'a>(
        &self,
        packets: &'a mut Packets,
        kind: Kind,
        at: u64,
        Open { name, lock }: Open,
    ) -> TrackEvent<'a> {
        let event = packets.event(kind, at, self.track);
        event.name(name, Category::Lock).arg(Arg::Lock, lock)
    }

    #[inline]
    fn begin<'a>(&mut self, packets: &'a mut Packets, at: u64, open: Open) -> TrackEvent<'a> {
        if self.open.len() == DEEPEST {
            self.close(packets, at);
        }
        self.open.push(open);
        self.queued += i64::from(open.waits_in_queue());
        self.draw(packets, Kind::Begin, at, open)
    }

    /// Ends the innermost slice.
    #[inline]
    fn pop(&mut self, packets: &mut Packets, at: u64) -> Option<Open> {
        let open = self.open.pop()?;
        self.queued -= i64::from(open.waits_in_queue());
        packets.end_slice(at, self.track);
        Some(open)
    }

    /// Ends what the vCPU did about this lock, and begins the next.
    #[inline]
    fn turn<'a>(&mut self, packets: &'a mut Packets, at: u64, open: Open) -> TrackEvent<'a> {
        // A halt that lacks its wake, and what it is within.
        self.wake(packets, at, open.lock);
        let within = |top: &Open| top.lock == open.lock && top.name != Name::Holding;
        if self.open.last().is_some_and(within) {
            self.pop(packets, at);
        }
        self.begin(packets, at, open)
    }

    /// Ends a halt, if there is one.
    #[inline]
    fn wake(&mut self, packets: &mut Packets, at: u64, lock: u16) {
        self.halted = false;
        let halt = |top: &Open| top.lock == lock && top.halted();
        if self.open.last().is_some_and(halt) {
            self.pop(packets, at);
        }
    }

    /// Ends the holding of the lock. The end of its slice is the event, marked by the lock's number.
    #[inline]
    fn release(&mut self, packets: &mut Packets, at: u64, holding: Open) {
        let found = self.open.iter().rposition(|&open| open == holding);
        let depth = found.unwrap_or_else(|| {
            // Its acquisition is not in the trace.
            self.begin(packets, at, holding).derived().write();
            self.open.len() - 1
        });
        for _ in depth + 1..self.open.len() {
            packets.end_slice(at, self.track);
        }
        let event = packets.event(Kind::End, at, self.track);
        event.arg(Arg::Lock, holding.lock).write();
        self.open.remove(depth);
        for &open in &self.open[depth..] {
            let again = self.draw(packets, Kind::Begin, at, open);
            again.derived().write();
        }
    }
}
