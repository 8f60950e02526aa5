//! Reads a Perfetto trace back that the writer here has written.

use super::names::{Arg, Drawn, FIRST_HOW, FIRST_REASON, Name, Shape, numbered};
use super::packets::Kind;
use super::proto::{event, interned, packet};
use super::tracks::{Track, Tracks};
use super::wire::{Fields, NoMessage, Value};
use crate::trace::header::Header;
use crate::trace::read::{Fault, Reading, check_schema, lock_step};
use crate::trace::{Event, What};
use abi::{ExitReason, HostDetail, HostStep, SwitchKind};
use pvlock::trace::{Detail, How, TraceEvent};
use std::io::{BufRead, Read};

/// Longest packet. Headers of the largest machines need a fraction of it.
const LONGEST_PACKET: u64 = 16 << 20;

/// Annotations of an event, by [`Arg`]: numbers, and numbers of texts.
type Args = [Option<u64>; 16];

/// A track event as far as it is needed.
#[derive(Default)]
struct Packet<'a> {
    at: u64,
    kind: u64,
    track: u64,
    name: u64,
    args: Args,
    /// Of header and end.
    text: Option<&'a [u8]>,
}

/// Reads the whole trace. The first byte is known to be [`super::FIRST_BYTE`].
pub(in crate::trace) fn read(
    input: &mut impl BufRead,
    reading: &mut Reading<impl FnMut(&Header, &Event)>,
) -> Result<(), Fault> {
    let mut packets = Packets {
        input,
        bytes: Vec::new(),
        position: 0,
    };
    packets.first()?;
    let mut tracks = None;
    loop {
        let start = packets.position;
        let at = |fault: String| Fault::at(format!("byte {start}"), fault);
        if !packets.next()? {
            return Ok(());
        }
        if reading.end.is_some() {
            return Err(at("something follows the end".to_owned()));
        }
        let packet = track_event(&packets.bytes);
        let Some(packet) = packet.map_err(|NoMessage| at("no packet".to_owned()))? else {
            continue;
        };
        let text = packet.text.unwrap_or_default();
        let Some(known) = &tracks else {
            if packet.track == super::tracks::ROOT {
                let json = serde_json::from_slice(text)
                    .map_err(|_| at("the header is no JSON".to_owned()))?;
                tracks = Some(Tracks::new(reading.header(json)?));
            }
            continue;
        };
        let (place, what) = match known.track(packet.track) {
            Track::Root => {
                let end = serde_json::from_slice(text);
                reading.end = Some(end.map_err(|_| at("the end is no JSON".to_owned()))?);
                continue;
            }
            Track::Derived => continue,
            _ if packet.has(Arg::Derived) => continue,
            Track::Lock(place) => (place, lock_event(&packet)),
            Track::State(place) => (place, state_event(&packet)),
            Track::Vmm(place) => (place, vmm_event(&packet)),
        };
        match what.map_err(|lacks| at(format!("'{lacks}' is missing or wrong")))? {
            Some(what) => {
                let told = Event {
                    at: packet.at,
                    place,
                    what,
                };
                reading.event(&told).map_err(at)?;
            }
            None if packet.is_end() => {}
            None => reading.unknown += 1,
        }
    }
}

/// The packets of a file.
struct Packets<'a, R> {
    input: &'a mut R,
    /// What the last packet holds.
    bytes: Vec<u8>,
    position: u64,
}

impl<R: BufRead> Packets<'_, R> {
    /// Reads the first packet, which tells whose trace it is.
    fn first(&mut self) -> Result<(), Fault> {
        let no_trace = || Fault::foreign("neither JSON nor Perfetto:");
        let foreign = || Fault::foreign("a Perfetto trace of another program,");
        let complete = self.next().map_err(|fault| match fault {
            Fault::Damaged { .. } => no_trace(),
            other => other,
        })?;
        let schema = match schema(&self.bytes) {
            Ok(Some(schema)) => schema,
            _ if !complete && begins_as_ours(&self.bytes) => return Err(Fault::NoHeader),
            Ok(None) if complete => return Err(foreign()),
            _ => return Err(no_trace()),
        };
        match check_schema(schema) {
            Ok(()) if !complete => Err(Fault::NoHeader),
            Err(Fault::Foreign(_)) => Err(foreign()),
            result => result,
        }
    }

    /// Reads a packet. False if there is none, or one that is cut off.
    fn next(&mut self) -> Result<bool, Fault> {
        self.bytes.clear();
        let place = format!("byte {}", self.position);
        let Some(tag) = self.byte()? else {
            return Ok(false);
        };
        if tag != super::FIRST_BYTE {
            return Err(Fault::at(place, "no packet begins there"));
        }
        let mut length = 0_u64;
        for shift in 0..10 {
            let Some(byte) = self.byte()? else {
                return Ok(false);
            };
            length |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                break;
            }
        }
        if length > LONGEST_PACKET {
            return Err(Fault::at(place, format!("a packet of {length} bytes")));
        }
        // Grows with what is there, not with what is promised.
        let mut packet = self.input.take(length);
        let read = packet.read_to_end(&mut self.bytes)? as u64;
        self.position += read;
        Ok(read == length)
    }

    fn byte(&mut self) -> Result<Option<u8>, Fault> {
        let first = self.input.fill_buf()?.first().copied();
        if first.is_some() {
            self.input.consume(1);
            self.position += 1;
        }
        Ok(first)
    }
}

/// Whether the beginning of a packet is that of our first one: sequence 1, which clears its state and
/// sets names.
fn begins_as_ours(bytes: &[u8]) -> bool {
    const OURS: &[u8] = &[0x50, 1, 0x68, 1, 0x62];
    let common = OURS.len().min(bytes.len());
    bytes[..common] == OURS[..common]
}

/// The first event name in a packet.
fn schema(packet: &[u8]) -> Result<Option<&str>, NoMessage> {
    let mut found = Some(packet);
    for field in [packet::INTERNED_DATA, interned::EVENT_NAMES, interned::NAME] {
        found = found.map_or(Ok(None), |message| find(message, field))?;
    }
    Ok(found.and_then(|name| std::str::from_utf8(name).ok()))
}

/// The first field of bytes with that number.
fn find(message: &[u8], wanted: u32) -> Result<Option<&[u8]>, NoMessage> {
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        if let (true, Value::Bytes(bytes)) = (field == wanted, value) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// The packet's track event, if it has one.
fn track_event(bytes: &[u8]) -> Result<Option<Packet<'_>>, NoMessage> {
    let mut result = Packet::default();
    let mut message = None;
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (packet::TIMESTAMP, Value::Uint(at)) => result.at = at,
            (packet::TRACK_EVENT, Value::Bytes(bytes)) => message = Some(bytes),
            _ => {}
        }
    }
    let Some(message) = message else {
        return Ok(None);
    };
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field {
            (event::TYPE, Value::Uint(kind)) => result.kind = kind,
            (event::TRACK_UUID, Value::Uint(track)) => result.track = track,
            (event::NAME_IID, Value::Uint(name)) => result.name = name,
            (event::DEBUG_ANNOTATIONS, Value::Bytes(bytes)) => annotation(bytes, &mut result)?,
            _ => {}
        }
    }
    Ok(Some(result))
}

fn annotation<'a>(bytes: &'a [u8], packet: &mut Packet<'a>) -> Result<(), NoMessage> {
    let mut name = usize::MAX;
    let mut number = None;
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (event::ANNOTATION_NAME_IID, Value::Uint(iid)) => {
                name = usize::try_from(iid).unwrap_or(usize::MAX);
            }
            (
                event::UINT_VALUE | event::STRING_VALUE_IID | event::BOOL_VALUE,
                Value::Uint(value),
            ) => number = Some(value),
            (event::STRING_VALUE, Value::Bytes(text)) => packet.text = Some(text),
            _ => {}
        }
    }
    if let Some(arg) = packet.args.get_mut(name) {
        *arg = number;
    }
    Ok(())
}

impl Packet<'_> {
    /// An annotation's value, or its name if it is missing or wrong.
    fn arg<T: TryFrom<u64>>(&self, arg: Arg) -> Result<T, &'static str> {
        let value = self.args[usize::from(arg.iid())];
        value.and_then(|n| T::try_from(n).ok()).ok_or(arg.text())
    }

    /// As [`Self::arg`], of those that count from `first`.
    fn one_of<T: Copy>(&self, all: &[T], first: u8, arg: Arg) -> Result<T, &'static str> {
        numbered(all, first, self.arg(arg)?).ok_or(arg.text())
    }

    fn has(&self, arg: Arg) -> bool {
        self.args[usize::from(arg.iid())].is_some()
    }

    fn name(&self) -> Option<Name> {
        numbered(Name::ALL, 1, self.name).map(|(name, _)| name)
    }

    fn is_end(&self) -> bool {
        self.kind == u64::from(Kind::End as u8)
    }
}

fn lock_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    let step = if packet.is_end() {
        // Of all ends of slices, only releases tell the lock.
        packet.has(Arg::Lock).then_some(TraceEvent::Release)
    } else {
        let name = packet.name();
        if name == Some(Name::Gap) {
            let dropped = packet.arg(Arg::Dropped)?;
            return Ok(Some(What::Gap { dropped }));
        }
        let is_meant = |step| {
            let drawn = Drawn::of(step);
            drawn.shape != Shape::Release && Some(drawn.name) == name
        };
        lock_step(is_meant, packet.has(Arg::Ticket))
    };
    let Some(step) = step else {
        return Ok(None);
    };
    let detail = match step.detail() {
        Detail::Behind(_) if packet.has(Arg::Behind) => {
            Detail::Behind(Some(packet.arg(Arg::Behind)?))
        }
        Detail::Nothing | Detail::Behind(_) => step.detail(),
        Detail::Ticket(_) => Detail::Ticket(packet.arg(Arg::Ticket)?),
        Detail::How(_) => Detail::How(packet.one_of(&How::ALL, FIRST_HOW, Arg::How)?),
        Detail::Target(_) => Detail::Target(packet.arg(Arg::Target)?),
    };
    let (lock, step) = (packet.arg(Arg::Lock)?, step.with(detail));
    Ok(Some(What::Lock { lock, step }))
}

fn state_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    let kind = match packet.name() {
        Some(Name::Running) => SwitchKind::In,
        Some(Name::Preempted) => SwitchKind::OutPreempted,
        Some(Name::Halted | Name::OffCpu) => SwitchKind::Out,
        _ => return Ok(None),
    };
    let cpu = packet.arg(Arg::Cpu)?;
    Ok(Some(What::Switch { cpu, kind }))
}

fn vmm_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    let name = packet.name();
    let mut steps = HostStep::ALL.iter();
    let Some(step) = steps.find(|step| Some(Drawn::of_host(**step).name) == name) else {
        return Ok(None);
    };
    let detail = match step.detail() {
        HostDetail::Nothing => HostDetail::Nothing,
        HostDetail::Reason(_) => {
            HostDetail::Reason(packet.one_of(&ExitReason::ALL, FIRST_REASON, Arg::Reason)?)
        }
        HostDetail::LengthNs(_) => HostDetail::LengthNs(packet.arg(Arg::LengthNs)?),
    };
    Ok(Some(What::Host(step.with(detail))))
}
