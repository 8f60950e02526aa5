//! Episodes, the worst stalls, and preemption on purpose.

use super::script::Script;
use crate::trace::account::{Episode, EpisodeKind};
use pvlock::LockKind::{QSpinLock, Tas};

#[test]
fn an_lhp_episode_begins_when_someone_waits_and_ends_when_the_holder_runs() {
    let timeline = "
        0 v3 start fast; 100 v3 off // nobody waits yet
        300 v1 start head; 500 v0 start behind=nobody head; 900 v3 on; 1000 v3 release
        1000 v1 pending release; 1000 v0 queue
    ";
    let tally = Script::new(QSpinLock, 4, timeline).tally(2000);
    let stall = Episode {
        kind: EpisodeKind::Lhp,
        lock: 0,
        vcpu: 3,
        at_ns: 300,
        duration_ns: 600,
        off_ns: 800,
        waiters: 2,
        who: vec![0, 1],
        waited_ns: 600 + 400,
    };
    assert_eq!(tally.stalls, [stall]);
    assert_eq!((tally.lhp.count, tally.lhp.total_ns), (1, 600));
    assert_eq!(tally.lhp.longest, tally.stalls);
    assert!((tally.lhp.per_s - 1e9 / 2000.0).abs() < 1e-6);
    assert_eq!(tally.holder_off_ns, 800);
    assert_eq!(tally.lwp.count, 0);
}

#[test]
fn an_lwp_episode_needs_others_that_wait_and_does_not_count_the_absent_one() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 50 v1 off
        100 v0 release // nobody else waits yet
        300 v2 start behind=1; 1100 v1 on queue; 1200 v1 release; 1200 v2 head queue
    ";
    let tally = Script::new(QSpinLock, 3, timeline).tally(2000);
    let stall = Episode {
        kind: EpisodeKind::Lwp,
        lock: 0,
        vcpu: 1,
        at_ns: 300,
        duration_ns: 800,
        off_ns: 1050,
        waiters: 1,
        who: vec![2],
        waited_ns: 800,
    };
    assert_eq!(tally.lwp.longest, [stall]);
    assert_eq!(tally.lhp.count, 0);
}

#[test]
fn the_longest_ten_are_kept_and_a_list_of_waiters_is_cut() {
    let waiters = (1..30).map(|vcpu| format!("0 v{vcpu} start;"));
    let absences = (1..=15).map(|length| {
        let at = 100 * length;
        format!("{at} v0 off; {} v0 on;", at + length)
    });
    let timeline = waiters.chain(absences).collect::<String>();
    let tally = Script::new(Tas, 30, &format!("0 v0 start fast; {timeline}")).tally(1600);
    assert_eq!(tally.lhp.count, 15);
    let lengths: Vec<u64> = tally.lhp.longest.iter().map(|e| e.duration_ns).collect();
    assert_eq!(lengths, [15, 14, 13, 12, 11, 10, 9, 8, 7, 6]);
    let worst = &tally.stalls[0];
    assert_eq!((worst.waiters, worst.who.len()), (29, 16));
    assert_eq!(worst.waited_ns, 15 * 29);
}

#[test]
fn the_worst_stalls_of_a_vm_are_of_all_its_locks() {
    let timeline = "
        0 v0 start fast; 0 v1 lock=1 start fast; 0 v2 start head; 0 v3 lock=1 start head; 100 v0 off
        100 v1 off; 300 v0 on; 500 v1 on
    ";
    let s = Script::new(QSpinLock, 4, timeline).with_locks(2);
    let total = s.account(600).vms.swap_remove(0).total;
    let stalls: Vec<_> = total.stalls.iter().map(|e| (e.lock, e.waited_ns)).collect();
    assert_eq!(stalls, [(1, 400), (0, 200)]);
    assert_eq!((total.lhp.count, total.lhp.total_ns), (2, 600));
}

#[test]
fn a_holder_cut_short_before_it_could_say_so_is_found_after_a_while() {
    let timeline = "
        0 v0 start fast release; 1000 v1 start; 1010 v1 off // has taken the lock
        2000 v2 start // runs, and does not get it: it cannot be free
        1_002_000 v1 on; 1_002_010 v1 stolen; 1_002_100 v1 release; 1_002_110 v2 stolen
    ";
    let tally = Script::new(Tas, 3, timeline).tally(2_000_000);
    // 1: up to 22,000 it seems to be away from a free lock, then it is known to be away with it.
    // holder preempted: 2 * 980,000, hand over: 10 + 10 + 20,000 + 10 + 10.
    tally.assert_parts(
        "holder_running 90, holder_preempted 1960000, own_preemption 20990, hand_over 20040",
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
    let timeline =
        "0 v0 start fast release; 1000 v1 start; 1000 v1 off; 1_000_000 v1 on; 1_000_000 v1 stolen";
    let tally = Script::new(Tas, 2, timeline).tally(2_000_000);
    tally.assert_parts("own_preemption 999000");

    // The next waiter runs, and all others have their place behind it.
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 0 v2 start behind=1 off; 100 v0 release
        1_000_100 v1 queue; 1_000_100 v1 release; 1_000_100 v2 on queue
    ";
    let tally = Script::new(QSpinLock, 3, timeline).tally(2_000_000);
    tally.assert_parts("holder_running 200, hand_over 2000000");
}

#[test]
fn preemption_on_purpose_is_found_again() {
    let timeline = "
        0 v0 start fast; 0 v1 start behind=nobody head; 0 v2 start behind=1; 100 v0 exit=preempt
        110 v0 injected=5000 off; 5110 v0 on; 5120 v0 enter; 5200 v0 release; 5200 v1 exit=preempt
        5200 v1 injected=1000 off; 6200 v1 on; 6210 v1 enter queue
    ";
    let tally = Script::new(QSpinLock, 3, timeline).tally(7000);
    let injected = tally.injected;
    assert_eq!((injected.holder, injected.holder_ns), (1, 5000));
    assert_eq!(injected.holder_found_ns, 5010, "until it enters the guest");
    assert_eq!((injected.next, injected.next_ns), (1, 1000));
    assert_eq!(injected.next_found_ns, 1010);
    assert_eq!(tally.lhp.total_ns, 5020);
    assert_eq!(tally.lwp.total_ns, 1010);
}
