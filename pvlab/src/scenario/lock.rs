//! A lock, the way to call it, and how both are written.

use abi::Dispatch;
use peers::{Kind, Peer};
use pvlock::LockKind;
use pvlock::registry::Traits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A lock and how it is called; written `qspinlock`, or `qspinlock:pointer`, with `auto=` before it if
/// the guest's kernel chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Lock {
    /// The algorithm.
    pub kind: Kind,
    /// How the workload reaches it.
    pub dispatch: Dispatch,
    /// It was chosen by what the guest is offered ([`Scenario::offered`](super::Scenario::offered)).
    pub auto: bool,
}

impl Lock {
    /// Whether it has a read side that can be reached: reads are compiled in.
    pub fn can_be_read(self) -> bool {
        self.kind.is_rw() && self.dispatch == Dispatch::Direct
    }

    /// What the lock can do and needs.
    pub const fn traits(self) -> Traits {
        self.kind.traits()
    }

    /// Whether waiters spin for a number of turns and then halt, in the middle of an acquisition. A sleeping
    /// lock's do not: an idle CPU halts whatever it is offered.
    pub(crate) const fn halts_while_spinning(&self) -> bool {
        self.traits().halts && !self.traits().sleeps
    }

    /// Why a machine, if peers can (`peers`) or cannot run there, cannot run this lock, called in this way.
    pub(crate) fn check_peer(self, peers: bool) -> Result<(), PeerUsage> {
        let Some(peer) = self.kind.peer() else {
            return Ok(());
        };
        if !peer.is_built_in() {
            Err(PeerUsage::Missing(peer))
        } else if !peers {
            Err(PeerUsage::OfThreads(peer))
        } else if self.dispatch != Dispatch::Direct {
            Err(PeerUsage::Direct(self, peer))
        } else {
            Ok(())
        }
    }

    /// The name, as users write it.
    pub fn name(self) -> String {
        self.to_string()
    }
}

impl From<LockKind> for Lock {
    fn from(kind: LockKind) -> Self {
        Self::from(Kind::Ours(kind))
    }
}

impl From<Kind> for Lock {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            dispatch: Dispatch::Direct,
            auto: false,
        }
    }
}

impl PartialEq<LockKind> for Lock {
    fn eq(&self, kind: &LockKind) -> bool {
        *self == Self::from(*kind)
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auto = if self.auto { "auto=" } else { "" };
        f.pad(&(auto.to_owned() + &join_dispatch(self.kind.name(), self.dispatch)))
    }
}

impl From<Lock> for String {
    fn from(lock: Lock) -> Self {
        lock.to_string()
    }
}

/// Why a lock of somebody else's cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerUsage {
    #[error("'{0}' is a lock for host threads only; add --machine threads")]
    OfThreads(Peer),
    #[error("'{0}' can only be called directly; write '{1}'")]
    Direct(Lock, Peer),
    #[error(
        "'{0}' has not been built in; install ConcurrencyKit's headers (Debian: libck-dev), and build with \
         --features ck"
    )]
    Missing(Peer),
}

/// A lock that does not exist, or cannot be called in that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLock {
    /// There is no lock of that name.
    #[error("unknown lock '{0}'")]
    Kind(String),
    /// There is no way of that name to call a lock.
    #[error("unknown way '{0}' to call a lock; there are direct, pointer and patched")]
    Dispatch(String),
}

impl FromStr for Lock {
    type Err = UnknownLock;

    fn from_str(text: &str) -> Result<Self, UnknownLock> {
        let chosen = text.strip_prefix("auto=");
        let (name, dispatch) = split_dispatch(chosen.unwrap_or(text))?;
        let kind = Kind::from_name(name).ok_or_else(|| UnknownLock::Kind(name.to_owned()))?;
        let auto = chosen.is_some();
        Ok(Self {
            kind,
            dispatch,
            auto,
        })
    }
}

/// A lock's name with the way to call it, as [`split_dispatch`] takes them apart.
pub fn join_dispatch(name: &str, way: Dispatch) -> String {
    match way {
        Dispatch::Direct => name.to_owned(),
        other => format!("{name}:{}", other.name()),
    }
}

/// A lock's name, and the way to call it that may be written after a colon.
pub fn split_dispatch(text: &str) -> Result<(&str, Dispatch), UnknownLock> {
    let Some((name, way)) = text.split_once(':') else {
        return Ok((text, Dispatch::Direct));
    };
    let known = Dispatch::ALL.into_iter().find(|known| known.name() == way);
    let dispatch = known.ok_or_else(|| UnknownLock::Dispatch(way.to_owned()))?;
    Ok((name, dispatch))
}

impl TryFrom<String> for Lock {
    type Error = UnknownLock;

    fn try_from(text: String) -> Result<Self, UnknownLock> {
        text.parse()
    }
}
