//! The raw trace: lines of JSON, the header first, then one for each event, then the end.
//!
//! `docs/trace.md` describes them.

pub(super) mod read;

use super::header::{End, Header, Progress};
use super::out::Out;
use super::sink::{Sink, WriteError};
use super::{Event, What};
use abi::{HostDetail, SwitchKind};
use pvlock::trace::Detail;

// Names of the events that are no steps.
const SWITCH_IN: &str = "switch_in";
const SWITCH_OUT: &str = "switch_out";
const GAP: &str = "gap";

/// Writes a raw trace.
pub(super) struct Writer {
    out: Out,
    progress: Progress,
}

impl Writer {
    /// Begins with the header.
    pub(super) fn new(mut out: Out, header: &Header) -> Result<Self, WriteError> {
        out.buffer.extend(header.to_json()?.into_bytes());
        out.buffer.push(b'\n');
        Ok(Self {
            out,
            progress: Progress::new(header),
        })
    }
}

impl Sink for Writer {
    fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        self.progress.event(event)?;
        Line(&mut self.out.buffer).event(event);
        self.out.drain()
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        self.out.write_out()
    }

    fn finish(mut self: Box<Self>, end: End) -> Result<End, WriteError> {
        let end = self.progress.end(end);
        serde_json::to_writer(&mut self.out.buffer, &end)?;
        self.out.buffer.push(b'\n');
        self.out.write_out()?;
        Ok(end)
    }
}

/// Formats an event. By hand: a general serializer takes several times as long.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn event(mut self, event: &Event) {
        self.text("{\"at_ns\":");
        self.number(event.at);
        self.field(",\"vm\":", event.place.vm);
        self.field(",\"vcpu\":", event.place.vcpu);
        self.text(",\"event\":\"");
        self.text(name(&event.what));
        self.text("\"");
        match event.what {
            What::Lock { lock, step } => {
                self.field(",\"lock\":", lock);
                match step.detail() {
                    Detail::Nothing => {}
                    Detail::Behind(None) => self.text(",\"behind\":null"),
                    Detail::Behind(Some(cpu)) => self.field(",\"behind\":", cpu),
                    Detail::Ticket(ticket) => self.field(",\"ticket\":", ticket),
                    Detail::How(how) => self.word(",\"how\":\"", how.name()),
                    Detail::Target(cpu) => self.field(",\"target\":", cpu),
                }
            }
            What::Switch { cpu, kind } => {
                self.field(",\"cpu\":", cpu);
                self.text(match kind {
                    SwitchKind::In => "",
                    SwitchKind::Out => ",\"preempted\":false",
                    SwitchKind::OutPreempted => ",\"preempted\":true",
                });
            }
            What::Host(step) => match step.detail() {
                HostDetail::Nothing => {}
                HostDetail::Reason(reason) => self.word(",\"reason\":\"", reason.name()),
                HostDetail::LengthNs(ns) => self.field(",\"length_ns\":", ns),
            },
            What::Gap { dropped } => self.field(",\"dropped\":", dropped),
        }
        self.text("}\n");
    }

    fn word(&mut self, name: &str, word: &str) {
        self.text(name);
        self.text(word);
        self.text("\"");
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn field(&mut self, name: &str, value: impl Into<u64>) {
        self.text(name);
        self.number(value.into());
    }

    fn number(&mut self, mut value: u64) {
        // 20 digits are enough for any u64.
        let mut digits = [0_u8; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (value % 10).to_le_bytes()[0];
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[first..]);
    }
}

/// The event's name in the raw trace.
const fn name(what: &What) -> &'static str {
    match what {
        What::Lock { step, .. } => step.name(),
        What::Host(step) => step.name(),
        What::Switch {
            kind: SwitchKind::In,
            ..
        } => SWITCH_IN,
        What::Switch { .. } => SWITCH_OUT,
        What::Gap { .. } => GAP,
    }
}
