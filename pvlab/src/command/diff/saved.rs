//! What `pvlab compare --format json` has written, as far as another report can be held against it.

use crate::figures::stats::median;
use crate::options::exit::USAGE;
use crate::options::{Ends, FAILED};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::path::Path;

/// The kind of report that is read here, and its version.
const KIND: &str = "pvlab.compare/";
const VERSION: u32 = 1;

/// A report that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    #[error("cannot read {file}: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("{file}, line {line}, column {column}: it is no JSON, or not all of it: {why}")]
    NoJson {
        file: String,
        line: usize,
        column: usize,
        why: String,
    },
    #[error("{file} is no report of 'pvlab compare --format json': its schema is {schema}")]
    OtherKind { file: String, schema: String },
    #[error(
        "{file} has the schema {schema}, and this pvlab knows versions up to {VERSION}: take the pvlab that wrote it, \
         or a later one"
    )]
    Newer { file: String, schema: String },
    #[error("{file} is damaged, or has been edited: {what}")]
    Damaged { file: String, what: String },
}

impl Ends for SavedError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } => FAILED,
            _ => USAGE,
        }
    }
}

/// A report of `pvlab compare`.
#[derive(Debug, Deserialize)]
pub(crate) struct Saved {
    /// The file it is from.
    #[serde(skip)]
    pub file: String,
    /// The machine's name.
    pub machine: String,
    /// The host of a real machine.
    pub host: Option<Value>,
    /// What was run.
    pub scenario: Value,
    /// How it ended.
    pub ended: String,
    /// Each lock's.
    pub results: Vec<SavedLock>,
    /// What there was to warn of.
    #[serde(default)]
    pub warnings: Vec<Value>,
}

/// What a lock made.
#[derive(Debug, Deserialize)]
pub(crate) struct SavedLock {
    /// Its name.
    pub lock: String,
    /// Acquisitions a second.
    pub throughput: SavedThroughput,
    /// Acquisitions of all rounds.
    pub acquisitions: u64,
    /// How evenly vCPUs got it.
    pub fairness: SavedFairness,
    /// Waits, ns, if they were timed.
    pub wait_ns: Option<SavedWaits>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SavedThroughput {
    /// Of the rounds.
    pub median: Option<f64>,
    /// Each round's.
    pub rounds: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct SavedFairness {
    /// Jain's index.
    pub jain: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct SavedWaits {
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
}

impl Saved {
    /// The report in that file.
    pub(crate) fn read(path: &Path) -> Result<Self, SavedError> {
        let file = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(source) => return Err(SavedError::Unreadable { file, source }),
        };
        Self::parse(&text, file)
    }

    pub(super) fn parse(text: &str, file: String) -> Result<Self, SavedError> {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or(&why).to_owned();
                let (line, column) = (error.line(), error.column());
                return Err(SavedError::NoJson {
                    file,
                    line,
                    column,
                    why,
                });
            }
        };
        let schema = value["schema"].as_str().unwrap_or("none").to_owned();
        match schema.strip_prefix(KIND).map(str::parse::<u32>) {
            Some(Ok(1..=VERSION)) => {}
            Some(Ok(version)) if version > VERSION => {
                return Err(SavedError::Newer { file, schema });
            }
            _ => return Err(SavedError::OtherKind { file, schema }),
        }
        let saved: Self = match serde_json::from_value(value) {
            Ok(saved) => saved,
            Err(error) => {
                let what = error.to_string();
                return Err(SavedError::Damaged { file, what });
            }
        };
        match saved.contradiction() {
            Some(what) => Err(SavedError::Damaged { file, what }),
            None => Ok(Self { file, ..saved }),
        }
    }

    /// What of it cannot be, if it is as pvlab wrote it.
    fn contradiction(&self) -> Option<String> {
        if self.results.is_empty() {
            return Some("it has no results".into());
        }
        self.results.iter().find_map(|result| {
            let lock = &result.lock;
            let said = result.throughput.median.unwrap_or(0.0);
            let Some(of_rounds) = median(result.rounds()) else {
                return Some(format!("{lock} has no rounds"));
            };
            let differs = (of_rounds - said).abs() > 1e-9 * said.abs();
            differs.then(|| {
                format!("the median of {lock}, {said}, is not that of its rounds, {of_rounds}")
            })
        })
    }

    /// The lock of that name.
    pub(crate) fn lock(&self, name: &str) -> Option<&SavedLock> {
        self.results.iter().find(|result| result.lock == name)
    }

    /// Its locks, for a message.
    pub(crate) fn locks(&self) -> String {
        let names: Vec<_> = self.results.iter().map(|r| r.lock.as_str()).collect();
        names.join(", ")
    }
}

impl SavedLock {
    /// Each round's acquisitions a second; a round without any has none in the file.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = f64> + '_ {
        let rounds = self.throughput.rounds.iter();
        rounds.map(|round| round.unwrap_or(0.0))
    }
}
