//! Acquisitions that took too long only because nobody had a CPU meanwhile: they do not count as late.

use super::count::{Count, waiting_since};
use crate::session::{Run, RunError};
use abi::Counter;

pub(crate) struct Lateness {
    vcpus: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waiter {
    /// Late acquisitions at the last look.
    seen: u64,
    /// Those of them that are forgiven.
    forgiven: u64,
    /// It has been waiting since before an absence ended: since then, in ticks, and the late acquisitions until
    /// then.
    owed: Option<Owed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    since: u64,
    late: u64,
    /// It was seen not to wait any more. A vCPU says so just before it counts, so it is looked at once more.
    over: bool,
}

impl Lateness {
    pub(crate) fn new(vcpus: usize) -> Self {
        Self {
            vcpus: vec![Waiter::default(); vcpus],
        }
    }

    /// Looks at the counts; `absent`: nobody had a CPU for a while since the last look.
    pub(crate) fn look(&mut self, run: &Run<'_>, absent: bool) -> Result<(), RunError> {
        let limit = run.scenario.torture.map(|torture| torture.acquire_limit);
        if limit.unwrap_or_default().is_zero() {
            return Ok(());
        }
        let machine = &*run.vms[0].machine;
        for (number, vcpu) in self.vcpus.iter_mut().enumerate() {
            // Before the count, which comes after it.
            let since = waiting_since(machine, number)?;
            let late = Count::of(machine, number)?.get(Counter::Late);
            vcpu.note(since, late, absent);
        }
        Ok(())
    }

    /// Takes what is forgiven out of the counts.
    pub(crate) fn forgive(&self, counts: &mut [Count]) {
        for (vcpu, count) in self.vcpus.iter().zip(counts) {
            count.forgive(vcpu.forgiven);
        }
    }
}

impl Waiter {
    fn note(&mut self, since: u64, late: u64, absent: bool) {
        if let Some(owed) = &mut self.owed {
            if late > owed.late {
                self.forgiven += 1;
                // What came after it is its own.
                self.owed = None;
            } else if since != owed.since && std::mem::replace(&mut owed.over, true) {
                self.owed = None;
            }
        }
        if absent {
            self.forgiven += late.saturating_sub(self.seen);
            let over = false;
            self.owed = (since != 0).then_some(Owed { since, late, over });
        }
        self.seen = late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is forgiven of these looks: since when it waits, its late acquisitions, whether there was an absence.
    fn forgiven(looks: &[(u64, u64, bool)]) -> u64 {
        let mut vcpu = Waiter::default();
        for &(since, late, absent) in looks {
            vcpu.note(since, late, absent);
        }
        vcpu.forgiven
    }

    #[test]
    fn what_ended_late_in_an_absence_or_had_begun_by_then_is_forgiven() {
        assert_eq!(forgiven(&[(0, 1, false), (0, 2, true)]), 1);
        assert_eq!(forgiven(&[(7, 0, true), (7, 0, false), (9, 1, false)]), 1);
        assert_eq!(forgiven(&[(7, 0, true), (0, 0, false), (0, 1, false)]), 1);
    }

    #[test]
    fn nothing_else_is() {
        assert_eq!(forgiven(&[(0, 1, false), (7, 2, false)]), 0);
        assert_eq!(forgiven(&[(0, 1, true), (9, 2, false)]), 1);
        let one_of_two = [(7, 0, true), (9, 1, false), (11, 2, false)];
        assert_eq!(forgiven(&one_of_two), 1);
        let in_time = [(7, 0, true), (9, 0, false), (9, 0, false), (11, 1, false)];
        assert_eq!(forgiven(&in_time), 0);
    }
}
