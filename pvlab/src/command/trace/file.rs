//! Where a trace goes, and what becomes of it when it cannot go there.

use super::accountant;
use super::args::{TraceArgs, TraceFormatArg};
use crate::options::{CliError, complain};
use crate::publish::{Draft, Target, in_place, places};
use crate::trace::account::Account;
use crate::trace::batch::Batched;
use crate::trace::header::{End, Header, Sizes};
use crate::trace::sink::{self, Format, Sink, WriteError};
use crate::trace::{CollectError, Collector, Event, Merged};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A trace that is not where it should be.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace to {name}: {why}; {kept}")]
pub(crate) struct TraceLost {
    name: String,
    why: String,
    kept: String,
}

pub(crate) struct Destination {
    target: Target,
    format: Format,
}

struct Open {
    sink: Box<dyn Sink>,
    /// What is to become the file; none for a stream.
    draft: Option<Draft>,
}

pub(crate) struct Written {
    pub(crate) account: Account,
    pub(crate) merged: Merged,
    /// The trace's end, if it is where it should be.
    pub(crate) end: Option<End>,
    /// If it is not.
    pub(crate) lost: Option<TraceLost>,
}

impl Destination {
    /// From the options, after a check that it can be written; `None`: only the account is wanted.
    pub(crate) fn of(args: &TraceArgs) -> Result<Option<Self>, CliError> {
        let name = args.output.as_ref().and_then(|path| path.extension());
        let format = match args.format {
            Some(TraceFormatArg::JsonLines) => Format::JsonLines,
            None if name.is_some_and(|e| e == "jsonl" || e == "ndjson") => Format::JsonLines,
            Some(TraceFormatArg::TraceDat) => Format::TraceDat,
            None if name.is_some_and(|e| e == "dat") => Format::TraceDat,
            Some(TraceFormatArg::Perfetto) | None => Format::Perfetto,
        };
        let target = match &args.output {
            Some(path) => Target::check(Some(path))?,
            None if format == Format::JsonLines => Target::Stdout,
            None => return Ok(None),
        };
        Ok(Some(Self { target, format }))
    }

    /// Whether the trace goes to standard output, where then nothing else may go.
    pub(crate) fn is_stdout(&self) -> bool {
        self.target.is_stdout()
    }

    /// What a file is to be called that takes its place.
    fn file_name(&self) -> &OsStr {
        match &self.target {
            Target::Stdout => OsStr::new("trace"),
            other => other.file_name(),
        }
    }

    /// The directory of the file, where there will have to be room anyway.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        match &self.target {
            Target::File(path) => path.parent().map(|parent| match parent {
                here if here.as_os_str().is_empty() => PathBuf::from("."),
                other => other.to_owned(),
            }),
            Target::Stdout | Target::InPlace(_) | Target::Stream(..) => None,
        }
    }

    fn open(&self, header: &Header) -> Result<Open, WriteError> {
        let create = |source| WriteError::Create {
            name: self.target.name(),
            source,
        };
        let stream: Box<dyn io::Write + Send> = match &self.target {
            Target::File(path) => return draft(path, self.format, header),
            Target::Stdout => Box::new(io::stdout()),
            Target::Stream(_, file) => Box::new(file.try_clone().map_err(create)?),
            Target::InPlace(path) => Box::new(in_place(path).map_err(create)?),
        };
        let sink = sink::to(stream, self.target.name(), self.format, header)?;
        Ok(Open { sink, draft: None })
    }
}

fn draft(path: &Path, format: Format, header: &Header) -> Result<Open, WriteError> {
    let name = path.display().to_string();
    let create = |source| WriteError::Create {
        name: name.clone(),
        source,
    };
    let draft = Draft::create(path).map_err(create)?;
    let writer = draft.writer().map_err(create)?;
    Ok(Open {
        sink: sink::to(Box::new(writer), name.clone(), format, header)?,
        draft: Some(draft),
    })
}

/// Merges what was collected, into the account and the file. What was measured is not lost because the
/// file is: there is an account in any case, and the trace is kept elsewhere.
pub(crate) fn write_out(
    collector: &mut Collector,
    header: &Header,
    destination: Option<&Destination>,
) -> Result<Written, CollectError> {
    let mut accountant = accountant(header);
    let (sink, draft, refused) = match destination.map(|destination| destination.open(header)) {
        None => (None, None, None),
        Some(Ok(Open { sink, draft })) => (Some(sink), draft, None),
        Some(Err(error)) => (None, None, Some(error)),
    };
    let result = merge(collector, header, sink, |event| accountant.event(event));
    let (merged, outcome) = match result {
        Ok(result) => result,
        Err(error) => {
            if let Some(draft) = draft {
                let left = draft.leave();
                complain(&format!("the trace's beginning is in {}", left.display()));
            }
            return Err(error);
        }
    };
    let account = accountant.finish(merged.end_ns);
    let (end, lost) = match (destination, refused.map(Err).or(outcome)) {
        (Some(destination), Some(outcome)) => {
            let settled = settle(collector, header, destination, draft, outcome);
            settled.map_or_else(|lost| (None, Some(lost)), |end| (end, None))
        }
        _ => (None, None),
    };
    Ok(Written {
        account,
        merged,
        end,
        lost,
    })
}

/// Merges what was collected, into a sink if there is one, whose failure does not disturb the rest.
#[allow(clippy::type_complexity, reason = "of two parts")]
fn merge(
    collector: &mut Collector,
    header: &Header,
    sink: Option<Box<dyn Sink>>,
    mut each: impl FnMut(&Event),
) -> Result<(Merged, Option<Result<End, WriteError>>), CollectError> {
    let mut sink = sink.map(Batched::before);
    let mut failed = None;
    let sizes = Sizes::of(header);
    let mut stray = 0;
    let mut merged = collector.merge(|event: &Event| {
        // A guest that overwrote its ring may name anything.
        if sizes.check(event).is_err() {
            stray += 1;
            return Ok(());
        }
        each(event);
        if let Some(at_work) = &mut sink
            && let Err(error) = at_work.event(event)
        {
            failed = Some(error);
            sink = None;
        }
        Ok::<_, CollectError>(())
    })?;
    merged.malformed += stray;
    merged.events -= stray;
    let end = End {
        end_ns: merged.end_ns,
        lost_switches: collector.lost_switches(),
        residual_ns: Some(header.clock.residual_ns),
        ..End::default()
    };
    let outcome = match (sink, failed) {
        (_, Some(error)) => Some(Err(error)),
        (Some(sink), None) => Some(sink.finish(end)),
        (None, None) => None,
    };
    Ok((merged, outcome))
}

/// Publishes what has been written, or keeps it elsewhere. No end: its reader has had enough of it.
fn settle(
    collector: &mut Collector,
    header: &Header,
    destination: &Destination,
    draft: Option<Draft>,
    outcome: Result<End, WriteError>,
) -> Result<Option<End>, TraceLost> {
    let lost = |why, kept| TraceLost {
        name: destination.target.name(),
        why,
        kept,
    };
    let whole = |path: &Path| format!("the whole of it is kept in {}", path.display());
    match (outcome, draft) {
        (Ok(end), None) => Ok(Some(end)),
        (Ok(end), Some(draft)) => match draft.publish() {
            Ok(()) => Ok(Some(end)),
            Err(unpublished) => {
                let why = unpublished.source.to_string();
                let draft = unpublished.draft;
                if draft.is_there() {
                    return Err(lost(why, whole(&draft.leave())));
                }
                let copy = |path: &PathBuf| File::create_new(path).and_then(|f| draft.copy_to(&f));
                let kept = places(destination.file_name()).find(|path| copy(path).is_ok());
                Err(lost(why, kept.map_or_else(nowhere, |path| whole(&path))))
            }
        },
        (Err(error), None) if error.is_reader_gone() => Ok(None),
        (Err(error), draft) => {
            let again = |path: &PathBuf| write_again(collector, header, path, destination.format);
            let kept = places(destination.file_name()).find(again);
            let kept = match (kept, draft, &error) {
                (Some(path), _, _) => whole(&path),
                (None, Some(draft), WriteError::Write { written, .. }) if *written > 0 => format!(
                    "its first {written} bytes are kept in {}, which --summary reads",
                    draft.leave().display()
                ),
                _ => nowhere(),
            };
            Err(lost(error.why(), kept))
        }
    }
}

fn nowhere() -> String {
    "no other place could be written either, and only its account is left".to_owned()
}

/// Writes the whole trace once more, to another file. Whether that went well.
fn write_again(collector: &mut Collector, header: &Header, path: &Path, format: Format) -> bool {
    let Ok(Open { sink, draft }) = draft(path, format, header) else {
        return false;
    };
    let written = merge(collector, header, Some(sink), |_| ());
    let complete = matches!(written, Ok((_, Some(Ok(_)))));
    complete && draft.is_some_and(|draft| draft.publish().is_ok())
}

impl crate::options::error::Ends for TraceLost {}
