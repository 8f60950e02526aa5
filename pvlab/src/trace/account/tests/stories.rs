//! Episodes, the worst stalls, and preemption on purpose.

use super::script::{Script, parts};
use crate::trace::What;
use crate::trace::account::{Episode, EpisodeKind, Part};
use abi::{ExitReason, HostStep};
use pvlock::LockKind::{QSpinLock, Tas};
use pvlock::trace::How::{Fast, Pending, Queue, Stolen};

#[test]
fn an_lhp_episode_begins_when_someone_waits_and_ends_when_the_holder_runs() {
    let mut s = Script::new(QSpinLock, 4, 1);
    s.held(3);
    s.at(100, 3).off(); // nobody waits yet
    s.at(300, 1).start().head();
    s.at(500, 0).start().behind(None).head();
    s.at(900, 3).on();
    s.at(1000, 3).release();
    s.at(1000, 1).acquired(Pending).release();
    s.at(1000, 0).acquired(Queue);
    let tally = s.tally(2000);
    assert_eq!(
        tally.stalls,
        [Episode {
            kind: EpisodeKind::Lhp,
            lock: 0,
            vcpu: 3,
            at_ns: 300,
            duration_ns: 600,
            off_ns: 800,
            waiters: 2,
            who: vec![0, 1],
            waited_ns: 600 + 400,
        }]
    );
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 600));
    assert_eq!(tally.lhp.longest, tally.stalls);
    assert!((tally.lhp.per_s - 1e9 / 2000.0).abs() < 1e-6);
    assert_eq!(tally.holder_off_ns, 800);
    assert_eq!(tally.lwp.count, 0);
}

#[test]
fn an_lwp_episode_needs_others_that_wait_and_does_not_count_the_absent_one() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(50, 1).off();
    s.at(100, 0).release(); // nobody else waits yet
    s.at(300, 2).start().behind(1);
    s.at(1100, 1).on().acquired(Queue);
    s.at(1200, 1).release();
    s.at(1200, 2).head().acquired(Queue);
    let tally = s.tally(2000);
    assert_eq!(
        tally.lwp.longest,
        [Episode {
            kind: EpisodeKind::Lwp,
            lock: 0,
            vcpu: 1,
            at_ns: 300,
            duration_ns: 800,
            off_ns: 1050,
            waiters: 1,
            who: vec![2],
            waited_ns: 800,
        }]
    );
    assert_eq!(tally.lhp.count, 0);
}

#[test]
fn the_longest_ten_are_kept_and_a_list_of_waiters_is_cut() {
    let mut s = Script::new(Tas, 30, 1);
    s.held(0);
    for vcpu in 1..30 {
        s.at(0, vcpu).start();
    }
    let mut at = 100;
    for length in 1..=15 {
        s.at(at, 0).off();
        s.at(at + length, 0).on();
        at += 100;
    }
    let tally = s.tally(at);
    assert_eq!(tally.lhp.count, 15);
    let lengths: Vec<u64> = tally.lhp.longest.iter().map(|e| e.duration_ns).collect();
    assert_eq!(lengths, [15, 14, 13, 12, 11, 10, 9, 8, 7, 6]);
    let worst = &tally.stalls[0];
    assert_eq!((worst.waiters, worst.who.len()), (29, 16));
    assert_eq!(worst.waited_ns, 15 * 29);
}

#[test]
fn the_worst_stalls_of_a_vm_are_of_all_its_locks() {
    let mut s = Script::new(QSpinLock, 4, 2);
    s.held(0);
    s.at(0, 1).lock(1).start().acquired(Fast);
    s.at(0, 2).start().head();
    s.at(0, 3).lock(1).start().head();
    s.at(100, 0).off();
    s.at(100, 1).off();
    s.at(300, 0).on();
    s.at(500, 1).on();
    let total = s.account(600).vms.swap_remove(0).total;
    let stalls: Vec<_> = total.stalls.iter().map(|e| (e.lock, e.waited_ns)).collect();
    assert_eq!(stalls, [(1, 400), (0, 200)]);
    assert_eq!((total.lhp.count, total.lhp.total_ns), (2, 600));
}

#[test]
fn a_holder_cut_short_before_it_could_say_so_is_found_after_a_while() {
    let mut s = Script::new(Tas, 3, 1);
    s.known_free(0);
    s.at(1000, 1).start();
    s.at(1010, 1).off(); // has taken the lock
    s.at(2000, 2).start(); // runs, and does not get it: it cannot be free
    s.at(1_002_000, 1).on();
    s.at(1_002_010, 1).acquired(Stolen);
    s.at(1_002_100, 1).release();
    s.at(1_002_110, 2).acquired(Stolen);
    let tally = s.tally(2_000_000);
    // 1: up to 22,000 it seems to be away from a free lock, then it is known to be away with it.
    assert_eq!(
        parts(&tally),
        [
            (Part::HolderRunning, 90),
            (Part::HolderPreempted, 2 * 980_000),
            (Part::OwnPreemption, 20_990),
            (Part::HandOver, 10 + 10 + 20_000 + 10 + 10)
        ]
    );
    let episode = &tally.stalls[0];
    assert_eq!((episode.kind, episode.vcpu), (EpisodeKind::Lhp, 1));
    assert_eq!((episode.at_ns, episode.duration_ns), (22_000, 980_000));
    assert_eq!((episode.off_ns, episode.waited_ns), (1_000_990, 980_000));
    assert_eq!(episode.who, [2]);
}

#[test]
fn a_free_lock_is_free_as_long_as_nobody_is_suspect_or_nobody_could_take_it() {
    // Everyone who could take it is away.
    let mut s = Script::new(Tas, 2, 1);
    s.known_free(0);
    s.at(1000, 1).start();
    s.at(1000, 1).off();
    s.at(1_000_000, 1).on();
    s.at(1_000_000, 1).acquired(Stolen);
    assert_eq!(parts(&s.tally(2_000_000)), [(Part::OwnPreemption, 999_000)]);

    // The next waiter runs, and all others have their place behind it.
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(0, 2).start().behind(1).off();
    s.at(100, 0).release();
    s.at(1_000_100, 1).acquired(Queue);
    s.at(1_000_100, 1).release();
    s.at(1_000_100, 2).on().acquired(Queue);
    assert_eq!(
        parts(&s.tally(2_000_000)),
        [(Part::HolderRunning, 200), (Part::HandOver, 2_000_000)]
    );
}

#[test]
fn preemption_on_purpose_is_found_again() {
    let mut s = Script::new(QSpinLock, 3, 1);
    s.held(0);
    s.at(0, 1).start().behind(None).head();
    s.at(0, 2).start().behind(1);
    s.at(100, 0)
        .what(What::Host(HostStep::Exit(ExitReason::Preempt)));
    s.at(110, 0)
        .what(What::Host(HostStep::Injected(5000)))
        .off();
    s.at(5110, 0).on();
    s.at(5120, 0).what(What::Host(HostStep::Enter));
    s.at(5200, 0).release();
    s.at(5200, 1)
        .what(What::Host(HostStep::Exit(ExitReason::Preempt)));
    s.at(5200, 1)
        .what(What::Host(HostStep::Injected(1000)))
        .off();
    s.at(6200, 1).on();
    s.at(6210, 1)
        .what(What::Host(HostStep::Enter))
        .acquired(Queue);
    let tally = s.tally(7000);
    let injected = tally.injected;
    assert_eq!((injected.holder, injected.holder_ns), (1, 5000));
    assert_eq!(injected.holder_found_ns, 5010, "until it enters the guest");
    assert_eq!((injected.next, injected.next_ns), (1, 1000));
    assert_eq!(injected.next_found_ns, 1010);
    assert_eq!(tally.lhp.total_ns, 5020);
    assert_eq!(tally.lwp.total_ns, 1010);
}
