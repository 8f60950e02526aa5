//! Where the events of a trace go: files that are written as the trace is made.
//!
//! Nothing is kept but a few buffers, however long the trace. What is written stays, whatever happens
//! afterwards, and can be read: every file begins with its header, and only its end tells that it is
//! complete. Nothing is sought in, so that a pipe will do.

use super::header::{End, EventError, Header, HeaderError};
use super::out::Out;
use super::{Event, Place, dat, perfetto, raw};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Takes the events of a trace, in the order of time.
pub trait Sink: Send {
    /// Takes the next event.
    /// After an error, nothing more is taken.
    fn event(&mut self, event: &Event) -> Result<(), WriteError>;

    /// Writes what has been gathered, so that a reader of the file finds it.
    fn flush(&mut self) -> Result<(), WriteError>;

    /// Ends the trace. Yields the end as written, with the counts.
    fn finish(self: Box<Self>, end: End) -> Result<End, WriteError>;
}

/// Kinds of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Perfetto trace, to be looked at.
    Perfetto,
    /// A line of JSON for each event, to be processed.
    JsonLines,
    /// A trace.dat, for trace-cmd and KernelShark.
    TraceDat,
}

/// Creates the file, or empties it, and writes the header.
pub fn create(path: &Path, format: Format, header: &Header) -> Result<Box<dyn Sink>, WriteError> {
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => to(Box::new(file), name, format, header),
        Err(source) => Err(WriteError::Create { name, source }),
    }
}

/// Writes to a stream with that name, beginning with the header.
pub fn to(
    stream: Box<dyn Write + Send>,
    name: String,
    format: Format,
    header: &Header,
) -> Result<Box<dyn Sink>, WriteError> {
    header.check()?;
    let out = Out::new(stream, name);
    let mut sink: Box<dyn Sink> = match format {
        Format::Perfetto => Box::new(perfetto::Writer::new(out, header)?),
        Format::JsonLines => Box::new(raw::Writer::new(out, header)?),
        Format::TraceDat => Box::new(dat::Writer::new(out, header)),
    };
    // Finds out now, and not after the run, that the file cannot be written.
    sink.flush()?;
    Ok(sink)
}

/// Why a trace file could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "their messages say what they are")]
pub enum WriteError {
    #[error("cannot create {name}: {source}; name another file with -o")]
    Create { name: String, source: io::Error },
    #[error("cannot write {name}: {source}; {}", kept(*.written))]
    Write {
        name: String,
        source: io::Error,
        /// Bytes that have been written.
        written: u64,
    },
    #[error("cannot write the trace: {0}")]
    Header(#[from] HeaderError),
    /// Header or end do not become JSON.
    #[error("cannot write the trace: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot write the trace any more: it ended with an error")]
    Ended,
    #[error("cannot write the trace: it has no vCPU {} of VM {}", .0.vcpu, .0.vm)]
    NoSuchVcpu(Place),
    #[error("cannot write the trace: {0}")]
    Event(#[source] EventError),
}

impl From<EventError> for WriteError {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NoVcpu(place) => Self::NoSuchVcpu(place),
            other => Self::Event(other),
        }
    }
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
