//! Where the events of a trace go: files that are written as the trace is made.
//!
//! Nothing is kept but a few buffers, however long the trace. What is written stays, whatever happens
//! afterwards, and can be read: every file begins with its header, and only its end tells that it is
//! complete. Nothing is sought in, so that a pipe will do.

use super::header::{End, Header, HeaderError, Lack, Sizes};
use super::out::Out;
use super::{Event, Place, What, perfetto, raw};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Takes the events of a trace, in the order of time.
pub trait Sink: Send {
    /// Takes the next event.
    ///
    /// # Errors
    /// See [`WriteError`]. After one, nothing more is taken.
    fn event(&mut self, event: &Event) -> Result<(), WriteError>;

    /// Writes what has been gathered, so that a reader of the file finds it.
    ///
    /// # Errors
    /// See [`WriteError`].
    fn flush(&mut self) -> Result<(), WriteError>;

    /// Ends the trace. Yields the end as written, with the counts.
    ///
    /// # Errors
    /// See [`WriteError`].
    fn finish(self: Box<Self>, end: End) -> Result<End, WriteError>;
}

/// Kinds of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Perfetto trace, to be looked at.
    Perfetto,
    /// A line of JSON for each event, to be processed.
    JsonLines,
}

/// Creates the file, or empties it, and writes the header.
///
/// # Errors
/// See [`WriteError`].
pub fn create(path: &Path, format: Format, header: &Header) -> Result<Box<dyn Sink>, WriteError> {
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => to(Box::new(file), name, format, header),
        Err(source) => Err(WriteError::Create { name, source }),
    }
}

/// Writes to a stream with that name, beginning with the header.
///
/// # Errors
/// See [`WriteError`].
pub fn to(
    stream: Box<dyn Write + Send>,
    name: String,
    format: Format,
    header: &Header,
) -> Result<Box<dyn Sink>, WriteError> {
    header.check().map_err(WriteError::Header)?;
    let out = Out::new(stream, name);
    let mut sink: Box<dyn Sink> = match format {
        Format::Perfetto => Box::new(perfetto::Writer::new(out, header)?),
        Format::JsonLines => Box::new(raw::Writer::new(out, header)?),
    };
    // Finds out now, and not after the run, that the file cannot be written.
    sink.flush()?;
    Ok(sink)
}

/// Why a trace file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It cannot be created.
    #[error("cannot create {name}: {source}; name another file with -o")]
    Create {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written any more.
    #[error("cannot write {name}: {source}; {}", kept(*.written))]
    Write {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
        /// Bytes that have been written.
        written: u64,
    },
    /// The header is of no use.
    #[error("cannot write the trace: {0}")]
    Header(#[source] HeaderError),
    /// Header or end do not become JSON.
    #[error("cannot write the trace: {0}")]
    Json(#[source] serde_json::Error),
    /// Events do not come in the order of time.
    #[error("cannot write the trace: an event at {at} ns comes after one at {before} ns")]
    Order {
        /// Time of the event, ns.
        at: u64,
        /// Time of the one before it, ns.
        before: u64,
    },
    /// It ended with an error before.
    #[error("cannot write the trace any more: it ended with an error")]
    Ended,
    /// An event of a vCPU that the header does not have.
    #[error("cannot write the trace: it has no vCPU {} of VM {}", .0.vcpu, .0.vm)]
    NoSuchVcpu(Place),
    /// An event about something else that the header does not have.
    #[error("cannot write the trace: {0}")]
    Lack(#[source] Lack),
}

impl WriteError {
    /// Why, without where.
    pub fn why(&self) -> String {
        match self {
            Self::Create { source, .. } | Self::Write { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }

    /// Whether its reader has had enough of it.
    pub fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn kept(written: u64) -> String {
    match written {
        0 => "nothing was written; make room or name another file with -o".to_owned(),
        n => format!("the {n} bytes before are kept and readable; make room for the rest"),
    }
}

/// What every writer checks and counts.
pub(super) struct Progress {
    sizes: Sizes,
    /// Time of the last event.
    last: u64,
    events: u64,
    dropped: u64,
}

impl Progress {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            sizes: Sizes::of(header),
            last: 0,
            events: 0,
            dropped: 0,
        }
    }

    /// Notes an event that is about to be written.
    #[inline]
    pub(super) fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        if event.at < self.last {
            return Err(WriteError::Order {
                at: event.at,
                before: self.last,
            });
        }
        self.sizes.check(event).map_err(|lack| match lack {
            Lack::Vcpu(place) => WriteError::NoSuchVcpu(place),
            other => WriteError::Lack(other),
        })?;
        self.last = event.at;
        self.events += 1;
        if let What::Gap { dropped } = event.what {
            self.dropped = self.dropped.saturating_add(dropped);
        }
        Ok(())
    }

    /// The end with the counts, and not before the last event.
    pub(super) fn end(&self, end: End) -> End {
        End {
            end_ns: end.end_ns.max(self.last),
            events: self.events,
            dropped: self.dropped,
            ..end
        }
    }
}
