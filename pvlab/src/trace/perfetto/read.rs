//! Reads a Perfetto trace back that the writer here has written.

use super::names::{Arg, Drawn, HostDrawn, Name, how_from_iid, reason_from_iid};
use super::packets::Kind;
use super::proto::{event, interned, packet};
use super::tracks::{Track, Tracks};
use super::wire::{Fields, NoMessage, Value};
use crate::trace::header::{End, Header};
use crate::trace::read::{Fault, Reading, check_schema, lock_step};
use crate::trace::{Event, What};
use abi::{HostDetail, HostStep, SwitchKind};
use pvlock::trace::{Detail, TraceEvent};
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
    let mut bytes = Vec::new();
    let mut position = 0_u64;
    first(input, &mut bytes, &mut position)?;
    let mut tracks = None;
    loop {
        let start = position;
        let at = |fault| Fault::at(format!("byte {start}"), fault);
        match next(input, &mut bytes, &mut position)? {
            Next::Packet => {}
            Next::End => return Ok(()),
            Next::Broken(why) => return Err(at(why)),
        }
        if reading.ended() {
            return Err(at("something follows the end".to_owned()));
        }
        let Some(packet) = track_event(&bytes).map_err(|NoMessage| at("no packet".to_owned()))?
        else {
            continue;
        };
        let Some(known) = &tracks else {
            if packet.track == super::tracks::ROOT {
                let json = serde_json::from_slice(packet.text.unwrap_or_default())
                    .map_err(|_| at("the header is no JSON".to_owned()))?;
                tracks = Some(Tracks::new(reading.header(json)?));
            }
            continue;
        };
        match known.track(packet.track) {
            Track::Root => {
                let end: End = serde_json::from_slice(packet.text.unwrap_or_default())
                    .map_err(|_| at("the end is no JSON".to_owned()))?;
                reading.end(end);
            }
            track => match decode(track, &packet) {
                Decoded::Event(event) => reading.event(&event).map_err(at)?,
                Decoded::Unknown => reading.unknown(),
                Decoded::Derived => {}
                Decoded::Lacks(what) => return Err(at(format!("'{what}' is missing or wrong"))),
            },
        }
    }
}

/// Reads the first packet, which tells whose trace it is.
fn first(input: &mut impl BufRead, bytes: &mut Vec<u8>, position: &mut u64) -> Result<(), Fault> {
    let complete = match next(input, bytes, position)? {
        Next::Packet => true,
        Next::End => false,
        Next::Broken(_) => return Err(Fault::Foreign("neither JSON nor Perfetto:".to_owned())),
    };
    let foreign = || Fault::Foreign("a Perfetto trace of another program,".to_owned());
    let schema = match schema(bytes) {
        Ok(Some(schema)) => schema,
        _ if !complete && begins_as_ours(bytes) => return Err(Fault::NoHeader),
        Ok(None) if complete => return Err(foreign()),
        _ => return Err(Fault::Foreign("neither JSON nor Perfetto:".to_owned())),
    };
    match check_schema(schema) {
        Ok(()) if !complete => Err(Fault::NoHeader),
        Err(Fault::Foreign(_)) => Err(foreign()),
        result => result,
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
    let Some(names) = find(packet, packet::INTERNED_DATA)? else {
        return Ok(None);
    };
    let Some(name) = find(names, interned::EVENT_NAMES)? else {
        return Ok(None);
    };
    Ok(find(name, interned::NAME)?.and_then(|name| std::str::from_utf8(name).ok()))
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

/// What comes next in a file.
enum Next {
    /// A packet.
    Packet,
    /// Nothing, or a packet that is cut off.
    End,
    /// Something that is no packet.
    Broken(String),
}

/// Reads a packet.
fn next(input: &mut impl BufRead, bytes: &mut Vec<u8>, position: &mut u64) -> Result<Next, Fault> {
    bytes.clear();
    let Some(tag) = byte(input, position)? else {
        return Ok(Next::End);
    };
    if tag != super::FIRST_BYTE {
        return Ok(Next::Broken("no packet begins there".to_owned()));
    }
    let mut length = 0_u64;
    for shift in 0..10 {
        let Some(byte) = byte(input, position)? else {
            return Ok(Next::End);
        };
        length |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            break;
        }
    }
    if length > LONGEST_PACKET {
        return Ok(Next::Broken(format!("a packet of {length} bytes")));
    }
    // Grows with what is there, not with what is promised.
    let read = input.take(length).read_to_end(bytes)? as u64;
    *position += read;
    Ok(if read == length {
        Next::Packet
    } else {
        Next::End
    })
}

fn byte(input: &mut impl BufRead, position: &mut u64) -> Result<Option<u8>, Fault> {
    let first = input.fill_buf()?.first().copied();
    if first.is_some() {
        input.consume(1);
        *position += 1;
    }
    Ok(first)
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

/// What a track event is.
enum Decoded {
    /// An event.
    Event(Event),
    /// One that this version does not know.
    Unknown,
    /// Made from others.
    Derived,
    /// An event that lacks something.
    Lacks(&'static str),
}

fn decode(track: Track, packet: &Packet<'_>) -> Decoded {
    if packet.args[usize::from(Arg::Derived.iid())].is_some() {
        return Decoded::Derived;
    }
    let (place, what) = match track {
        Track::Lock(place) => (place, lock_event(packet)),
        Track::State(place) => (place, state_event(packet)),
        Track::Vmm(place) => (place, vmm_event(packet)),
        Track::Root | Track::Derived => return Decoded::Derived,
    };
    match what {
        Ok(Some(what)) => {
            let at = packet.at;
            Decoded::Event(Event { at, place, what })
        }
        Ok(None) if packet.kind == u64::from(Kind::End as u8) => Decoded::Derived,
        Ok(None) => Decoded::Unknown,
        Err(lacks) => Decoded::Lacks(lacks),
    }
}

impl Packet<'_> {
    fn arg<T: TryFrom<u64>>(&self, arg: Arg, name: &'static str) -> Result<T, &'static str> {
        self.args[usize::from(arg.iid())]
            .and_then(|value| T::try_from(value).ok())
            .ok_or(name)
    }

    fn has(&self, arg: Arg) -> bool {
        self.args[usize::from(arg.iid())].is_some()
    }

    fn name(&self) -> Option<Name> {
        Name::from_iid(self.name)
    }
}

fn lock_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    if packet.kind == u64::from(Kind::End as u8) {
        // Of all ends of slices, only releases tell the lock.
        if !packet.has(Arg::Lock) {
            return Ok(None);
        }
        let lock = packet.arg(Arg::Lock, "lock")?;
        let step = TraceEvent::Release;
        return Ok(Some(What::Lock { lock, step }));
    }
    let Some(name) = packet.name() else {
        return Ok(None);
    };
    if name == Name::Gap {
        let dropped = packet.arg(Arg::Dropped, "dropped")?;
        return Ok(Some(What::Gap { dropped }));
    }
    let is_meant = |step| Drawn::of(step).0.name() == Some(name);
    let Some(step) = lock_step(is_meant, packet.has(Arg::Ticket)) else {
        return Ok(None);
    };
    let detail = match step.detail() {
        Detail::Behind(_) if packet.has(Arg::Behind) => {
            Detail::Behind(Some(packet.arg(Arg::Behind, "behind")?))
        }
        Detail::Nothing | Detail::Behind(_) => step.detail(),
        Detail::Ticket(_) => Detail::Ticket(packet.arg(Arg::Ticket, "ticket")?),
        Detail::How(_) => {
            let how = packet.arg(Arg::How, "how")?;
            Detail::How(how_from_iid(how).ok_or("how")?)
        }
        Detail::Target(_) => Detail::Target(packet.arg(Arg::Target, "target")?),
    };
    let (lock, step) = (packet.arg(Arg::Lock, "lock")?, step.with(detail));
    Ok(Some(What::Lock { lock, step }))
}

fn state_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    let kind = match packet.name() {
        Some(Name::Running) => SwitchKind::In,
        Some(Name::Preempted) => SwitchKind::OutPreempted,
        Some(Name::Halted | Name::OffCpu) => SwitchKind::Out,
        _ => return Ok(None),
    };
    let cpu = packet.arg(Arg::Cpu, "cpu")?;
    Ok(Some(What::Switch { cpu, kind }))
}

fn vmm_event(packet: &Packet<'_>) -> Result<Option<What>, &'static str> {
    let name = packet.name();
    let mut steps = HostStep::ALL.iter();
    let Some(step) = steps.find(|step| Some(HostDrawn::of(**step).name()) == name) else {
        return Ok(None);
    };
    let detail = match step.detail() {
        HostDetail::Nothing => HostDetail::Nothing,
        HostDetail::Reason(_) => {
            let reason = packet.arg(Arg::Reason, "reason")?;
            HostDetail::Reason(reason_from_iid(reason).ok_or("reason")?)
        }
        HostDetail::LengthNs(_) => HostDetail::LengthNs(packet.arg(Arg::LengthNs, "length_ns")?),
    };
    Ok(Some(What::Host(step.with(detail))))
}
