//! Traces that begin late, end early, have gaps, or are wrong.

use super::script::Script;
use crate::trace::account::Part;
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas};

#[test]
fn what_began_before_the_trace_is_incomplete() {
    let timeline = "
        5 v3 on; 10 v2 start // nobody knows who holds the lock
        50 v0 release // now they do
        60 v1 queue; 90 v1 release; 100 v2 fast
    ";
    let tally = Script::new(QSpinLock, 4, timeline).tally(200);
    tally.assert_parts("holder_running 30, hand_over 20, unattributed 40");
    assert_eq!((tally.acquisitions, tally.incomplete), (1, 2));
}

#[test]
fn waiters_that_began_before_the_trace_are_in_the_order_all_the_same() {
    let timeline = "
        0 v0 start fast; 0 v1 woken head // its start was not seen
        10 v2 start behind=1; 20 v1 halt_head sleeps; 100 v0 release kick=1; 500 v1 wakes queue
        600 v1 release; 600 v2 head queue
    ";
    let tally = Script::new(PvQSpinLock, 3, timeline).tally(700);
    tally.assert_parts("holder_running 190, kick_to_run 400");
    assert_eq!((tally.acquisitions, tally.incomplete), (2, 1));
}

#[test]
fn a_try_lock_is_no_acquisition_that_waited() {
    let timeline = "0 v0 fast release";
    let tally = Script::new(Tas, 1, timeline).tally(10);
    assert_eq!(tally.acquisitions, 0);
    assert_eq!(tally.tried, 1);
    assert_eq!(tally.incomplete, 0);
}

#[test]
fn waits_that_have_not_ended_are_accounted_up_to_the_end() {
    let timeline = "0 v0 start fast; 100 v1 start head; 200 v0 off";
    let tally = Script::new(QSpinLock, 3, timeline).tally(1000);
    tally.assert_parts("holder_running 100, holder_preempted 800");
    assert_eq!((tally.unfinished, tally.unfinished_wait_ns), (1, 900));
    assert_eq!(tally.acquisitions, 1, "vCPU 0's");
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 800));
}

#[test]
fn a_gap_gives_up_the_acquisition_in_progress_and_what_is_known_of_free_locks() {
    let timeline = "
        0 v0 start fast; 10 v1 start head; 20 v2 start behind=nobody head
        50 v1 gap=7 // a waiter: lock 0 is still held by vCPU 0
        100 v0 release; 110 v2 queue; 150 v0 start head
        200 v2 gap=1 // the holder: not known any more
        300 v0 pending; 310 v0 release
    ";
    let tally = Script::new(QSpinLock, 3, timeline).with_locks(2).tally(400);
    // 2: 80 held, 10. 0: 50 held, 100 unknown.
    tally.assert_parts("holder_running 130, hand_over 10, unattributed 100");
    assert_eq!((tally.acquisitions, tally.dropped), (3, 1));
    assert_eq!((tally.unfinished, tally.incomplete), (0, 0));
}

#[test]
fn vcpus_without_switches_count_as_on_a_cpu_unless_blocked() {
    let timeline = "
        0 v0 start fast; 100 v1 start head; 200 v0 blocked; 300 v0 unblocked; 400 v0 release
        400 v1 queue
    ";
    let account = Script::new(PvQSpinLock, 2, timeline).account(500);
    assert_eq!(account.vms[0].vcpus_without_switches, 2);
    let total = &account.vms[0].total;
    total.assert_parts("holder_running 200, holder_preempted 100");
}

#[test]
fn small_inversions_between_cpus_do_no_harm() {
    let timeline = "
        0 v0 start fast; 1000 v1 start head; 5000 v1 pending // seen before the release
        4800 v0 release; 4700 v0 start; 6000 v1 release; 6100 v0 fast
    ";
    let tally = Script::new(QSpinLock, 2, timeline).tally(7000);
    assert_eq!((tally.sum_violations, tally.overlaps), (0, 1));
    assert_eq!(tally.wait_ns, 4000 + 1400);
    assert_eq!(tally.parts_ns[Part::HolderRunning], 4000 + 1000);
}

#[test]
fn parts_that_do_not_add_up_are_found() {
    let timeline = "
        0 v0 start fast; 1000 v1 start head; 900_000 v0 off // a stamp out of the blue ...
        3000 v0 on; 4000 v0 release
        5000 v1 pending // ... so the clocks say 899 us, the stamps 4 us
    ";
    let account = Script::new(QSpinLock, 2, timeline).account(5000);
    assert_eq!(account.sum_violations(), 1);
    assert_eq!(account.vms[0].total.worst_violation_ns, 895_000);
}

#[test]
fn the_tolerance_is_a_microsecond_or_a_percent() {
    for (wait, tolerated) in [(10_000, 1_000), (1_000_000, 10_000)] {
        for (off, violations) in [(tolerated, 0), (tolerated + 1, 1)] {
            let release = wait + off;
            let timeline =
                format!("0 v0 start fast; 0 v1 start; {release} v0 release; {wait} v1 pending");
            let tally = Script::new(QSpinLock, 2, &timeline).tally(wait);
            let found = tally.sum_violations;
            assert_eq!(found, violations, "{off} ns off in {wait} ns");
        }
    }
}

#[test]
fn events_of_what_there_is_not_are_counted_and_ignored() {
    let timeline = "
        0 v0 start fast; 10 v2 start; 10 v1 lock=1 start; 10 v1 vm=1 start; 10 v1 behind=70_000
        10 v0 kick=2
    ";
    let account = Script::new(QSpinLock, 2, timeline).account(100);
    assert_eq!(account.foreign_events, 5);
    assert_eq!(account.events, 7);
    assert_eq!(account.vms[0].total.unfinished, 0);
}

#[test]
fn nonsense_neither_panics_nor_is_it_accounted() {
    let timeline = "
        0 v0 start fast; 10 v0 stolen // holds it already
        20 v0 start // and waits for itself
        30 v0 start // twice
        40 v0 release; 50 v0 release; 60 v1 enter unblocked on; 70 v1 kick=1
    ";
    let tally = Script::new(QSpinLock, 2, timeline).tally(100);
    assert_eq!((tally.acquisitions, tally.incomplete), (1, 5));
}

#[test]
fn an_empty_trace_has_an_empty_account() {
    let account = Script::new(QSpinLock, 2, "").account(100);
    assert_eq!((account.span_ns, account.events), (0, 0));
    account.vms[0].total.assert_parts("");
}
