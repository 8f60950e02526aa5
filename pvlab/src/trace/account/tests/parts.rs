//! Each part alone, and which comes first where causes overlap.

use super::script::Script;
use crate::trace::account::{Part, VmSetup};
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas, Ticket};

#[test]
fn a_running_holder_and_the_hand_over_after_it() {
    let timeline = "0 v0 start fast; 100 v1 start; 110 v1 head; 400 v0 release; 430 v1 pending";
    let tally = Script::new(QSpinLock, 2, timeline).tally(500);
    tally.assert_parts("holder_running 300, hand_over 30");
    assert_eq!((tally.acquisitions, tally.waited), (2, 1));
    assert_eq!(tally.per_acquisition_ns(Part::HolderRunning), Some(150.0));
    assert_eq!(tally.share(Part::HandOver), Some(30.0 / 330.0));
}

#[test]
fn an_uncontended_acquisition_is_all_hand_over() {
    let timeline = "0 v0 start fast release; 1000 v0 start; 1020 v0 fast; 1100 v0 release";
    let tally = Script::new(QSpinLock, 1, timeline).tally(1100);
    tally.assert_parts("hand_over 20");
    assert_eq!((tally.acquisitions, tally.waited), (2, 0));
}

#[test]
fn a_holder_off_its_cpu_is_preempted_whoever_else_is_off() {
    let timeline = "
        0 v0 start fast; 100 v1 start head; 200 v0 off
        300 v1 off // its own absence does not matter: it could not have had the lock
        700 v0 on; 800 v0 release // from here it could
        1000 v1 on; 1010 v1 pending
    ";
    let tally = Script::new(QSpinLock, 2, timeline).tally(2000);
    tally
        .assert_parts("holder_running 200, holder_preempted 500, own_preemption 200, hand_over 10");
}

#[test]
fn a_holder_out_of_the_guest_does_not_run() {
    let timeline = "
        0 v0 start fast; 100 v1 start head; 200 v0 exit=log; 250 v0 enter; 300 v0 release
        300 v1 pending
    ";
    let tally = Script::new(QSpinLock, 2, timeline).tally(300);
    tally.assert_parts("holder_running 150, holder_preempted 50");
}

#[test]
fn the_next_waiter_off_its_cpu_is_lwp_for_others_and_own_for_itself() {
    let timeline = "
        0 v0 start fast; 100 v1 start behind=nobody head; 100 v2 start behind=1; 200 v1 off
        300 v0 release; 1300 v1 on; 1320 v1 queue; 1400 v1 release; 1410 v2 head; 1430 v2 queue
    ";
    // vCPU 1: 200 held, 1000 off, 20 on. vCPU 2: 200 held, 1000 LWP, 20, 80 held, 30.
    let tally = Script::new(QSpinLock, 3, timeline).tally(2000);
    tally
        .assert_parts("holder_running 480, next_preempted 1000, own_preemption 1000, hand_over 70");
}

#[test]
fn a_waiter_handed_the_queue_is_next_before_it_can_say_so() {
    let timeline = "
        0 v0 start fast; 100 v1 start behind=nobody head; 100 v2 start behind=1
        100 v3 start behind=2; 150 v2 off // while it is second
        200 v0 release; 200 v1 queue; 300 v1 release // now vCPU 2 is next, and has not said so
        1300 v2 on; 1310 v2 head queue; 1400 v2 release; 1400 v3 head queue
    ";
    // 1: 100 held. 2: 200 held, 1000 own, 10. 3: 200 held, 1000 LWP, 10, 90 held.
    let tally = Script::new(QSpinLock, 4, timeline).tally(2000);
    tally
        .assert_parts("holder_running 590, next_preempted 1000, own_preemption 1000, hand_over 20");
}

#[test]
fn a_waiter_cut_short_before_it_could_say_where_it_queued_is_found_by_the_one_behind_it() {
    let timeline = "
        0 v0 start fast; 100 v1 start; 110 v1 off // has swapped the tail, has not said so
        120 v2 start behind=1; 200 v0 release; 1200 v1 on; 1210 v1 behind=nobody head queue
        1300 v1 release; 1300 v2 head queue
    ";
    // holder running: 100 + 80 + 90.
    let tally = Script::new(QSpinLock, 3, timeline).tally(2000);
    tally
        .assert_parts("holder_running 270, next_preempted 1000, own_preemption 1000, hand_over 20");
}

#[test]
fn the_pending_waiter_is_before_the_queue() {
    let timeline = "
        0 v0 start fast; 100 v1 start head; 100 v2 start behind=nobody head; 150 v1 off
        200 v0 release // the head of the queue runs, but pending goes first
        700 v1 on; 700 v1 pending release; 710 v2 queue
    ";
    let tally = Script::new(QSpinLock, 3, timeline).tally(800);
    tally.assert_parts("holder_running 200, next_preempted 500, own_preemption 500, hand_over 10");
}

#[test]
fn tickets_are_served_in_their_order_even_when_they_wrap() {
    let timeline = "
        0 v0 start fast; 0 v1 start ticket=65535; 0 v2 start ticket=0; 50 v1 off; 100 v0 release
        600 v1 on queue; 650 v2 off; 700 v1 release // ticket 0 is served now
        1200 v2 on queue
    ";
    let tally = Script::new(Ticket, 3, timeline).tally(2000);
    tally.assert_parts("holder_running 300, next_preempted 500, own_preemption 1000");
}

#[test]
fn a_ticket_drawn_and_not_yet_reported_is_served_all_the_same() {
    let timeline = "
        0 v0 start fast; 0 v1 start ticket=7; 10 v2 start // draws ticket 8, and is cut short
        10 v2 off; 20 v3 start ticket=9; 100 v0 release; 100 v1 queue // 7 is served
        200 v1 release; 700 v2 on ticket=8 queue; 700 v2 release; 710 v3 queue
    ";
    // 1: 100 held. 2: 190 held, 500 own. 3: 180 held, 500 LWP, 10.
    let tally = Script::new(Ticket, 4, timeline).tally(800);
    tally.assert_parts("holder_running 470, next_preempted 500, own_preemption 500, hand_over 10");
}

#[test]
fn without_an_order_everyone_is_next() {
    let timeline = "
        0 v0 start fast; 0 v1 start; 0 v2 start; 50 v1 off; 100 v0 release
        130 v2 stolen // it ran: hand-over; vCPU 1 did not
        200 v2 release; 240 v1 on; 250 v1 stolen
    ";
    // holder running: 100 + 100 + 70, own preemption: 30 + 40, hand over: 30 + 10.
    let tally = Script::new(Tas, 3, timeline).tally(300);
    tally.assert_parts("holder_running 270, own_preemption 70, hand_over 40");
}

#[test]
fn a_thief_without_a_place_is_its_own_next_unless_the_head_is_awake() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody; 0 v2 start // about to steal
        50 v2 off; 50 v1 off // handed the queue, not head yet: the lock can be stolen
        100 v0 release; 200 v1 on; 220 v1 head // awake: it cannot be stolen any more
        220 v1 off; 320 v1 on; 320 v1 queue; 400 v1 release; 450 v2 on; 450 v2 stolen
    ";
    // 1: 100 held, 100 own, 20 hand-over, 100 own.
    // 2: 100 held, 120 own (it could have stolen), 100 LWP, 80 held, 50 own.
    let tally = Script::new(PvQSpinLock, 3, timeline).tally(500);
    tally.assert_parts("holder_running 280, next_preempted 100, own_preemption 370, hand_over 20");
}

#[test]
fn locks_and_vms_are_accounted_apart() {
    let vm = |lock: pvlock::LockKind, locks| {
        let (lock, vcpus) = (lock.into(), 2);
        VmSetup { lock, vcpus, locks }
    };
    let timeline = "
        0 v0 lock=1 start fast; 0 v0 vm=1 start fast; 0 v1 start fast // lock 0 of VM 0, by vCPU 1
        10 v1 vm=1 start; 20 v0 vm=1 off // not VM 0's vCPU 0
        30 v1 lock=1 start head; 50 v0 lock=1 release; 50 v1 lock=1 pending
        60 v0 vm=1 on; 60 v0 vm=1 release; 60 v1 vm=1 stolen
    ";
    let account = Script::with_vms(&[vm(QSpinLock, 2), vm(Tas, 1)], timeline).account(100);
    let [first, second] = &account.vms[..] else {
        panic!("two VMs");
    };
    assert_eq!((first.lock, second.lock), ("qspinlock", "tas"));
    first.locks[0].assert_parts("");
    first.locks[1].assert_parts("holder_running 20");
    first.total.assert_parts("holder_running 20");
    assert_eq!(first.total.acquisitions, 3);
    (second.total).assert_parts("holder_running 10, holder_preempted 40");
    assert_eq!(first.vcpus_without_switches, 2);
    assert_eq!(second.vcpus_without_switches, 1);
}

#[test]
fn four_locks_can_be_nested_on_a_vcpu() {
    let timeline = "
        0 v0 lock=0 start fast; 0 v0 lock=1 start fast; 0 v0 lock=2 start fast; 0 v1 lock=3 start fast
        100 v0 lock=3 start head // holds 0 to 2, waits for 3
        200 v1 start head // holds 3, waits for 0: fine for an account
        300 v0 off // LHP of lock 0 for vCPU 1; lock 3 is held by a running one
        400 v0 on; 500 v1 lock=3 release; 510 v0 lock=3 pending
        600 v0 lock=3 release; 600 v0 lock=2 release; 600 v0 lock=1 release; 600 v0 release
        600 v1 pending
    ";
    let script = Script::new(QSpinLock, 2, timeline).with_locks(4);
    let account = script.account(700);
    let locks = &account.vms[0].locks;
    locks[3].assert_parts("holder_running 400, hand_over 10");
    locks[0].assert_parts("holder_running 300, holder_preempted 100");
    assert_eq!(account.vms[0].total.incomplete, 0);
}
