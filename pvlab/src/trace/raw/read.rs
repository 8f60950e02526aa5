//! Reads a raw trace back.

use crate::trace::header::{End, Header, SCHEMA_KIND};
use crate::trace::read::{Fault, Reading, foreign_json};
use crate::trace::{Event, ExitReason, Place, What};
use pvlock::TraceEvent;
use pvlock::trace::How;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// Longest line. Headers of the largest machines need a fraction of it.
const LONGEST_LINE: u64 = 16 << 20;

/// A line after the header.
#[derive(Deserialize)]
struct Line<'a> {
    at_ns: Option<u64>,
    /// Only the end has one.
    end_ns: Option<u64>,
    #[serde(default)]
    vm: u16,
    #[serde(default)]
    vcpu: u16,
    #[serde(borrow, default)]
    event: Cow<'a, str>,
    lock: Option<u16>,
    behind: Option<u32>,
    ticket: Option<u16>,
    #[serde(borrow)]
    how: Option<Cow<'a, str>>,
    target: Option<u32>,
    cpu: Option<u16>,
    preempted: Option<bool>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    length_ns: Option<u64>,
    dropped: Option<u64>,
}

/// Reads the whole trace. The first line is known to begin with `{`.
pub(in crate::trace) fn read(
    input: &mut impl BufRead,
    reading: &mut Reading<impl FnMut(&Header, &Event)>,
) -> Result<(), Fault> {
    let mut line = Vec::new();
    match next(input, &mut line)? {
        Some(()) => {}
        None if begins_a_header(&line) => return Err(Fault::NoHeader),
        None => return Err(foreign_json(&line)),
    }
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&line) else {
        // Perhaps one object over many lines; what follows tells whose.
        let mut more = Vec::new();
        input.take(4096).read_to_end(&mut more)?;
        line.append(&mut more);
        return Err(foreign_json(&line));
    };
    reading.header(value)?;
    let mut number = 1_u64;
    while next(input, &mut line)?.is_some() {
        number += 1;
        let at = |fault| Fault::at(format!("line {number}"), fault);
        if reading.ended() {
            return Err(at("something follows the end".into()));
        }
        let parsed: Line<'_> = serde_json::from_slice(&line).map_err(|why| at(short(&why)))?;
        if parsed.end_ns.is_some() {
            let end: End = serde_json::from_slice(&line).map_err(|why| at(short(&why)))?;
            reading.end(end);
            continue;
        }
        let event = event(&parsed).map_err(|field| at(format!("'{field}' is missing or wrong")))?;
        match event {
            Some(event) => reading.event(&event).map_err(at)?,
            None => reading.unknown(),
        }
    }
    Ok(())
}

/// Reads a line; `None`: the file ends before the line does.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<Option<()>, Fault> {
    line.clear();
    input.take(LONGEST_LINE).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        return Ok(Some(()));
    }
    if line.len() as u64 == LONGEST_LINE {
        return Err(Fault::at(
            "a line".to_owned(),
            format!("longer than {} MiB", LONGEST_LINE >> 20),
        ));
    }
    Ok(None)
}

/// Whether it is the beginning of one of our headers.
fn begins_a_header(line: &[u8]) -> bool {
    let ours = format!("{{\"schema\":\"{SCHEMA_KIND}");
    let common = ours.len().min(line.len());
    line[..common] == ours.as_bytes()[..common]
}

/// The error without the place in a line that the user has never seen.
fn short(why: &serde_json::Error) -> String {
    let text = why.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The event; `None` if it is of a kind that this version does not know; or the name of a field
/// that is missing or has no such value.
fn event(line: &Line<'_>) -> Result<Option<Event>, &'static str> {
    let step = match &*line.event {
        "start" => Some(TraceEvent::Start),
        "queued" => Some(match line.ticket {
            Some(ticket) => TraceEvent::QueuedWithTicket(ticket),
            None => TraceEvent::QueuedBehind(line.behind),
        }),
        "head" => Some(TraceEvent::Head),
        "halt_queued" => Some(TraceEvent::HaltQueued),
        "halt_head" => Some(TraceEvent::HaltHead),
        "woken" => Some(TraceEvent::Woken),
        "spurious" => Some(TraceEvent::Spurious),
        "acquired" => {
            let how = line.how.as_deref();
            let how = How::ALL.into_iter().find(|h| Some(h.name()) == how);
            Some(TraceEvent::Acquired(how.ok_or("how")?))
        }
        "release" => Some(TraceEvent::Release),
        "kick" => Some(TraceEvent::Kick(line.target.ok_or("target")?)),
        "yield" => Some(TraceEvent::Yield(line.target.ok_or("target")?)),
        _ => None,
    };
    let what = match (step, &*line.event) {
        (Some(step), _) => What::Lock {
            lock: line.lock.ok_or("lock")?,
            step,
        },
        (None, "switch_in") => What::SwitchIn {
            cpu: line.cpu.ok_or("cpu")?,
        },
        (None, "switch_out") => What::SwitchOut {
            cpu: line.cpu.ok_or("cpu")?,
            preempted: line.preempted.ok_or("preempted")?,
        },
        (None, "enter") => What::Enter,
        (None, "exit") => {
            let reason = line.reason.as_deref();
            let found = ExitReason::ALL
                .into_iter()
                .find(|r| Some(r.name()) == reason);
            What::Exit(found.ok_or("reason")?)
        }
        (None, "blocked") => What::Blocked,
        (None, "unblocked") => What::Unblocked,
        (None, "injected") => What::Injected {
            ns: line.length_ns.ok_or("length_ns")?,
        },
        (None, "gap") => What::Gap {
            dropped: line.dropped.ok_or("dropped")?,
        },
        (None, "") => return Err("event"),
        (None, _) => return Ok(None),
    };
    Ok(Some(Event {
        at: line.at_ns.ok_or("at_ns")?,
        place: Place {
            vm: line.vm,
            vcpu: line.vcpu,
        },
        what,
    }))
}
