//! Halts, kicks and yields.

use super::script::Script;
use pvlock::LockKind::{PvQSpinLock, QSpinLock};

#[test]
fn a_kicked_head_is_on_its_way_until_it_enters_the_guest() {
    let timeline = "
        0 v0 start fast; 100 v1 start behind=nobody head; 200 v1 halt_head sleeps; 500 v0 release
        520 v0 kick=1 // hand-over up to here
        900 v1 wakes // kick to run up to here
        930 v1 queue
    ";
    let tally = Script::new(PvQSpinLock, 2, timeline).tally(1000);
    // hand over: 20 + 30.
    tally.assert_parts("holder_running 400, kick_to_run 380, hand_over 50");
    assert_eq!(tally.halts_queued, 0);
    assert_eq!(tally.halts_head, 1);
    assert_eq!(tally.futile_halts, 0);
    assert_eq!(tally.kicks, 1);
    let kick_to_run = &tally.kick_to_run_ns;
    assert_eq!((kick_to_run.count(), kick_to_run.max()), (1, Some(380)));
    assert_eq!(kick_to_run.percentile(50), Some(380));
}

#[test]
fn off_its_cpu_again_after_it_was_up_is_preemption() {
    let timeline = "
        0 v0 start fast; 100 v1 start behind=nobody head halt_head sleeps; 500 v0 release kick=1
        600 v1 wakes; 610 v1 off; 900 v1 on; 910 v1 queue
    ";
    let tally = Script::new(PvQSpinLock, 2, timeline).tally(1000);
    tally.assert_parts("holder_running 400, own_preemption 290, kick_to_run 100, hand_over 20");
}

#[test]
fn a_hashed_waiter_is_kicked_before_it_knows_that_it_is_next() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 0 v2 start behind=1
        10 v2 halt_queued sleeps; 100 v0 release; 100 v1 queue // hashes vCPU 2
        100 v3 start; 200 v1 release; 210 v1 kick=2
        230 v3 stolen // meanwhile a thief takes the lock
        330 v3 release; 400 v2 wakes head // kicked 190 ns ago, of which the lock was held for 100
        410 v2 queue
    ";
    let tally = Script::new(PvQSpinLock, 4, timeline).tally(500);
    // 1: 100 held. 2: 200 held, 10, 20 kick, 100 held, 70 kick, 10.
    // 3, a thief, waits on its own account: 100 held, 30.
    // hand over: 10 + 10 + 30.
    tally.assert_parts("holder_running 500, kick_to_run 90, hand_over 50");
    assert_eq!(tally.kick_to_run_ns.max(), Some(190));
    assert_eq!(tally.futile_halts, 0);
    assert_eq!(tally.kick.count, 1, "vCPU 3 waited from 210 to 230 too");
    assert_eq!(tally.kick.total_ns, 20);
}

#[test]
fn a_kick_that_comes_before_the_halt_is_kept() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 100 v0 release
        110 v0 kick=1 // vCPU 1 is about to halt
        120 v1 halt_head; 130 v1 woken; 140 v1 queue
    ";
    let tally = Script::new(PvQSpinLock, 2, timeline).tally(200);
    tally.assert_parts("holder_running 100, kick_to_run 10, hand_over 30");
}

#[test]
fn a_kick_of_a_vcpu_that_waits_for_something_else_leaves_no_trace() {
    let timeline = "
        0 v0 start fast; 100 v0 release kick=1; 200 v0 start fast
        300 v1 start behind=nobody head halt_head sleeps; 400 v0 release; 450 v0 kick=1
        500 v1 wakes queue
    ";
    let tally = Script::new(PvQSpinLock, 2, timeline).tally(600);
    tally.assert_parts("holder_running 100, kick_to_run 50, hand_over 50");
    assert_eq!(tally.kick_to_run_ns.count(), 1);
}

#[test]
fn a_releaser_preempted_before_its_kick_still_keeps_the_lock() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head halt_head sleeps; 100 v0 release; 100 v0 off
        1_000_100 v0 on; 1_000_120 v0 kick=1; 1_000_200 v1 wakes queue
    ";
    let tally = Script::new(PvQSpinLock, 2, timeline).tally(2_000_000);
    // Not believed to be free after 20 us.
    // hand over: 20,000 + 20.
    let parts = "holder_running 100, holder_preempted 980000, kick_to_run 80, hand_over 20020";
    tally.assert_parts(parts);
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 980_000));
    assert_eq!(tally.holder_off_ns, 980_000);
    let episode = &tally.lhp.longest[0];
    assert_eq!((episode.vcpu, episode.at_ns), (0, 20_100));
    assert_eq!((episode.off_ns, episode.waited_ns), (1_000_000, 980_000));
}

#[test]
fn halts_are_futile_when_the_waiter_could_not_go_on() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 0 v2 start behind=1
        10 v2 halt_queued sleeps; 20 v2 wakes spurious // futile: woken without having become head
        30 v2 halt_queued sleeps; 40 v1 halt_head sleeps; 50 v0 release kick=1
        50 v0 start fast // stolen back
        60 v1 wakes halt_head sleeps // futile: woken to take the lock, which was gone
        70 v0 release kick=1; 80 v1 wakes queue; 90 v1 release kick=2; 95 v2 wakes head queue
    ";
    let tally = Script::new(PvQSpinLock, 3, timeline).tally(100);
    assert_eq!((tally.halts_queued, tally.halts_head), (2, 2));
    assert_eq!(tally.futile_halts, 2);
    assert_eq!(tally.kick_to_run_ns.count(), 3);
}

#[test]
fn yields_are_futile_when_they_change_nothing() {
    let timeline = "
        0 v0 start fast; 10 v1 start head; 20 v1 yield=0 // to one that runs
        30 v0 off; 40 v1 yield=0; 50 v1 yield=0 // the one before was futile: nothing was released
        60 v0 on; 70 v0 release // this one was not
        80 v1 queue
    ";
    let tally = Script::new(QSpinLock, 3, timeline).tally(100);
    assert_eq!((tally.yields, tally.futile_yields), (3, 2));
}
