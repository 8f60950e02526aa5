//! What is compared, and in which order.

use crate::scenario::{Lock, Scenario};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    /// The locks; one may be there several times.
    pub locks: Vec<Lock>,
    /// Place of the baseline among them.
    #[serde(rename = "baseline_index")]
    pub baseline: usize,
    /// How many rounds were asked for.
    pub rounds: usize,
    /// Least difference of a median ratio from 1 worth a verdict.
    pub min_effect: f64,
    /// The scenario of every run; each replaces the lock of its only VM.
    pub run: Scenario,
}

impl Plan {
    /// The order of the locks in a round. It rotates, so that over the rounds every lock has
    /// every place and none profits from what the others leave behind.
    pub(crate) fn order(&self, round: usize) -> impl Iterator<Item = usize> + use<> {
        let n = self.locks.len();
        (0..n).map(move |place| (place + round) % n)
    }

    /// The scenario for the lock at that place, in that round.
    pub(crate) fn scenario(&self, lock: usize, round: usize) -> Scenario {
        let lock = self.locks[lock];
        let mut scenario = self.run.clone().in_round(round);
        for vm in &mut scenario.vms {
            vm.lock = lock;
        }
        scenario
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::Plan;
    use crate::figures::fixture::scenario;
    use pvlock::LockKind;

    pub(crate) fn plan(locks: &[LockKind], baseline: usize) -> Plan {
        let run = scenario(locks[baseline]);
        Plan {
            locks: locks.iter().map(|&kind| kind.into()).collect(),
            baseline,
            rounds: 5,
            min_effect: 0.01,
            run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture;
    use super::*;
    use pvlock::LockKind;

    #[test]
    fn rounds_rotate() {
        let plan = fixture::plan(&[LockKind::Tas, LockKind::Ticket, LockKind::QSpinLock], 0);
        let orders: Vec<Vec<usize>> = (0..4).map(|round| plan.order(round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }

    #[test]
    fn runs_differ_in_their_lock_alone() {
        let plan = fixture::plan(&[LockKind::Tas, LockKind::Ticket], 0);
        let (a, b) = (plan.scenario(0, 0), plan.scenario(1, 1));
        assert_eq!(a.vms[0].lock, LockKind::Tas);
        assert_eq!(b.vms[0].lock, LockKind::Ticket);
        let vms = b.vms.clone();
        assert_eq!(Scenario { vms, ..a }, b);
    }
}
