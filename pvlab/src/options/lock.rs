//! Locks, as they are asked for.

use super::error::usage;
use super::numbers::suggesting;
use crate::scenario::{Lock, UnknownLock, join_dispatch, split_dispatch};
use abi::Dispatch;
use clap::builder::{PossibleValue, TypedValueParser};
use peers::Kind;
use std::fmt;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LockUsage {
    #[error("unknown lock '{}'{} ('pvlab locks' lists all)", .0, suggestion(.0))]
    UnknownLock(String),
    #[error("'{0}' is no way to call a lock; write LOCK:direct, LOCK:pointer or LOCK:patched")]
    UnknownDispatch(String),
    #[error(
        "'{0}' takes memory barriers on all CPUs, which this kernel does not offer (membarrier(2)); use a lock \
         without, such as pv-qspinlock+bound+rehash"
    )]
    NoBarriers(Lock),
}

usage!(LockUsage);

fn suggestion(name: &str) -> String {
    let name = name.to_lowercase();
    let known = Kind::all().filter(|lock| !lock.traits().control);
    let alike = known.map(|lock| (strsim::jaro_winkler(&name, lock.name()), lock.name()));
    match alike.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, name)) if likeness > 0.7 => format!("; did you mean '{name}'?"),
        _ => String::new(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockArg {
    /// `None`: `auto`, the guest's kernel chooses.
    pub(crate) kind: Option<Kind>,
    pub(crate) dispatch: Dispatch,
}

/// The name of no lock, but of a choice.
const AUTO: &str = "auto";

impl<K: Into<Kind>> From<K> for LockArg {
    fn from(kind: K) -> Self {
        Self {
            kind: Some(kind.into()),
            dispatch: Dispatch::Direct,
        }
    }
}

impl fmt::Display for LockArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.map_or(AUTO, Kind::name);
        f.write_str(&join_dispatch(name, self.dispatch))
    }
}

pub(crate) fn lock(text: &str) -> Result<LockArg, LockUsage> {
    let (name, dispatch) = split_dispatch(text.trim()).map_err(|unknown| match unknown {
        UnknownLock::Kind(name) => LockUsage::UnknownLock(name),
        UnknownLock::Dispatch(name) => LockUsage::UnknownDispatch(name),
    })?;
    let kind = Kind::from_name(name);
    if kind.is_none() && name != AUTO {
        return Err(LockUsage::UnknownLock(name.to_owned()));
    }
    Ok(LockArg { kind, dispatch })
}

/// [`lock`] for the argument parser, with the names for shell completion.
pub(crate) fn lock_parser() -> impl TypedValueParser<Value = LockArg> {
    suggesting(lock, || {
        let auto = PossibleValue::new(AUTO).help("what a guest's kernel would choose");
        let known = Kind::all().map(|lock| {
            let hidden = lock.traits().control;
            let value = PossibleValue::new(lock.name()).help(lock.summary());
            value.hide(hidden)
        });
        known.chain([auto]).collect()
    })
}
