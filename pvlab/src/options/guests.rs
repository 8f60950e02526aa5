//! Which guests to run, and how large.

use super::error::usage;
use super::lock::{LockArg, LockUsage, lock, lock_parser};
use super::numbers::{NumberUsage, count};
use crate::scenario::VmSpec;
use clap::Args;

/// Which guests to run.
#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// A guest, such as lock=pv-qspinlock,vcpus=4; repeat it for several at the same time.
    #[arg(long, value_name = "SPEC", value_parser = vm, conflicts_with_all = ["lock", "vcpus"])]
    pub(crate) vm: Vec<VmArg>,
    /// Lock of a single guest; short for --vm lock=LOCK,vcpus=N. `auto` is what its kernel would
    /// choose; `LOCK:pointer` and `LOCK:patched` say how it is called.
    #[arg(long, value_name = "LOCK", value_parser = lock_parser())]
    pub(crate) lock: Option<LockArg>,
    /// vCPUs of a single guest [default: 4 for each CPU, or 1 on a simulated machine].
    #[arg(long, value_name = "N", value_parser = vcpus, requires = "lock")]
    pub(crate) vcpus: Option<usize>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub(crate) enum GuestUsage {
    #[error("'{0}' is no guest; write lock=NAME,vcpus=N such as lock=pv-qspinlock,vcpus=4")]
    NoVm(String),
    Lock(#[from] LockUsage),
    Number(#[from] NumberUsage),
    #[error("nothing to run: give --lock NAME, or --vm lock=NAME,vcpus=N for each guest")]
    NothingToRun,
    #[error("{vcpus} vCPUs in one VM: at most {most} can be had, {why}")]
    TooManyVcpus {
        vcpus: usize,
        most: usize,
        why: &'static str,
    },
}

usage!(GuestUsage);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VmArg {
    pub(crate) lock: LockArg,
    pub(crate) vcpus: usize,
}

/// `lock=NAME,vcpus=N`, in either order.
pub(crate) fn vm(text: &str) -> Result<VmArg, GuestUsage> {
    let malformed = || GuestUsage::NoVm(text.to_owned());
    let (mut lock_kind, mut count) = (None, None);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(malformed)?;
        match (key.trim(), value.trim()) {
            ("lock", name) if lock_kind.is_none() => lock_kind = Some(lock(name)?),
            ("vcpus", number) if count.is_none() => count = Some(vcpus(number)?),
            _ => return Err(malformed()),
        }
    }
    Ok(VmArg {
        lock: lock_kind.ok_or_else(malformed)?,
        vcpus: count.ok_or_else(malformed)?,
    })
}

/// vCPUs; how many a VM can have depends on the machine, so that is checked later.
pub(crate) fn vcpus(text: &str) -> Result<usize, NumberUsage> {
    count(text, 1, 1 << 20)
}

#[derive(Clone, Debug)]
pub(crate) enum Guests {
    Given(Vec<VmArg>),
    /// A single one, with one after another of these locks, and four vCPUs for each CPU unless a number was
    /// given.
    Alternatives {
        locks: Vec<LockArg>,
        /// Place of the one that is in the scenario.
        first: usize,
        vcpus: Option<usize>,
    },
}

impl Guests {
    pub(crate) fn of(args: &GuestArgs) -> Result<Self, GuestUsage> {
        match args.lock {
            Some(lock) => Ok(Self::one_of(vec![lock], args.vcpus)),
            None if args.vm.is_empty() => Err(GuestUsage::NothingToRun),
            None => Ok(Self::Given(args.vm.clone())),
        }
    }

    /// A single one, with one after another of these locks.
    pub(crate) fn one_of(locks: impl Into<Vec<LockArg>>, vcpus: Option<usize>) -> Self {
        let (locks, first) = (locks.into(), 0);
        Self::Alternatives {
            locks,
            first,
            vcpus,
        }
    }
}

pub(super) fn check_vcpus(
    vms: &[VmSpec],
    most: usize,
    why: &'static str,
) -> Result<(), GuestUsage> {
    match vms.iter().map(|vm| vm.vcpus).find(|vcpus| *vcpus > most) {
        Some(vcpus) => Err(GuestUsage::TooManyVcpus { vcpus, most, why }),
        None => Ok(()),
    }
}
