//! The verdict.

use super::record::{Outcome, Thread};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("mutual exclusion was broken: {0} times somebody was inside who should not have been")]
    Exclusion(u64),
    #[error(
        "mutual exclusion was broken: {entries} entries counted under the lock, by {acquisitions} \
         acquisitions for writing"
    )]
    Entries { entries: u64, acquisitions: u64 },
    #[error("{0} acquisitions of writers took longer than --acq-writer-lim")]
    Late(u64),
    #[error("the lock is stuck")]
    Stuck,
}

/// Everything that speaks against the lock. A lock that stood the test has nothing; to starve
/// somebody is no failure.
pub(crate) fn failures(record: &Outcome) -> Vec<Failure> {
    let sum = |of: fn(&Thread) -> u64| record.threads.iter().map(of).sum();
    let (violations, late) = (sum(|thread| thread.violations), sum(|thread| thread.late));
    let (entries, acquisitions) = (record.entries, record.exclusive);
    let wrong = Failure::Entries {
        entries,
        acquisitions,
    };
    // A vCPU that was stopped may be just between the two; one that goes on may finish its turn.
    let nested = record.scenario.torture.map_or(0, |t| t.nested_locks);
    let open = record.given_up.len() * (1 + nested);
    let found = [
        (violations > 0).then_some(Failure::Exclusion(violations)),
        (entries.abs_diff(acquisitions) > open as u64).then_some(wrong),
        (late > 0).then_some(Failure::Late(late)),
        record.stuck.is_some().then_some(Failure::Stuck),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::torture::record::{Role, Starved};
    use crate::figures::fixture;
    use pvlock::LockKind;

    fn record() -> Outcome {
        let thread = |number| Thread {
            role: Role::Writer,
            number,
            vcpu: number,
            acquisitions: 10,
            violations: 0,
            late: 0,
            longest_wait_ns: 1,
            starved: None,
        };
        Outcome {
            scenario: fixture::scenario(LockKind::Tas),
            measured_s: 1.0,
            without_cpu: Vec::new(),
            interrupted: false,
            intervals: Vec::new(),
            threads: vec![thread(0), thread(1)],
            contended: Some(0),
            exclusive: 20,
            entries: 20,
            given_up: Vec::new(),
            pauses: Vec::new(),
            shuffles: 0,
            preempted_reported: false,
            stuck: None,
        }
    }

    #[test]
    fn a_sound_lock_has_nothing_against_it_and_neither_has_one_that_starves() {
        let mut record = record();
        assert_eq!(failures(&record), []);
        record.threads[1].acquisitions = 0;
        record.threads[1].starved = Some(Starved {
            waited_s: 1.0,
            others: 20,
            still: true,
        });
        assert_eq!(failures(&record), []);
    }

    #[test]
    fn each_fault_is_found() {
        let of = |change: fn(&mut Outcome)| {
            let mut record = record();
            change(&mut record);
            failures(&record)
        };
        assert_eq!(of(|r| r.threads[1].violations = 3), [Failure::Exclusion(3)]);
        assert_eq!(of(|r| r.threads[0].late = 2), [Failure::Late(2)]);
        assert_eq!(of(|r| r.stuck = Some(String::new())), [Failure::Stuck]);
        let entries = |entries| Failure::Entries {
            entries,
            acquisitions: 20,
        };
        assert_eq!(of(|r| r.entries = 19), [entries(19)]);
        assert_eq!(of(|r| r.entries = 21), [entries(21)]);
    }

    #[test]
    fn a_vcpu_that_was_stopped_may_have_entered_without_having_counted() {
        let mut record = record();
        record.given_up = vec![1];
        record.entries = 21;
        assert_eq!(failures(&record), []);
        record.entries = 22;
        assert_eq!(failures(&record).len(), 1);
    }
}
