//! Each part alone, and which comes first where causes overlap.

use super::script::{Script, parts};
use crate::trace::account::{Part, VmSetup};
use abi::{ExitReason, HostStep};
use pvlock::LockKind::{PvQSpinLock, QSpinLock, Tas, Ticket};
use pvlock::trace::How::{Fast, Pending, Queue, Stolen};

#[test]
fn a_running_holder_and_the_hand_over_after_it() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start();
    s.at(110, 1).head();
    s.at(400, 0).release();
    s.at(430, 1).acquired(Pending);
    let tally = s.tally(500);
    assert_eq!(
        parts(&tally),
        [(Part::HolderRunning, 300), (Part::HandOver, 30)]
    );
    assert_eq!((tally.acquisitions, tally.waited), (2, 1));
    assert_eq!(tally.per_acquisition_ns(Part::HolderRunning), Some(150.0));
    assert_eq!(tally.share(Part::HandOver), Some(30.0 / 330.0));
}

#[test]
fn an_uncontended_acquisition_is_all_hand_over() {
    let mut s = Script::new(QSpinLock, 1, 1);
    s.known_free(0);
    s.at(1000, 0).start();
    s.at(1020, 0).acquired(Fast);
    s.at(1100, 0).release();
    let tally = s.tally(1100);
    assert_eq!(parts(&tally), [(Part::HandOver, 20)]);
    assert_eq!((tally.acquisitions, tally.waited), (2, 0));
}

#[test]
fn a_holder_off_its_cpu_is_preempted_whoever_else_is_off() {
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start().head();
    s.at(200, 0).off();
    s.at(300, 1).off(); // its own absence does not matter: it could not have had the lock
    s.at(700, 0).on();
    s.at(800, 0).release(); // from here it could
    s.at(1000, 1).on();
    s.at(1010, 1).acquired(Pending);
    assert_eq!(
        parts(&s.tally(2000)),
        [
            (Part::HolderRunning, 200),
            (Part::HolderPreempted, 500),
            (Part::OwnPreemption, 200),
            (Part::HandOver, 10)
        ]
    );
}

#[test]
fn a_holder_out_of_the_guest_does_not_run() {
    use crate::trace::What;
    let mut s = Script::new(QSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start().head();
    s.at(200, 0)
        .what(What::Host(HostStep::Exit(ExitReason::Log)));
    s.at(250, 0).what(What::Host(HostStep::Enter));
    s.at(300, 0).release();
    s.at(300, 1).acquired(Pending);
    assert_eq!(
        parts(&s.tally(300)),
        [(Part::HolderRunning, 150), (Part::HolderPreempted, 50)]
    );
}

#[test]
fn the_next_waiter_off_its_cpu_is_lwp_for_others_and_own_for_itself() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(100, 1).start().behind(None).head();
    s.at(100, 2).start().behind(1);
    s.at(200, 1).off();
    s.at(300, 0).release();
    s.at(1300, 1).on();
    s.at(1320, 1).acquired(Queue);
    s.at(1400, 1).release();
    s.at(1410, 2).head();
    s.at(1430, 2).acquired(Queue);
    // vCPU 1: 200 held, 1000 off, 20 on. vCPU 2: 200 held, 1000 LWP, 20, 80 held, 30.
    assert_eq!(
        parts(&s.tally(2000)),
        [
            (Part::HolderRunning, 480),
            (Part::NextPreempted, 1000),
            (Part::OwnPreemption, 1000),
            (Part::HandOver, 70)
        ]
    );
}

#[test]
fn a_waiter_handed_the_queue_is_next_before_it_can_say_so() {
    let mut s = Script::new(QSpinLock, 4, 1);
    s.held(0);
    s.at(100, 1).start().behind(None).head();
    s.at(100, 2).start().behind(1);
    s.at(100, 3).start().behind(2);
    s.at(150, 2).off(); // while it is second
    s.at(200, 0).release();
    s.at(200, 1).acquired(Queue);
    s.at(300, 1).release(); // now vCPU 2 is next, and has not said so
    s.at(1300, 2).on();
    s.at(1310, 2).head().acquired(Queue);
    s.at(1400, 2).release();
    s.at(1400, 3).head().acquired(Queue);
    // 1: 100 held. 2: 200 held, 1000 own, 10. 3: 200 held, 1000 LWP, 10, 90 held.
    assert_eq!(
        parts(&s.tally(2000)),
        [
            (Part::HolderRunning, 590),
            (Part::NextPreempted, 1000),
            (Part::OwnPreemption, 1000),
            (Part::HandOver, 20)
        ]
    );
}

#[test]
fn a_waiter_cut_short_before_it_could_say_where_it_queued_is_found_by_the_one_behind_it() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(100, 1).start();
    s.at(110, 1).off(); // has swapped the tail, has not said so
    s.at(120, 2).start().behind(1);
    s.at(200, 0).release();
    s.at(1200, 1).on();
    s.at(1210, 1).behind(None).head().acquired(Queue);
    s.at(1300, 1).release();
    s.at(1300, 2).head().acquired(Queue);
    assert_eq!(
        parts(&s.tally(2000)),
        [
            (Part::HolderRunning, 100 + 80 + 90),
            (Part::NextPreempted, 1000),
            (Part::OwnPreemption, 1000),
            (Part::HandOver, 20)
        ]
    );
}

#[test]
fn the_pending_waiter_is_before_the_queue() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(100, 1).start().head();
    s.at(100, 2).start().behind(None).head();
    s.at(150, 1).off();
    s.at(200, 0).release(); // the head of the queue runs, but pending goes first
    s.at(700, 1).on();
    s.at(700, 1).acquired(Pending).release();
    s.at(710, 2).acquired(Queue);
    assert_eq!(
        parts(&s.tally(800)),
        [
            (Part::HolderRunning, 200),
            (Part::NextPreempted, 500),
            (Part::OwnPreemption, 500),
            (Part::HandOver, 10)
        ]
    );
}

#[test]
fn tickets_are_served_in_their_order_even_when_they_wrap() {
    let mut s = Script::new(Ticket, 3, 1);
    s.held(0);
    s.at(0, 1).start().ticket(65535);
    s.at(0, 2).start().ticket(0);
    s.at(50, 1).off();
    s.at(100, 0).release();
    s.at(600, 1).on().acquired(Queue);
    s.at(650, 2).off();
    s.at(700, 1).release(); // ticket 0 is served now
    s.at(1200, 2).on().acquired(Queue);
    assert_eq!(
        parts(&s.tally(2000)),
        [
            (Part::HolderRunning, 300),
            (Part::NextPreempted, 500),
            (Part::OwnPreemption, 1000),
        ]
    );
}

#[test]
fn a_ticket_drawn_and_not_yet_reported_is_served_all_the_same() {
    let mut s = Script::new(Ticket, 4, 1);
    s.held(0);
    s.at(0, 1).start().ticket(7);
    s.at(10, 2).start(); // draws ticket 8, and is cut short
    s.at(10, 2).off();
    s.at(20, 3).start().ticket(9);
    s.at(100, 0).release();
    s.at(100, 1).acquired(Queue); // 7 is served
    s.at(200, 1).release();
    s.at(700, 2).on().ticket(8).acquired(Queue);
    s.at(700, 2).release();
    s.at(710, 3).acquired(Queue);
    // 1: 100 held. 2: 190 held, 500 own. 3: 180 held, 500 LWP, 10.
    assert_eq!(
        parts(&s.tally(800)),
        [
            (Part::HolderRunning, 470),
            (Part::NextPreempted, 500),
            (Part::OwnPreemption, 500),
            (Part::HandOver, 10)
        ]
    );
}

#[test]
fn without_an_order_everyone_is_next() {
    let mut s = Script::new(Tas, 3, 1);
    s.held(0);
    s.at(0, 1).start();
    s.at(0, 2).start();
    s.at(50, 1).off();
    s.at(100, 0).release();
    s.at(130, 2).acquired(Stolen); // it ran: hand-over; vCPU 1 did not
    s.at(200, 2).release();
    s.at(240, 1).on();
    s.at(250, 1).acquired(Stolen);
    assert_eq!(
        parts(&s.tally(300)),
        [
            (Part::HolderRunning, 100 + 100 + 70),
            (Part::OwnPreemption, 30 + 40),
            (Part::HandOver, 30 + 10)
        ]
    );
}

#[test]
fn a_thief_without_a_place_is_its_own_next_unless_the_head_is_awake() {
    let mut s = Script::new(PvQSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).start().behind(None);
    s.at(0, 2).start(); // about to steal
    s.at(50, 2).off();
    s.at(50, 1).off(); // handed the queue, not head yet: the lock can be stolen
    s.at(100, 0).release();
    s.at(200, 1).on();
    s.at(220, 1).head(); // awake: it cannot be stolen any more
    s.at(220, 1).off();
    s.at(320, 1).on();
    s.at(320, 1).acquired(Queue);
    s.at(400, 1).release();
    s.at(450, 2).on();
    s.at(450, 2).acquired(Stolen);
    // 1: 100 held, 100 own, 20 hand-over, 100 own.
    // 2: 100 held, 120 own (it could have stolen), 100 LWP, 80 held, 50 own.
    assert_eq!(
        parts(&s.tally(500)),
        [
            (Part::HolderRunning, 280),
            (Part::NextPreempted, 100),
            (Part::OwnPreemption, 370),
            (Part::HandOver, 20)
        ]
    );
}

#[test]
fn locks_and_vms_are_accounted_apart() {
    let qspinlock = VmSetup {
        lock: QSpinLock.into(),
        vcpus: 2,
        locks: 2,
    };
    let tas = VmSetup {
        lock: Tas.into(),
        vcpus: 2,
        locks: 1,
    };
    let mut s = Script::with_vms(&[qspinlock, tas]);
    s.at(0, 0).lock(1).start().acquired(Fast);
    s.at(0, 0).vm(1).start().acquired(Fast);
    s.at(0, 1).start().acquired(Fast); // lock 0 of VM 0, by vCPU 1
    s.at(10, 1).vm(1).start();
    s.at(20, 0).vm(1).off(); // not VM 0's vCPU 0
    s.at(30, 1).lock(1).start().head();
    s.at(50, 0).lock(1).release();
    s.at(50, 1).lock(1).acquired(Pending);
    s.at(60, 0).vm(1).on();
    s.at(60, 0).vm(1).release();
    s.at(60, 1).vm(1).acquired(Stolen);
    let account = s.account(100);
    let [first, second] = &account.vms[..] else {
        panic!("two VMs");
    };
    assert_eq!((first.lock, second.lock), ("qspinlock", "tas"));
    assert_eq!(parts(&first.locks[0]), []);
    assert_eq!(parts(&first.locks[1]), [(Part::HolderRunning, 20)]);
    assert_eq!(parts(&first.total), [(Part::HolderRunning, 20)]);
    assert_eq!(first.total.acquisitions, 3);
    assert_eq!(
        parts(&second.total),
        [(Part::HolderRunning, 10), (Part::HolderPreempted, 40)]
    );
    assert_eq!(first.vcpus_without_switches, 2);
    assert_eq!(second.vcpus_without_switches, 1);
}

#[test]
fn four_locks_can_be_nested_on_a_vcpu() {
    let mut s = Script::new(QSpinLock, 2, 4);
    for lock in 0..3 {
        s.at(0, 0).lock(lock).start().acquired(Fast);
    }
    s.at(0, 1).lock(3).start().acquired(Fast);
    s.at(100, 0).lock(3).start().head(); // holds 0 to 2, waits for 3
    s.at(200, 1).lock(0).start().head(); // holds 3, waits for 0: fine for an account
    s.at(300, 0).off(); // LHP of lock 0 for vCPU 1; lock 3 is held by a running one
    s.at(400, 0).on();
    s.at(500, 1).lock(3).release();
    s.at(510, 0).lock(3).acquired(Pending);
    for lock in [3, 2, 1, 0] {
        s.at(600, 0).lock(lock).release();
    }
    s.at(600, 1).acquired(Pending);
    let account = s.account(700);
    let locks = &account.vms[0].locks;
    assert_eq!(
        parts(&locks[3]),
        [(Part::HolderRunning, 400), (Part::HandOver, 10)]
    );
    assert_eq!(
        parts(&locks[0]),
        [(Part::HolderRunning, 300), (Part::HolderPreempted, 100)]
    );
    assert_eq!(account.vms[0].total.incomplete, 0);
}
