//! Reads trace files back, one event after another.
//!
//! What kind a file is, is seen from its content. A file that ends early is read as far as it goes,
//! and the [`Summary`] says so.

use super::header::{End, Header, Progress, SCHEMA_KIND, SCHEMA_VERSION};
use super::{Event, perfetto, raw};
use crate::publish::DASH;
use pvlock::trace::{Detail, TraceEvent};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Bytes of a file read at a time.
const BUFFER: usize = 256 << 10;

/// A trace that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its header.
    pub header: Header,
    /// When it ends, in ns since it began; of an incomplete one when its last event was.
    pub end_ns: u64,
    /// Whether it has an end.
    pub complete: bool,
    /// Events read.
    pub events: u64,
    /// Guest events that its gaps lack.
    pub dropped: u64,
    /// Events of kinds that this version does not know, left out.
    pub unknown: u64,
    /// Its end, if it has one.
    pub end: Option<End>,
}

impl Summary {
    /// What is wrong with the file, as a sentence for people.
    pub fn warning(&self) -> Option<String> {
        (!self.complete).then(|| {
            format!(
                "the file ends early, {:.6} s after the trace began: it was cut off, or its writer \
                 was; this is about the {} events that are there",
                std::time::Duration::from_nanos(self.end_ns).as_secs_f64(),
                self.events
            )
        })
    }
}

/// Reads the file, or standard input if it is called `-`, and hands every event to `on_event`, in the
/// order of time.
///
/// # Errors
/// See [`ReadError`]. Events before a fault have been handed over by then.
pub fn read(path: &Path, on_event: impl FnMut(&Header, &Event)) -> Result<Summary, ReadError> {
    if path == Path::new(DASH) {
        let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
        return read_from(&mut input, on_event).map_err(|fault| fault.of("standard input".into()));
    }
    let read = |file| read_from(&mut BufReader::with_capacity(BUFFER, file), on_event);
    let summary = File::open(path).map_err(Fault::Open).and_then(read);
    summary.map_err(|fault| fault.of(path.display().to_string()))
}

/// Reads a trace that is in memory, as [`read`] does a file.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_bytes(
    mut bytes: &[u8],
    on_event: impl FnMut(&Header, &Event),
) -> Result<Summary, ReadError> {
    read_from(&mut bytes, on_event).map_err(|fault| fault.of("it".to_owned()))
}

fn read_from(
    input: &mut impl BufRead,
    on_event: impl FnMut(&Header, &Event),
) -> Result<Summary, Fault> {
    let mut reading = Reading {
        header: None,
        on_event,
        unknown: 0,
        end: None,
    };
    match input.fill_buf()? {
        [] => return Err(Fault::foreign("an empty file")),
        [b'{', ..] => raw::read::read(input, &mut reading)?,
        [perfetto::FIRST_BYTE, ..] => perfetto::read::read(input, &mut reading)?,
        [0x1f, 0x8b, ..] => return Err(Fault::foreign("compressed, unpack it first:")),
        _ => return Err(Fault::foreign("neither JSON nor Perfetto:")),
    }
    reading.summary()
}

/// Why a file could not be read, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .fault.told_of(.name))]
pub struct ReadError {
    /// The file.
    pub name: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug)]
#[expect(missing_docs, reason = "what is told of them says what they are")]
pub enum Fault {
    Open(io::Error),
    Read(io::Error),
    /// It is something else: that.
    Foreign(String),
    NoHeader,
    /// It was written by a newer pvlab, whose traces have that version.
    Newer(String),
    Damaged {
        place: String,
        why: String,
    },
}

impl Fault {
    pub(super) fn at(place: impl Into<String>, why: impl Into<String>) -> Self {
        let (place, why) = (place.into(), why.into());
        Self::Damaged { place, why }
    }

    pub(super) fn foreign(what: &str) -> Self {
        Self::Foreign(what.to_owned())
    }

    fn of(self, name: String) -> ReadError {
        ReadError { name, fault: self }
    }

    fn told_of(&self, name: &str) -> String {
        match self {
            Self::Open(source) => format!("cannot open {name}: {source}"),
            Self::Read(source) => format!("cannot read {name}: {source}"),
            Self::Foreign(what) => {
                format!("{name} is {what} not a trace of pvlab; make one with: pvlab trace -o FILE")
            }
            Self::NoHeader => format!(
                "{name} was cut off within its header, nothing of it can be read; trace again"
            ),
            Self::Newer(version) => format!(
                "{name} is a trace of version {version}, and this pvlab reads version \
                 {SCHEMA_VERSION}; use the pvlab that wrote it, or a newer one"
            ),
            Self::Damaged { place, why } => {
                format!("{name} is damaged at {place}: {why}; copy it again, or trace again")
            }
        }
    }
}

impl From<io::Error> for Fault {
    fn from(source: io::Error) -> Self {
        Self::Read(source)
    }
}

/// A trace being read.
pub(super) struct Reading<F> {
    header: Option<(Header, Progress)>,
    on_event: F,
    /// Events of a kind that is not known.
    pub(super) unknown: u64,
    pub(super) end: Option<End>,
}

impl<F: FnMut(&Header, &Event)> Reading<F> {
    /// Takes the header.
    pub(super) fn header(&mut self, json: serde_json::Value) -> Result<&Header, Fault> {
        match json.get("schema").and_then(serde_json::Value::as_str) {
            Some(schema) => check_schema(schema)?,
            None => return Err(Fault::foreign("JSON of another kind,")),
        }
        let damaged = |why: &dyn std::fmt::Display| Fault::at("its header", why.to_string());
        let header: Header = serde_json::from_value(json).map_err(|why| damaged(&why))?;
        header.check().map_err(|why| damaged(&why))?;
        let progress = Progress::new(&header);
        Ok(&self.header.insert((header, progress)).0)
    }

    /// Takes an event, or says what is wrong with it.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), String> {
        let Some((header, progress)) = &mut self.header else {
            return Err("an event before the header".to_owned());
        };
        if progress.events == 0 {
            let clock = header.check_clock();
            clock.map_err(|why| format!("a time, but of the header: {why}"))?;
        }
        progress.event(event).map_err(|error| error.to_string())?;
        (self.on_event)(header, event);
        Ok(())
    }

    fn summary(self) -> Result<Summary, Fault> {
        let (header, progress) = self.header.ok_or(Fault::NoHeader)?;
        let Progress { last, events, .. } = progress;
        let end_ns = self.end.as_ref().map_or(last, |end| end.end_ns);
        let wrong = if end_ns < last {
            format!("it is at {end_ns} ns, before the event at {last} ns")
        } else if let Some(end) = &self.end
            && end.events != events + self.unknown
        {
            format!("it counts {} events, {events} are there", end.events)
        } else {
            return Ok(Summary {
                header,
                end_ns,
                complete: self.end.is_some(),
                events,
                dropped: progress.dropped,
                unknown: self.unknown,
                end: self.end,
            });
        };
        Err(Fault::at("its end", wrong))
    }
}

/// Whether the schema is one that can be read.
pub(super) fn check_schema(schema: &str) -> Result<(), Fault> {
    let Some(version) = schema.strip_prefix(SCHEMA_KIND) else {
        return Err(Fault::Foreign(format!("a report ({}),", short(schema))));
    };
    match version.parse::<u32>() {
        Ok(SCHEMA_VERSION) => Ok(()),
        _ => Err(Fault::Newer(short(version))),
    }
}

/// The beginning of what somebody wrote, fit for a line.
fn short(text: &str) -> String {
    text.escape_debug().take(40).collect()
}

/// JSON that is no header.
pub(super) fn foreign_json(start: &[u8]) -> Fault {
    match schema(start) {
        Some(schema) => match check_schema(schema) {
            Ok(()) => Fault::at("its header", "it is no JSON"),
            Err(fault) => fault,
        },
        None => Fault::foreign("JSON of another kind,"),
    }
}

/// The value of the first `"schema"` in a piece of JSON.
fn schema(json: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b"\"schema\"";
    let key = json.windows(KEY.len()).take(4096).position(|w| w == KEY)?;
    let after = &json[key + KEY.len()..];
    let begin = after.iter().position(|&b| b == b'"')? + 1;
    let value = after[begin..].iter().take(64);
    let length = value.into_iter().position(|&b| b == b'"')?;
    std::str::from_utf8(&after[begin..begin + length]).ok()
}

/// A step of the kind that `is_meant`. Of kinds that share a name, the one is meant that tells a ticket if
/// there is one, and the other if there is none.
pub(super) fn lock_step(
    is_meant: impl Fn(TraceEvent) -> bool,
    has_ticket: bool,
) -> Option<TraceEvent> {
    let mut meant = TraceEvent::ALL.iter().copied().filter(|&s| is_meant(s));
    let first = meant.next()?;
    let ticket = |step: &TraceEvent| matches!(step.detail(), Detail::Ticket(_));
    Some(meant.find(ticket).filter(|_| has_ticket).unwrap_or(first))
}
