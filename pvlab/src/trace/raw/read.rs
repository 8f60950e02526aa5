//! Reads a raw trace back.

use super::{GAP, SWITCH_IN, SWITCH_OUT};
use crate::trace::header::{End, Header, SCHEMA_KIND};
use crate::trace::read::{Fault, Reading, foreign_json, lock_step};
use crate::trace::{Event, Place, What};
use abi::{ExitReason, HostDetail, HostStep, SwitchKind};
use pvlock::trace::{Detail, How};
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
        true => {}
        false if begins_a_header(&line) => return Err(Fault::NoHeader),
        false => return Err(foreign_json(&line)),
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
    while next(input, &mut line)? {
        number += 1;
        let at = |fault| Fault::at(format!("line {number}"), fault);
        if reading.end.is_some() {
            return Err(at("something follows the end".into()));
        }
        let parsed: Line<'_> = serde_json::from_slice(&line).map_err(|why| at(short(&why)))?;
        if parsed.end_ns.is_some() {
            let end: End = serde_json::from_slice(&line).map_err(|why| at(short(&why)))?;
            reading.end = Some(end);
            continue;
        }
        let event = event(&parsed).map_err(|field| at(format!("'{field}' is missing or wrong")))?;
        match event {
            Some(event) => reading.event(&event).map_err(at)?,
            None => reading.unknown += 1,
        }
    }
    Ok(())
}

/// Reads a line. False if the file ends before the line does.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, Fault> {
    line.clear();
    input.take(LONGEST_LINE).read_until(b'\n', line)?;
    let whole = line.last() == Some(&b'\n');
    if !whole && line.len() as u64 == LONGEST_LINE {
        let why = format!("longer than {} MiB", LONGEST_LINE >> 20);
        return Err(Fault::at("a line", why));
    }
    Ok(whole)
}

/// Whether it is the beginning of one of our headers.
fn begins_a_header(line: &[u8]) -> bool {
    let ours = format!("{{\"schema\":\"{SCHEMA_KIND}");
    let common = ours.len().min(line.len());
    line[..common] == ours.as_bytes()[..common]
}

/// The error without the place in a line that the user has never seen.
fn short(why: &serde_json::Error) -> String {
    let mut text = why.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

/// The event; `None` if it is of a kind that this version does not know; or the name of a field
/// that is missing or has no such value.
fn event(line: &Line<'_>) -> Result<Option<Event>, &'static str> {
    let name = &*line.event;
    let what = if let Some(step) = lock_step(|step| step.name() == name, line.ticket.is_some()) {
        let detail = match step.detail() {
            Detail::Nothing => Detail::Nothing,
            Detail::Behind(_) => Detail::Behind(line.behind),
            Detail::Ticket(_) => Detail::Ticket(line.ticket.ok_or("ticket")?),
            Detail::How(_) => {
                let how = line.how.as_deref();
                let how = How::ALL.into_iter().find(|h| Some(h.name()) == how);
                Detail::How(how.ok_or("how")?)
            }
            Detail::Target(_) => Detail::Target(line.target.ok_or("target")?),
        };
        let (lock, step) = (line.lock.ok_or("lock")?, step.with(detail));
        What::Lock { lock, step }
    } else if let Some(step) = HostStep::ALL.iter().find(|step| step.name() == name) {
        What::Host(step.with(match step.detail() {
            HostDetail::Nothing => HostDetail::Nothing,
            HostDetail::Reason(_) => {
                let reason = line.reason.as_deref();
                let mut all = ExitReason::ALL.into_iter();
                let found = all.find(|r| Some(r.name()) == reason);
                HostDetail::Reason(found.ok_or("reason")?)
            }
            HostDetail::LengthNs(_) => HostDetail::LengthNs(line.length_ns.ok_or("length_ns")?),
        }))
    } else {
        match name {
            SWITCH_IN | SWITCH_OUT => {
                let cpu = line.cpu.ok_or("cpu")?;
                let out = || line.preempted.map(SwitchKind::out).ok_or("preempted");
                let kind = match name {
                    SWITCH_IN => SwitchKind::In,
                    _ => out()?,
                };
                What::Switch { cpu, kind }
            }
            GAP => {
                let dropped = line.dropped.ok_or("dropped")?;
                What::Gap { dropped }
            }
            "" => return Err("event"),
            _ => return Ok(None),
        }
    };
    let Line { vm, vcpu, .. } = *line;
    let (at, place) = (line.at_ns.ok_or("at_ns")?, Place { vm, vcpu });
    Ok(Some(Event { at, place, what }))
}
