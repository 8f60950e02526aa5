//! What guests are offered, and the locks that follow from it.

use super::error::usage;
use super::lock::LockArg;
use crate::scenario::selection::Offered;
use crate::scenario::{Lock, MachineKind, PeerUsage};
use abi::Dispatch;
use clap::Args;

// Each option names it: as the heading of the group it would be that of all that come after the group.
const HEADING: &str = "What --lock auto chooses by";

/// What guests are offered when their kernels choose a lock.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OfferArgs {
    /// Do not offer halts that a kick ends (KVM's PV unhalt): `auto` is a test-and-set lock then, and
    /// locks whose waiters halt are refused.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_pv_unhalt: bool,
    /// Tell guests that their vCPUs are never preempted (KVM's real-time hint): `auto` is the native
    /// qspinlock then.
    #[arg(long, help_heading = HEADING)]
    pub(crate) realtime_hint: bool,
    /// Rule paravirtual spinlocks out, as the kernel parameter nopvspin does: `auto` is the native
    /// qspinlock then.
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_pv: bool,
}

/// What is wrong with the locks of guests that are offered this.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferUsage {
    #[error("{0} changes what --lock auto chooses, but no lock is auto; leave it out")]
    NothingToChoose(&'static str),
    #[error(
        "waiters of '{0}' halt, which --no-pv-unhalt rules out; use auto, virt-tas, qspinlock, or \
         another lock whose waiters do not halt ('pvlab locks')"
    )]
    CannotHalt(Lock),
    #[error(
        "'{lock}': calls are patched in the image of a KVM guest, and the machine is {machine}, which \
         has none; use :pointer or :direct"
    )]
    NothingToPatch { lock: Lock, machine: &'static str },
    #[error(transparent)]
    Peer(#[from] PeerUsage),
}

usage!(OfferUsage);

impl OfferArgs {
    pub(super) fn offered(&self) -> Offered {
        Offered {
            pv_unhalt: !self.no_pv_unhalt,
            realtime_hint: self.realtime_hint,
            pv: !self.no_pv,
        }
    }

    /// The locks that guests with so many vCPUs get on `machine`, if they can have them.
    ///
    /// All locks of a command together: an option that matters to none of them is a mistake.
    pub(super) fn resolve(
        &self,
        asked: &[(LockArg, usize)],
        machine: MachineKind,
    ) -> Result<Vec<Lock>, OfferUsage> {
        let auto = asked.iter().any(|(lock, _)| lock.kind.is_none());
        let chosen_by = |option, given| match given && !auto {
            true => Err(OfferUsage::NothingToChoose(option)),
            false => Ok(()),
        };
        chosen_by("--realtime-hint", self.realtime_hint)?;
        chosen_by("--no-pv", self.no_pv)?;
        let resolved = asked.iter().map(|&(lock, vcpus)| Lock {
            kind: (lock.kind).unwrap_or_else(|| self.offered().choose(vcpus).into()),
            dispatch: lock.dispatch,
            auto: lock.kind.is_none(),
        });
        let resolved: Vec<_> = resolved.collect();
        for lock in &resolved {
            lock.check_peer(machine.facts().peers)?;
        }
        if let Some(&lock) = resolved.iter().find(|lock| lock.halts_while_spinning())
            && self.no_pv_unhalt
        {
            return Err(OfferUsage::CannotHalt(lock));
        }
        chosen_by("--no-pv-unhalt", self.no_pv_unhalt)?;
        let patched = |lock: &&Lock| lock.dispatch == Dispatch::Patched;
        match resolved.iter().find(patched) {
            Some(&lock) if !machine.facts().kvm => Err(OfferUsage::NothingToPatch {
                lock,
                machine: machine.name(),
            }),
            _ => Ok(resolved),
        }
    }
}
