//! Writes packets.

use super::names::{self, Arg, Category, Name};
use super::proto::{clock, clock_id, defaults, event, flags, packet, trace};
use super::tracks::{self, Tracks};
use super::wire::{Message, Scratch, Small};
use crate::trace::header::{End, Header};
use crate::trace::out::Out;
use crate::trace::sink::WriteError;

/// Bytes after which everything that packets refer to is written again, so that a reader can begin
/// there.
const STATE_INTERVAL: u64 = 4 << 20;

/// Our only sequence of packets.
const SEQUENCE: u64 = 1;

/// Kinds of track events, as `TrackEvent.Type` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// `TYPE_SLICE_BEGIN`
    Begin = 1,
    /// `TYPE_SLICE_END`
    End = 2,
    /// `TYPE_INSTANT`
    Instant = 3,
    /// `TYPE_COUNTER`
    Counter = 4,
}

/// Writes packets to a file.
pub(super) struct Packets {
    out: Out,
    /// Where track events are made.
    scratch: Scratch,
    /// Every packet that clears the state, ready to be written.
    state: Vec<u8>,
    /// Where in the file the state is to be cleared next.
    clear_at: u64,
    /// Of each vCPU, whether its name has been written since the state was cleared.
    named: Vec<bool>,
}

impl Packets {
    /// Begins the file: clocks, names, and the header.
    pub(super) fn new(out: Out, header: &Header) -> Result<Self, WriteError> {
        let vcpus: usize = header.vms.iter().map(|vm| vm.vcpus.len()).sum();
        let mut packets = Self {
            out,
            scratch: [0; 256],
            state: state(header.clock.monotonic_raw_start_ns),
            clear_at: 0,
            named: vec![false; vcpus],
        };
        packets.clear_state();
        packets.descriptor(&tracks::root());
        let json = header.to_json()?;
        packets.note(0, Name::Trace, Arg::Header, &json);
        Ok(packets)
    }

    /// Writes what has been gathered, if that is much.
    #[inline]
    pub(super) fn drain(&mut self) -> Result<(), WriteError> {
        if self.out.position() >= self.clear_at {
            self.clear_state();
        }
        self.out.drain()
    }

    /// Writes what has been gathered.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        self.out.write_out()
    }

    #[cold]
    fn clear_state(&mut self) {
        self.out.buffer.extend_from_slice(&self.state);
        self.clear_at = self.out.position() + STATE_INTERVAL;
        self.named.fill(false);
    }

    /// Writes the descriptor of a track.
    pub(super) fn descriptor(&mut self, descriptor: &Message) {
        let packet = sequenced(flags::NEEDS_STATE).message(packet::TRACK_DESCRIPTOR, descriptor);
        self.packet(&packet);
    }

    /// Writes the end of the trace.
    pub(super) fn end(&mut self, end: &End) -> Result<(), WriteError> {
        let json = serde_json::to_string(end)?;
        self.note(end.end_ns, Name::End, Arg::End, &json);
        Ok(())
    }

    /// Writes an instant of the trace itself, with a text.
    fn note(&mut self, at: u64, name: Name, arg: Arg, text: &str) {
        let annotation = Message::new()
            .uint(event::ANNOTATION_NAME_IID, arg.iid().into())
            .bytes(event::STRING_VALUE, text);
        let instant = Message::new()
            .uint(event::TYPE, u64::from(Kind::Instant as u8))
            .uint(event::TRACK_UUID, tracks::ROOT)
            .uint(event::NAME_IID, name.iid().into())
            .uint(event::CATEGORY_IIDS, Category::Trace.iid().into())
            .message(event::DEBUG_ANNOTATIONS, &annotation);
        let packet = sequenced(flags::NEEDS_STATE)
            .uint(packet::TIMESTAMP, at)
            .message(packet::TRACK_EVENT, &instant);
        self.packet(&packet);
    }

    fn packet(&mut self, packet: &Message) {
        let framed = Message::new().message(trace::PACKET, packet);
        self.out.buffer.extend_from_slice(framed.as_slice());
    }

    /// The number of the vCPU's name, which is written if it has to be.
    #[inline]
    pub(super) fn vcpu_name(&mut self, number: usize, tracks: &Tracks) -> u64 {
        if !std::mem::replace(&mut self.named[number], true)
            && let Some(place) = tracks.place(number)
        {
            let name = names::interned_vcpu(number as u64, place);
            let packet = sequenced(flags::NEEDS_STATE).message(packet::INTERNED_DATA, &name);
            self.packet(&packet);
        }
        names::FIRST_VCPU + number as u64
    }

    /// Begins a track event; [`TrackEvent::write`] ends it.
    ///
    /// None has more than 88 bytes, so that all lengths fit into a byte: 20 of the packet with its
    /// time, 18 of type, track, name, and category, 36 of three annotations at most, of which none
    /// but one has more than 32 bits, and 10 of a flow.
    #[inline]
    pub(super) fn event(&mut self, kind: Kind, at: u64, track: u64) -> TrackEvent<'_> {
        let mut small = Small::new(&mut self.scratch);
        let outer = small.message(trace::PACKET);
        small.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE);
        small.uint(packet::SEQUENCE_FLAGS, flags::NEEDS_STATE);
        small.uint(packet::TIMESTAMP, at);
        let inner = small.message(packet::TRACK_EVENT);
        small.uint(event::TYPE, u64::from(kind as u8));
        small.uint(event::TRACK_UUID, track);
        TrackEvent {
            buffer: &mut self.out.buffer,
            small,
            outer,
            inner,
        }
    }

    /// Ends the innermost slice of the track.
    #[inline]
    pub(super) fn end_slice(&mut self, at: u64, track: u64) {
        self.event(Kind::End, at, track).write();
    }
}

/// A track event being made.
#[must_use]
pub(super) struct TrackEvent<'a> {
    buffer: &'a mut Vec<u8>,
    small: Small<'a>,
    /// Where the lengths of the packet and of its track event are.
    outer: u8,
    inner: u8,
}

impl TrackEvent<'_> {
    #[inline]
    pub(super) fn name(self, name: Name, category: Category) -> Self {
        self.name_iid(name.iid().into(), category)
    }

    #[inline]
    pub(super) fn name_iid(mut self, iid: u64, category: Category) -> Self {
        self.small.uint(event::NAME_IID, iid);
        self.small.uint(event::CATEGORY_IIDS, category.iid().into());
        self
    }

    #[inline]
    fn annotation(mut self, arg: Arg, field: u32, value: u64) -> Self {
        let small = &mut self.small;
        let place = small.message(event::DEBUG_ANNOTATIONS);
        small.uint(event::ANNOTATION_NAME_IID, arg.iid().into());
        small.uint(field, value);
        small.end(place);
        self
    }

    /// Adds a number.
    #[inline]
    pub(super) fn arg(self, arg: Arg, value: impl Into<u64>) -> Self {
        self.annotation(arg, event::UINT_VALUE, value.into())
    }

    /// Adds a text by its number.
    #[inline]
    pub(super) fn text(self, arg: Arg, iid: u8) -> Self {
        self.annotation(arg, event::STRING_VALUE_IID, iid.into())
    }

    /// Marks it as standing for no event.
    #[inline]
    pub(super) fn derived(self) -> Self {
        self.annotation(Arg::Derived, event::BOOL_VALUE, 1)
    }

    /// Begins or ends a flow here, as `field` says.
    #[inline]
    pub(super) fn flow(mut self, field: u32, flow: Option<u64>) -> Self {
        if let Some(flow) = flow {
            self.small.fixed64(field, flow);
        }
        self
    }

    /// Sets the value of a counter.
    pub(super) fn value(mut self, value: u64) -> Self {
        self.small.uint(event::COUNTER_VALUE, value);
        self
    }

    #[inline]
    pub(super) fn write(mut self) {
        self.small.end(self.inner);
        self.small.end(self.outer);
        debug_assert!(self.small.len() < 128, "lengths take one byte");
        self.buffer.extend_from_slice(self.small.as_slice());
    }
}

/// A packet of our sequence.
fn sequenced(state: u64) -> Message {
    let message = Message::new().uint(packet::TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE);
    message.uint(packet::SEQUENCE_FLAGS, state)
}

/// The packet that clears the state and sets it up: names, default clock, and clocks.
fn state(monotonic_raw_start_ns: u64) -> Vec<u8> {
    let clock_at = |id, time| {
        let message = Message::new().uint(clock::CLOCK_ID, id);
        message.uint(clock::TIMESTAMP, time)
    };
    let clocks = Message::new()
        .message(clock::CLOCKS, &clock_at(clock_id::SINCE_START, 0))
        .message(
            clock::CLOCKS,
            &clock_at(clock_id::MONOTONIC_RAW, monotonic_raw_start_ns),
        )
        .uint(clock::PRIMARY_TRACE_CLOCK, clock_id::MONOTONIC_RAW);
    let default_clock = Message::new().uint(defaults::TIMESTAMP_CLOCK_ID, clock_id::SINCE_START);
    let packet = sequenced(flags::STATE_CLEARED)
        .message(packet::INTERNED_DATA, &names::interned())
        .message(packet::TRACE_PACKET_DEFAULTS, &default_clock)
        .message(packet::CLOCK_SNAPSHOT, &clocks);
    let framed = Message::new().message(trace::PACKET, &packet);
    framed.as_slice().to_vec()
}
