//! Halts, kicks and yields.

use super::script::{Script, parts};
use crate::trace::account::Part;
use pvlock::LockKind::{PvQSpinLock, QSpinLock};
use pvlock::TraceEvent::{HaltHead, HaltQueued, Spurious, Woken, Yield};
use pvlock::trace::How::{Fast, Queue, Stolen};

#[test]
fn a_kicked_head_is_on_its_way_until_it_enters_the_guest() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start().behind(None).head();
    s.at(200, 1).halt(HaltHead);
    s.at(500, 0).release();
    s.at(520, 0).kick(1); // hand-over up to here
    s.at(900, 1).wake(); // kick to run up to here
    s.at(930, 1).acquired(Queue);
    let tally = s.tally(1000);
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 400),
            (Part::KickToRun, 380),
            (Part::HandOver, 20 + 30)
        ]
    );
    assert_eq!(
        (tally.halts_queued, tally.halts_head, tally.futile_halts),
        (0, 1, 0)
    );
    assert_eq!(tally.kicks, 1);
    let kick_to_run = &tally.kick_to_run_ns;
    assert_eq!((kick_to_run.count(), kick_to_run.max()), (1, Some(380)));
    assert_eq!(kick_to_run.percentile(50), Some(380));
}

#[test]
fn off_its_cpu_again_after_it_was_up_is_preemption() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(100, 1).start().behind(None).head().halt(HaltHead);
    s.at(500, 0).release().kick(1);
    s.at(600, 1).wake();
    s.at(610, 1).off();
    s.at(900, 1).on();
    s.at(910, 1).acquired(Queue);
    assert_eq!(
        parts(&s.tally(1000)),
        [
            (Part::HolderRunning, 400),
            (Part::OwnPreemption, 290),
            (Part::KickToRun, 100),
            (Part::HandOver, 20)
        ]
    );
}

#[test]
fn a_hashed_waiter_is_kicked_before_it_knows_that_it_is_next() {
    let mut s = Script::new(PvQSpinLock, 4, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(0, 2).start().behind(1);
    s.at(10, 2).halt(HaltQueued);
    s.at(100, 0).release();
    s.at(100, 1).acquired(Queue); // hashes vCPU 2
    s.at(100, 3).start();
    s.at(200, 1).release();
    s.at(210, 1).kick(2);
    s.at(230, 3).acquired(Stolen); // meanwhile a thief takes the lock
    s.at(330, 3).release();
    s.at(400, 2).wake().head(); // kicked 190 ns ago, of which the lock was held for 100
    s.at(410, 2).acquired(Queue);
    let tally = s.tally(500);
    // 1: 100 held. 2: 200 held, 10, 20 kick, 100 held, 70 kick, 10.
    // 3, a thief, waits on its own account: 100 held, 30.
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 500),
            (Part::KickToRun, 90),
            (Part::HandOver, 10 + 10 + 30)
        ]
    );
    assert_eq!(tally.kick_to_run_ns.max(), Some(190));
    assert_eq!(tally.futile_halts, 0);
    assert_eq!(tally.kick.count, 1, "vCPU 3 waited from 210 to 230 too");
    assert_eq!(tally.kick.total_ns, 20);
}

#[test]
fn a_kick_that_comes_before_the_halt_is_kept() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(100, 0).release();
    s.at(110, 0).kick(1); // vCPU 1 is about to halt
    s.at(120, 1).step(HaltHead);
    s.at(130, 1).step(Woken);
    s.at(140, 1).acquired(Queue);
    assert_eq!(
        parts(&s.tally(200)),
        [
            (Part::HolderRunning, 100),
            (Part::KickToRun, 10),
            (Part::HandOver, 30)
        ]
    );
}

#[test]
fn a_kick_of_a_vcpu_that_waits_for_something_else_leaves_no_trace() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(100, 0).release().kick(1);
    s.at(200, 0).start().acquired(Fast);
    s.at(300, 1).start().behind(None).head().halt(HaltHead);
    s.at(400, 0).release();
    s.at(450, 0).kick(1);
    s.at(500, 1).wake().acquired(Queue);
    let tally = s.tally(600);
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 100),
            (Part::KickToRun, 50),
            (Part::HandOver, 50)
        ]
    );
    assert_eq!(tally.kick_to_run_ns.count(), 1);
}

#[test]
fn a_releaser_preempted_before_its_kick_still_keeps_the_lock() {
    let mut s = Script::new(PvQSpinLock, 2, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head().halt(HaltHead);
    s.at(100, 0).release();
    s.at(100, 0).off();
    s.at(1_000_100, 0).on();
    s.at(1_000_120, 0).kick(1);
    s.at(1_000_200, 1).wake().acquired(Queue);
    let tally = s.tally(2_000_000);
    // Not believed to be free after 20 us.
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 100),
            (Part::HolderPreempted, 980_000),
            (Part::KickToRun, 80),
            (Part::HandOver, 20_000 + 20)
        ]
    );
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 980_000));
    assert_eq!(tally.holder_off_ns, 980_000);
    let episode = &tally.lhp.longest[0];
    assert_eq!((episode.vcpu, episode.at_ns), (0, 20_100));
    assert_eq!((episode.off_ns, episode.waited_ns), (1_000_000, 980_000));
}

#[test]
fn halts_are_futile_when_the_waiter_could_not_go_on() {
    let mut s = Script::new(PvQSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(0, 2).start().behind(1);
    s.at(10, 2).halt(HaltQueued);
    s.at(20, 2).wake().step(Spurious); // futile: woken without having become head
    s.at(30, 2).halt(HaltQueued);
    s.at(40, 1).halt(HaltHead);
    s.at(50, 0).release().kick(1);
    s.at(50, 0).start().acquired(Fast); // stolen back
    s.at(60, 1).wake().halt(HaltHead); // futile: woken to take the lock, which was gone
    s.at(70, 0).release().kick(1);
    s.at(80, 1).wake().acquired(Queue);
    s.at(90, 1).release().kick(2);
    s.at(95, 2).wake().head().acquired(Queue);
    let tally = s.tally(100);
    assert_eq!((tally.halts_queued, tally.halts_head), (2, 2));
    assert_eq!(tally.futile_halts, 2);
    assert_eq!(tally.kick_to_run_ns.count(), 3);
}

#[test]
fn yields_are_futile_when_they_change_nothing() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(10, 1).start().head();
    s.at(20, 1).step(Yield(0)); // to one that runs
    s.at(30, 0).off();
    s.at(40, 1).step(Yield(0));
    s.at(50, 1).step(Yield(0)); // the one before was futile: nothing was released
    s.at(60, 0).on();
    s.at(70, 0).release(); // this one was not
    s.at(80, 1).acquired(Queue);
    let tally = s.tally(100);
    assert_eq!((tally.yields, tally.futile_yields), (3, 2));
}
