//! Traces that begin late, end early, have gaps, or are wrong.

use super::script::{Script, parts};
use crate::trace::What;
use crate::trace::account::Part;
use abi::HostStep;
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas};
use pvlock::TraceEvent::{HaltHead, QueuedBehind, Woken};
use pvlock::trace::How::{Fast, Pending, Queue, Stolen};

#[test]
fn what_began_before_the_trace_is_incomplete() {
    let mut s = Script::new(QSpinLock, 4, 1);
    s.at(5, 3).on();
    s.at(10, 2).start(); // nobody knows who holds the lock
    s.at(50, 0).release(); // now they do
    s.at(60, 1).acquired(Queue);
    s.at(90, 1).release();
    s.at(100, 2).acquired(Fast);
    let tally = s.tally(200);
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 30),
            (Part::HandOver, 20),
            (Part::Unattributed, 40)
        ]
    );
    assert_eq!((tally.acquisitions, tally.incomplete), (1, 2));
}

#[test]
fn waiters_that_began_before_the_trace_are_in_the_order_all_the_same() {
    let mut s = Script::new(PvQSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).step(Woken).head(); // its start was not seen
    s.at(10, 2).start().behind(1);
    s.at(20, 1).halt(HaltHead);
    s.at(100, 0).release().kick(1);
    s.at(500, 1).wake().acquired(Queue);
    s.at(600, 1).release();
    s.at(600, 2).head().acquired(Queue);
    let tally = s.tally(700);
    assert_eq!(
        parts(&tally),
        [(Part::HolderRunning, 190), (Part::KickToRun, 400)]
    );
    assert_eq!((tally.acquisitions, tally.incomplete), (2, 1));
}

#[test]
fn a_try_lock_is_no_acquisition_that_waited() {
    let mut s = Script::new(Tas, 1, 1);
    s.at(0, 0).acquired(Fast).release();
    let tally = s.tally(10);
    assert_eq!(
        (tally.acquisitions, tally.tried, tally.incomplete),
        (0, 1, 0)
    );
}

#[test]
fn waits_that_have_not_ended_are_accounted_up_to_the_end() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(100, 1).start().head();
    s.at(200, 0).off();
    let tally = s.tally(1000);
    assert_eq!(
        parts(&tally),
        [(Part::HolderRunning, 100), (Part::HolderPreempted, 800)]
    );
    assert_eq!((tally.unfinished, tally.unfinished_wait_ns), (1, 900));
    assert_eq!(tally.acquisitions, 1, "vCPU 0's");
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 800));
}

#[test]
fn a_gap_gives_up_the_acquisition_in_progress_and_what_is_known_of_free_locks() {
    let mut s = Script::new(QSpinLock, 3, 2);
    s.held(0);
    s.at(10, 1).start().head();
    s.at(20, 2).start().behind(None).head();
    s.at(50, 1).what(What::Gap { dropped: 7 }); // a waiter: lock 0 is still held by vCPU 0
    s.at(100, 0).release();
    s.at(110, 2).acquired(Queue);
    s.at(150, 0).start().head();
    s.at(200, 2).what(What::Gap { dropped: 1 }); // the holder: not known any more
    s.at(300, 0).acquired(Pending);
    s.at(310, 0).release();
    let tally = s.tally(400);
    // 2: 80 held, 10. 0: 50 held, 100 unknown.
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 130),
            (Part::HandOver, 10),
            (Part::Unattributed, 100)
        ]
    );
    assert_eq!((tally.acquisitions, tally.dropped), (3, 1));
    assert_eq!((tally.unfinished, tally.incomplete), (0, 0));
}

#[test]
fn vcpus_without_switches_count_as_on_a_cpu_unless_blocked() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start().head();
    s.at(200, 0).what(What::Host(HostStep::Blocked));
    s.at(300, 0).what(What::Host(HostStep::Unblocked));
    s.at(400, 0).release();
    s.at(400, 1).acquired(Queue);
    let account = s.account(500);
    assert_eq!(account.vms[0].vcpus_without_switches, 2);
    assert_eq!(
        parts(&account.vms[0].total),
        [(Part::HolderRunning, 200), (Part::HolderPreempted, 100)]
    );
}

#[test]
fn small_inversions_between_cpus_do_no_harm() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(1000, 1).start().head();
    s.at(5000, 1).acquired(Pending); // seen before the release
    s.at(4800, 0).release();
    s.at(4700, 0).start();
    s.at(6000, 1).release();
    s.at(6100, 0).acquired(Fast);
    let tally = s.tally(7000);
    assert_eq!((tally.sum_violations, tally.overlaps), (0, 1));
    assert_eq!(tally.wait_ns, 4000 + 1400);
    assert_eq!(tally.parts_ns[Part::HolderRunning], 4000 + 1000);
}

#[test]
fn parts_that_do_not_add_up_are_found() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(1000, 1).start().head();
    s.at(900_000, 0).off(); // a stamp out of the blue ...
    s.at(3000, 0).on();
    s.at(4000, 0).release();
    s.at(5000, 1).acquired(Pending); // ... so the clocks say 899 us, the stamps 4 us
    let account = s.account(5000);
    assert_eq!(account.sum_violations(), 1);
    assert_eq!(account.vms[0].total.worst_violation_ns, 895_000);
}

#[test]
fn the_tolerance_is_a_microsecond_or_a_percent() {
    for (wait, off, violations) in [
        (10_000, 1_000, 0),
        (10_000, 1_001, 1),
        (1_000_000, 10_000, 0),
        (1_000_000, 10_001, 1),
    ] {
        let mut s = Script::new(QSpinLock, 2, 1);
        s.held(0);
        s.at(0, 1).start();
        s.at(wait + off, 0).release();
        s.at(wait, 1).acquired(Pending);
        assert_eq!(
            s.tally(wait).sum_violations,
            violations,
            "{off} ns off in {wait} ns"
        );
    }
}

#[test]
fn events_of_what_there_is_not_are_counted_and_ignored() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(10, 2).start();
    s.at(10, 1).lock(1).start();
    s.at(10, 1).vm(1).start();
    s.at(10, 1).step(QueuedBehind(Some(70_000)));
    s.at(10, 0).kick(2);
    let account = s.account(100);
    assert_eq!(account.foreign_events, 5);
    assert_eq!(account.events, 7);
    assert_eq!(account.vms[0].total.unfinished, 0);
}

#[test]
fn nonsense_neither_panics_nor_is_it_accounted() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(10, 0).acquired(Stolen); // holds it already
    s.at(20, 0).start(); // and waits for itself
    s.at(30, 0).start(); // twice
    s.at(40, 0).release();
    s.at(50, 0).release();
    s.at(60, 1)
        .what(What::Host(HostStep::Enter))
        .what(What::Host(HostStep::Unblocked))
        .on();
    s.at(70, 1).kick(1);
    let tally = s.tally(100);
    assert_eq!((tally.acquisitions, tally.incomplete), (1, 5));
}

#[test]
fn an_empty_trace_has_an_empty_account() {
    let account = Script::new(QSpinLock, 2, 1).account(100);
    assert_eq!((account.span_ns, account.events), (0, 0));
    assert_eq!(parts(&account.vms[0].total), []);
}
