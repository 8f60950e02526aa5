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

use crate::scenario::{Lock, Scenario};
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
        let native = LockKind::QSpinLock;
        if self.realtime_hint {
            (native, "real-time hint".to_owned())
        } else if vcpus == 1 {
            (native, "1 vCPU".to_owned())
        } else if !self.pv {
            (native, "--no-pv".to_owned())
        } else if !self.pv_unhalt {
            (LockKind::VirtTas, "no pv unhalt".to_owned())
        } else {
            let why = format!("pv unhalt is offered, {vcpus} vCPUs");
            (LockKind::PvQSpinLock, why)
        }
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
        Self {
            lock: lock.name(),
            algorithm: Lock {
                auto: false,
                ..lock
            }
            .name(),
            waiters: match (traits.halts, traits.yields) {
                _ if traits.control => "are not to be relied on",
                _ if traits.sleeps => "spin, then sleep",
                (true, _) => "halt",
                (false, true) => "spin and yield",
                (false, false) => "spin",
            },
            why: if lock.auto {
                format!("auto: {}", scenario.offered.decide(vcpus).1)
            } else {
                "as asked for".to_owned()
            },
        }
    }

    /// Those of the scenario's VMs.
    pub fn of_vms(scenario: &Scenario) -> Vec<Self> {
        let vms = scenario.vms.iter();
        vms.map(|vm| Self::of(scenario, vm.lock, vm.vcpus))
            .collect()
    }

    /// What to tell people: a line for each, numbered if they are of several VMs.
    pub fn lines(paths: &[Self]) -> Vec<String> {
        let number = |i: usize| match paths.len() {
            1 => String::new(),
            _ => format!("VM {i} "),
        };
        let numbered = paths.iter().enumerate();
        numbered
            .map(|(i, path)| format!("{}{path}", number(i)))
            .collect()
    }
}

impl std::fmt::Display for SlowPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            algorithm,
            waiters,
            why,
            ..
        } = self;
        write!(f, "slow path: {algorithm}, waiters {waiters} ({why})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_the_order_of_a_guest_kernel() {
        let all = Offered::default();
        let none = Offered {
            pv_unhalt: false,
            ..all
        };
        let no_pv = Offered { pv: false, ..none };
        let realtime = Offered {
            realtime_hint: true,
            ..none
        };
        for (offered, vcpus, lock, why) in [
            (
                all,
                8,
                LockKind::PvQSpinLock,
                "pv unhalt is offered, 8 vCPUs",
            ),
            (none, 8, LockKind::VirtTas, "no pv unhalt"),
            (none, 1, LockKind::QSpinLock, "1 vCPU"),
            (no_pv, 8, LockKind::QSpinLock, "--no-pv"),
            (no_pv, 1, LockKind::QSpinLock, "1 vCPU"),
            (realtime, 1, LockKind::QSpinLock, "real-time hint"),
            (realtime, 8, LockKind::QSpinLock, "real-time hint"),
        ] {
            assert_eq!(offered.decide(vcpus), (lock, why.to_owned()));
        }
    }
}
