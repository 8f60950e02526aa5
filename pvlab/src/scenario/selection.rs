//! Which lock a guest gets that leaves the choice to its kernel, and why.
//!
//! A Linux guest on KVM decides at boot, by what the hypervisor offers; the first line that applies:
//!
//! | the guest                                          | gets           |
//! |----------------------------------------------------|----------------|
//! | has the real-time hint: its vCPUs are never preempted | `qspinlock` |
//! | has one vCPU                                       | `qspinlock`    |
//! | was booted with `nopvspin`                         | `qspinlock`    |
//! | is not offered halts that a kick ends (PV unhalt)  | `virt-tas`     |
//! | else                                               | `pv-qspinlock` |

use crate::scenario::{Lock, Scenario, VmSpec};
use pvlock::LockKind;
use serde::{Deserialize, Serialize};

/// What a guest's kernel is offered, and told, when it chooses its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Halts that a kick ends.
    pub pv_unhalt: bool,
    /// The hint that vCPUs are never preempted.
    pub realtime_hint: bool,
    /// The guest may use paravirtual spinlocks at all.
    pub pv: bool,
}

impl Default for Offered {
    fn default() -> Self {
        Self {
            pv_unhalt: true,
            realtime_hint: false,
            pv: true,
        }
    }
}

impl Offered {
    /// The lock that a kernel chooses for a guest of `vcpus` vCPUs.
    pub fn choose(self, vcpus: usize) -> LockKind {
        self.decide(vcpus).0
    }

    /// The choice, and why.
    fn decide(self, vcpus: usize) -> (LockKind, String) {
        let (lock, why) = if self.realtime_hint {
            (LockKind::QSpinLock, "real-time hint")
        } else if vcpus == 1 {
            (LockKind::QSpinLock, "1 vCPU")
        } else if !self.pv {
            (LockKind::QSpinLock, "--no-pv")
        } else if !self.pv_unhalt {
            (LockKind::VirtTas, "no pv unhalt")
        } else {
            let why = format!("pv unhalt is offered, {vcpus} vCPUs");
            return (LockKind::PvQSpinLock, why);
        };
        (lock, why.to_owned())
    }
}

/// How a VM's vCPUs wait for a lock, and why in that way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowPath {
    /// The lock, as it was named.
    pub lock: String,
    /// The algorithm that ran, and how it was called.
    pub algorithm: String,
    /// What its waiters do.
    pub waiters: &'static str,
    /// Why this algorithm.
    pub why: String,
}

impl SlowPath {
    /// That of `lock`, in a VM of `vcpus` vCPUs of `scenario`.
    pub fn of(scenario: &Scenario, lock: Lock, vcpus: usize) -> Self {
        let traits = lock.traits();
        let (lock_auto, auto) = (lock.auto, false);
        Self {
            lock: lock.name(),
            algorithm: Lock { auto, ..lock }.name(),
            waiters: match (traits.halts, traits.yields) {
                _ if traits.control => "are not to be relied on",
                _ if traits.sleeps => "spin, then sleep",
                (true, _) => "halt",
                (false, true) => "spin and yield",
                (false, false) => "spin",
            },
            why: match lock_auto {
                true => format!("auto: {}", scenario.offered.decide(vcpus).1),
                false => "as asked for".to_owned(),
            },
        }
    }

    /// Those of the scenario's VMs.
    pub fn of_vms(scenario: &Scenario) -> Vec<Self> {
        let of = |vm: &VmSpec| Self::of(scenario, vm.lock, vm.vcpus);
        scenario.vms.iter().map(of).collect()
    }

    /// What to tell people: a line for each, numbered if they are of several VMs.
    pub fn lines(paths: &[Self]) -> Vec<String> {
        if let [path] = paths {
            return vec![path.to_string()];
        }
        let numbered = paths.iter().enumerate();
        numbered.map(|(i, path)| format!("VM {i} {path}")).collect()
    }
}

impl std::fmt::Display for SlowPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (algorithm, waiters, why) = (&self.algorithm, self.waiters, &self.why);
        write!(f, "slow path: {algorithm}, waiters {waiters} ({why})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_the_order_of_a_guest_kernel() {
        use LockKind::{PvQSpinLock, QSpinLock, VirtTas};
        let offered = |pv_unhalt, realtime_hint, pv| Offered {
            pv_unhalt,
            realtime_hint,
            pv,
        };
        let none = offered(false, false, true);
        let no_pv = offered(false, false, false);
        let realtime = offered(false, true, true);
        let all = Offered::default();
        for (offered, vcpus, lock, why) in [
            (all, 8, PvQSpinLock, "pv unhalt is offered, 8 vCPUs"),
            (none, 8, VirtTas, "no pv unhalt"),
            (none, 1, QSpinLock, "1 vCPU"),
            (no_pv, 8, QSpinLock, "--no-pv"),
            (no_pv, 1, QSpinLock, "1 vCPU"),
            (realtime, 1, QSpinLock, "real-time hint"),
            (realtime, 8, QSpinLock, "real-time hint"),
        ] {
            assert_eq!(offered.decide(vcpus), (lock, why.to_owned()));
        }
    }
}
