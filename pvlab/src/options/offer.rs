//! What guests are offered, and the locks that follow from it.

use super::args::OfferArgs;
use super::error::Usage;
use super::values::LockArg;
use crate::scenario::{Lock, MachineKind};
use crate::selection::Offered;
use abi::Dispatch;

impl OfferArgs {
    /// What the guests are offered.
    pub(crate) fn offered(&self) -> Offered {
        Offered {
            pv_unhalt: !self.no_pv_unhalt,
            realtime_hint: self.realtime_hint,
            pv: !self.no_pv,
        }
    }

    /// The locks that guests with so many vCPUs get on `machine`, if they can have them.
    ///
    /// All locks of a command together: an option that matters to none of them is a mistake.
    pub(crate) fn resolve(
        &self,
        asked: &[(LockArg, usize)],
        machine: MachineKind,
    ) -> Result<Vec<Lock>, Usage> {
        let auto = asked.iter().any(|(lock, _)| lock.kind.is_none());
        for (given, option) in [
            (self.realtime_hint, "--realtime-hint"),
            (self.no_pv, "--no-pv"),
        ] {
            if given && !auto {
                return Err(Usage::NothingToChoose { option });
            }
        }
        let resolved: Vec<Lock> = asked
            .iter()
            .map(|&(lock, vcpus)| Lock {
                kind: (lock.kind).unwrap_or_else(|| self.offered().choose(vcpus)),
                dispatch: lock.dispatch,
                auto: lock.kind.is_none(),
            })
            .collect();
        if self.no_pv_unhalt {
            if let Some(lock) = resolved.iter().find(|lock| needs_pv_unhalt(lock)) {
                return Err(Usage::CannotHalt { lock: lock.name() });
            }
            if !auto {
                let option = "--no-pv-unhalt";
                return Err(Usage::NothingToChoose { option });
            }
        }
        let patched = |lock: &&Lock| lock.dispatch == Dispatch::Patched;
        match resolved.iter().find(patched) {
            Some(lock) if !machine.facts().kvm => Err(Usage::NothingToPatch {
                lock: lock.name(),
                machine: machine.name(),
            }),
            _ => Ok(resolved),
        }
    }
}

/// Whether the lock's waiters halt in the middle of an acquisition. A sleeping lock's do not: an idle
/// CPU halts whatever it is offered.
fn needs_pv_unhalt(lock: &Lock) -> bool {
    lock.traits().halts && !lock.traits().sleeps
}
