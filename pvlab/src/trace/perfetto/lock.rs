//! A vCPU's locks: the track of what it does to get them, and of those that it holds.
//!
//! Slices nest: a vCPU that waits for a lock may hold others, and one that halts is still queued. Where
//! locks are not released in the reverse order, the slices above the released one are ended with it
//! and begun again.

use super::names::{Arg, Category, Name, how_iid};
use super::packets::{Kind, Packets, TrackEvent};
use pvlock::TraceEvent;
use pvlock::trace::How;

/// Most slices open at a time. Kernels nest locks four deep; a stream that goes beyond this has lost
/// its releases, and starts anew.
const DEEPEST: usize = 32;

/// An open slice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    phase: Phase,
    lock: u16,
}

/// What a vCPU does about a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Spinning,
    Queued,
    Head,
    HaltedQueued,
    HaltedHead,
    /// Seen only from its wake, which does not tell which of the two it was.
    Halted,
    Holding,
}

impl Phase {
    const fn name(self) -> Name {
        match self {
            Self::Spinning => Name::Spinning,
            Self::Queued => Name::Queued,
            Self::Head => Name::Head,
            Self::HaltedQueued => Name::HaltedQueued,
            Self::HaltedHead => Name::HaltedHead,
            Self::Halted => Name::Halted,
            Self::Holding => Name::Holding,
        }
    }

    /// Within another slice of the same acquisition.
    const fn halted(self) -> bool {
        matches!(self, Self::HaltedQueued | Self::HaltedHead | Self::Halted)
    }

    const fn waits_in_queue(self) -> bool {
        matches!(self, Self::Queued | Self::Head)
    }

    /// What a vCPU whose first step is this must have done before, if that is certain.
    const fn before(step: TraceEvent) -> Option<Self> {
        match step {
            TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) => Some(Self::Spinning),
            TraceEvent::Head
            | TraceEvent::HaltQueued
            | TraceEvent::Spurious
            | TraceEvent::Acquired(How::Queue) => Some(Self::Queued),
            TraceEvent::HaltHead | TraceEvent::Acquired(How::Pending) => Some(Self::Head),
            TraceEvent::Woken => Some(Self::Halted),
            TraceEvent::Release => Some(Self::Holding),
            TraceEvent::Start
            | TraceEvent::Acquired(How::Fast | How::Stolen)
            | TraceEvent::Kick(_)
            | TraceEvent::Yield(_) => None,
        }
    }
}

/// A vCPU's track of locks.
pub(super) struct LockLane {
    track: u64,
    open: Vec<Open>,
    /// How many of them wait in a queue.
    queued: i64,
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
            open: Vec::with_capacity(DEEPEST),
            queued: 0,
            fresh_since: Some(0),
            kick: None,
            halted: false,
        }
    }

    /// Its places in queues.
    #[inline]
    pub(super) const fn queued(&self) -> i64 {
        self.queued
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
        if let Some(since) = self.fresh_since.take()
            && let Some(phase) = Phase::before(step)
        {
            self.begin(packets, since, phase, lock).derived().write();
        }
        match step {
            TraceEvent::Start => self.begin(packets, at, Phase::Spinning, lock).write(),
            TraceEvent::QueuedBehind(before) => {
                let event = self.turn(packets, at, Phase::Queued, lock);
                match before {
                    Some(cpu) => event.arg(Arg::Behind, cpu).write(),
                    None => event.write(),
                }
            }
            TraceEvent::QueuedWithTicket(ticket) => self
                .turn(packets, at, Phase::Queued, lock)
                .arg(Arg::Ticket, ticket)
                .write(),
            TraceEvent::Head => self.turn(packets, at, Phase::Head, lock).write(),
            TraceEvent::HaltQueued => self.halt(packets, at, Phase::HaltedQueued, lock),
            TraceEvent::HaltHead => self.halt(packets, at, Phase::HaltedHead, lock),
            TraceEvent::Woken => {
                self.wake(packets, at, lock);
                let flow = self.kick.take();
                self.instant(packets, at, Name::Woken, lock)
                    .flow_end(flow)
                    .write();
            }
            TraceEvent::Spurious => self.instant(packets, at, Name::Spurious, lock).write(),
            TraceEvent::Acquired(how) => self
                .turn(packets, at, Phase::Holding, lock)
                .text(Arg::How, how_iid(how))
                .write(),
            TraceEvent::Release => self.release(packets, at, lock),
            TraceEvent::Kick(target) => self
                .instant(packets, at, Name::Kick, lock)
                .arg(Arg::Target, target)
                .flow(flow)
                .write(),
            TraceEvent::Yield(target) => self
                .instant(packets, at, Name::Yield, lock)
                .arg(Arg::Target, target)
                .write(),
        }
    }

    /// Events are missing: nothing that was open is known to go on.
    pub(super) fn gap(&mut self, packets: &mut Packets, at: u64, dropped: u64) {
        self.close(packets, at);
        self.kick = None;
        self.halted = false;
        packets
            .event(Kind::Instant, at, self.track)
            .name(Name::Gap, Category::Lock)
            .arg(Arg::Dropped, dropped)
            .write();
        self.fresh_since = Some(at);
    }

    /// Ends all slices.
    pub(super) fn finish(&mut self, packets: &mut Packets, at: u64) {
        self.close(packets, at);
    }

    fn close(&mut self, packets: &mut Packets, at: u64) {
        while self.pop(packets, at).is_some() {}
    }

    fn instant<'a>(
        &self,
        packets: &'a mut Packets,
        at: u64,
        name: Name,
        lock: u16,
    ) -> TrackEvent<'a> {
        packets
            .event(Kind::Instant, at, self.track)
            .name(name, Category::Lock)
            .arg(Arg::Lock, lock)
    }

    #[inline]
    fn begin<'a>(
        &mut self,
        packets: &'a mut Packets,
        at: u64,
        phase: Phase,
        lock: u16,
    ) -> TrackEvent<'a> {
        if self.open.len() == DEEPEST {
            self.close(packets, at);
        }
        self.open.push(Open { phase, lock });
        self.queued += i64::from(phase.waits_in_queue());
        packets
            .event(Kind::Begin, at, self.track)
            .name(phase.name(), Category::Lock)
            .arg(Arg::Lock, lock)
    }

    /// Ends the innermost slice.
    #[inline]
    fn pop(&mut self, packets: &mut Packets, at: u64) -> Option<Open> {
        let open = self.open.pop()?;
        self.queued -= i64::from(open.phase.waits_in_queue());
        packets.end_slice(at, self.track);
        Some(open)
    }

    /// Ends what the vCPU did about this lock, and begins the next.
    #[inline]
    fn turn<'a>(
        &mut self,
        packets: &'a mut Packets,
        at: u64,
        phase: Phase,
        lock: u16,
    ) -> TrackEvent<'a> {
        // A halt that lacks its wake, and what it is within.
        self.wake(packets, at, lock);
        if let Some(top) = self.open.last()
            && top.lock == lock
            && top.phase != Phase::Holding
        {
            self.pop(packets, at);
        }
        self.begin(packets, at, phase, lock)
    }

    fn halt(&mut self, packets: &mut Packets, at: u64, phase: Phase, lock: u16) {
        self.wake(packets, at, lock);
        self.halted = true;
        self.begin(packets, at, phase, lock).write();
    }

    /// Ends a halt, if there is one.
    #[inline]
    fn wake(&mut self, packets: &mut Packets, at: u64, lock: u16) {
        self.halted = false;
        if let Some(top) = self.open.last()
            && top.lock == lock
            && top.phase.halted()
        {
            self.pop(packets, at);
        }
    }

    /// Ends the holding of the lock. The end of its slice is the event, marked by the lock's number.
    #[inline]
    fn release(&mut self, packets: &mut Packets, at: u64, lock: u16) {
        let holding = Open {
            phase: Phase::Holding,
            lock,
        };
        let found = self.open.iter().rposition(|&open| open == holding);
        let depth = found.unwrap_or_else(|| {
            // Its acquisition is not in the trace.
            self.begin(packets, at, Phase::Holding, lock)
                .derived()
                .write();
            self.open.len() - 1
        });
        for _ in depth + 1..self.open.len() {
            packets.end_slice(at, self.track);
        }
        packets
            .event(Kind::End, at, self.track)
            .arg(Arg::Lock, lock)
            .write();
        self.open.remove(depth);
        for open in &self.open[depth..] {
            packets
                .event(Kind::Begin, at, self.track)
                .name(open.phase.name(), Category::Lock)
                .arg(Arg::Lock, open.lock)
                .derived()
                .write();
        }
    }
}
