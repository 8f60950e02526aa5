//! The raw trace: lines of JSON, the header first, then one for each event, then the end.
//!
//! `docs/trace.md` describes them.

pub(super) mod read;

use super::header::{End, Header};
use super::out::Out;
use super::sink::{Progress, Sink, WriteError};
use super::{Event, What};
use pvlock::TraceEvent;

/// Writes a raw trace.
pub(super) struct Writer {
    out: Out,
    progress: Progress,
}

impl Writer {
    /// Begins with the header.
    pub(super) fn new(mut out: Out, header: &Header) -> Result<Self, WriteError> {
        let line = header.to_json().map_err(WriteError::Json)?;
        out.buffer.extend_from_slice(line.as_bytes());
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
        let line = serde_json::to_string(&end).map_err(WriteError::Json)?;
        self.out.buffer.extend_from_slice(line.as_bytes());
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
                self.step(step);
            }
            What::SwitchIn { cpu } => self.field(",\"cpu\":", cpu),
            What::SwitchOut { cpu, preempted } => {
                self.field(",\"cpu\":", cpu);
                self.text(if preempted {
                    ",\"preempted\":true"
                } else {
                    ",\"preempted\":false"
                });
            }
            What::Exit(reason) => {
                self.text(",\"reason\":\"");
                self.text(reason.name());
                self.text("\"");
            }
            What::Injected { ns } => self.field(",\"length_ns\":", ns),
            What::Gap { dropped } => self.field(",\"dropped\":", dropped),
            What::Enter | What::Blocked | What::Unblocked => {}
        }
        self.text("}\n");
    }

    fn step(&mut self, step: TraceEvent) {
        match step {
            TraceEvent::QueuedBehind(None) => self.text(",\"behind\":null"),
            TraceEvent::QueuedBehind(Some(cpu)) => self.field(",\"behind\":", cpu),
            TraceEvent::QueuedWithTicket(ticket) => self.field(",\"ticket\":", ticket),
            TraceEvent::Acquired(how) => {
                self.text(",\"how\":\"");
                self.text(how.name());
                self.text("\"");
            }
            TraceEvent::Kick(cpu) | TraceEvent::Yield(cpu) => self.field(",\"target\":", cpu),
            TraceEvent::Start
            | TraceEvent::Head
            | TraceEvent::HaltQueued
            | TraceEvent::HaltHead
            | TraceEvent::Woken
            | TraceEvent::Spurious
            | TraceEvent::Release => {}
        }
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
        What::Lock { step, .. } => match step {
            TraceEvent::Start => "start",
            TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) => "queued",
            TraceEvent::Head => "head",
            TraceEvent::HaltQueued => "halt_queued",
            TraceEvent::HaltHead => "halt_head",
            TraceEvent::Woken => "woken",
            TraceEvent::Spurious => "spurious",
            TraceEvent::Acquired(_) => "acquired",
            TraceEvent::Release => "release",
            TraceEvent::Kick(_) => "kick",
            TraceEvent::Yield(_) => "yield",
        },
        What::SwitchIn { .. } => "switch_in",
        What::SwitchOut { .. } => "switch_out",
        What::Enter => "enter",
        What::Exit(_) => "exit",
        What::Blocked => "blocked",
        What::Unblocked => "unblocked",
        What::Injected { .. } => "injected",
        What::Gap { .. } => "gap",
    }
}
