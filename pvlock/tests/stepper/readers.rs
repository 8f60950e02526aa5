//! Reader-writer locks, and the negative controls, under every schedule that fits.

use super::*;
use pvlock::LockKind::{
    BustedRw, BustedStarve, BustedWakeup, QRwLock, QRwLock2014, QRwLock2014PvQSpinLock,
    QRwLock2014Ticket, QRwLockPvQSpinLock, QRwLockTicket,
};

fn rw() -> impl Iterator<Item = LockKind> {
    sound_kinds(true)
}

fn halting() -> impl Iterator<Item = LockKind> {
    rw().filter(|kind| kind.traits().halts)
}

/// vCPUs that read and write by turns, of which one in two begins with reading.
fn mixed(kind: LockKind, vcpus: usize, rounds: usize) -> Config {
    let mut config = Config::new(kind, vcpus, 0);
    for (vcpu, program) in config.programs.iter_mut().enumerate() {
        let mut round = [reads(0, 1), writes(0, 1)];
        round.rotate_left(vcpu % 2);
        *program = round.concat().repeat(rounds);
    }
    config
}

#[test]
fn readers_share_and_writers_do_not_in_random_schedules() {
    for kind in rw() {
        let mut sharing = 0;
        for seed in 0..40 {
            let vcpus = 3 + usize::try_from(seed % 3).unwrap();
            let config = mixed(kind, vcpus, 2).random(seed);
            for outcome in [sound::<Fine>(&config), sound::<Coarse>(&config)] {
                assert_eq!(outcome.acquisitions.len(), 4 * vcpus, "{kind}, seed {seed}");
                sharing = sharing.max(outcome.sharing);
            }
        }
        assert!(sharing > 1, "{kind}: no two readers were inside at once");
    }
}

#[test]
fn any_vcpu_preempted_at_any_step() {
    for kind in rw() {
        for vcpu in 0..3 {
            preempted_everywhere::<Fine>(&mixed(kind, 3, 1), vcpu, |_| ());
        }
    }
}

/// Among them: the writer that has announced itself, or is about to; the reader that backs out; the
/// holder of the wait lock; the one behind it.
#[test]
fn two_vcpus_preempted_at_any_two_steps() {
    for kind in [QRwLock, QRwLockPvQSpinLock, QRwLock2014] {
        for pair in [(0, 1), (1, 2)] {
            both_preempted::<Coarse>(&mixed(kind, 3, 1), pair, 2..9, |_| ());
        }
    }
}

#[test]
fn tries_succeed_exactly_if_nobody_is_in_the_way() {
    let alone = |kind, program: Vec<Op>| {
        let mut config = Config::new(kind, 1, 0);
        config.programs[0] = program;
        sound::<Fine>(&config).acquisitions.len()
    };
    for kind in rw() {
        assert_eq!(alone(kind, vec![Op::Try(0), Op::TryRead(0)]), 2, "{kind}");
        let in_read = vec![Op::Read(0), Op::TryRead(0), Op::Try(0), Op::ReadUnlock(0)];
        assert_eq!(alone(kind, in_read), 2, "{kind}");
        let in_write = vec![Op::Lock(0), Op::TryRead(0), Op::Try(0), Op::Unlock(0)];
        assert_eq!(alone(kind, in_write), 1, "{kind}");
    }
}

#[test]
fn tries_among_others_in_random_schedules() {
    for kind in rw() {
        let mut taken = 0;
        for seed in 0..60 {
            let mut config = mixed(kind, 4, 1).random(seed);
            for program in &mut config.programs[..2] {
                program.extend([Op::TryRead(0), Op::Pause(2), Op::Try(0)].repeat(3));
            }
            taken += sound::<Fine>(&config).acquisitions.len() - 8;
        }
        assert!(
            taken > 60 && taken < 60 * 12,
            "{kind}: {taken} tries succeeded"
        );
    }
}

/// Halting waiters of the wait lock, with holders that are away for long.
#[test]
fn no_wake_up_is_lost() {
    for kind in halting() {
        let (mut heads, mut nodes, mut kicks) = (0, 0, 0);
        for vcpu in 0..4 {
            let ats = [HOLDS, HOLDS + 1, HOLDS + 4];
            both_preempted::<Coarse>(&mixed(kind, 4, 1), (1, vcpu), ats, |outcome| {
                heads += outcome.count(PvWaitHead);
                nodes += outcome.count(PvWaitNode);
                kicks += outcome.count(PvKickUnlock);
            });
        }
        assert!(
            heads > 0 && nodes > 0 && kicks > 0,
            "{heads} {nodes} {kicks}"
        );
    }
}

#[test]
fn a_forgotten_kick_of_the_wait_lock_is_a_deadlock() {
    for kind in halting() {
        let mut config = Config::new(kind, 3, 1);
        config.preempt(0, HOLDS, LONG);
        assert!(sound::<Coarse>(&config).count(PvKickUnlock) > 0, "{kind}");
        config.kick = Kick::Lost;
        let failure = run::<Coarse>(&config).unwrap_err();
        assert!(matches!(failure, Failure::Deadlock(_)), "{failure:?}");
    }
}

/// A handler reads the lock that its vCPU reads, waits for to read, or uses beside another: at any step,
/// with writers about.
fn interrupted_reader(kind: LockKind, at: u64) -> Config {
    let mut config = Config::new(kind, 3, 0);
    config.programs = vec![reads(0, 2), writes(0, 2), writes(0, 2)];
    config.interrupts_read = true;
    config.interrupts = vec![Interrupt {
        vcpu: 0,
        when: When::Step(at),
        lock: 0,
    }];
    config
}

#[test]
fn readers_in_interrupts_pass_waiting_writers() {
    for kind in rw() {
        let mut nested = 0;
        for writer_at in [1, 2, 3, 5, 8, u64::MAX] {
            for at in 0.. {
                let mut config = interrupted_reader(kind, at);
                config.preempt = vec![Preempt {
                    vcpu: 1,
                    at: writer_at,
                    steps: 20,
                }];
                let outcome = sound::<Coarse>(&config);
                if outcome.interrupts == 0 {
                    break;
                }
                nested += 1;
            }
        }
        assert!(nested > 30, "{kind}: {nested}");
    }
}

/// Queued behind a writer that waits for the reader that was interrupted, it would never get in.
#[test]
fn readers_in_interrupts_that_wait_their_turn_hang() {
    for kind in [QRwLock, QRwLockTicket, QRwLock2014] {
        let hangs = (0..30).any(|at| {
            let mut config = interrupted_reader(kind, at);
            config.interrupts_are_told = false;
            config.step_limit = 10_000;
            matches!(run::<Coarse>(&config), Err(Failure::Livelock(_)))
        });
        assert!(hangs, "{kind}");
    }
}

/// An interrupt at each step takes for writing another lock that others also use.
#[test]
fn interrupts_that_write_another_lock_at_any_step() {
    for kind in rw() {
        let mut config = mixed(kind, 3, 1);
        config.locks = 2;
        config.programs[1] = [writes(1, 1), reads(0, 1), writes(1, 1)].concat();
        config.programs[2] = [reads(1, 1), writes(0, 1), reads(1, 1)].concat();
        interrupted_everywhere(config);
    }
}

/// vCPU 0 writes once, under the worst schedule for it; the others come again and again, each by the
/// fast path if it can: writers, and every other time a reader.
fn against_a_writer(kind: LockKind, rounds: usize) -> Outcome {
    let mut config = Config::new(kind, 4, 0);
    let pause = vec![Op::Pause(1)];
    let write = [
        vec![Op::Lock(0), Op::Pause(4), Op::Unlock(0)],
        pause.clone(),
    ]
    .concat();
    let read = [reads(0, 1), pause].concat();
    config.programs = vec![
        writes(0, 1),
        write.repeat(rounds),
        [read, write.clone()].concat().repeat(rounds),
        write.repeat(rounds),
    ];
    config.order = Order::Against(0);
    let outcome = sound::<Coarse>(&config);
    assert_eq!(outcome.acquisitions.len(), 1 + 4 * rounds, "{kind}");
    outcome
}

/// The queued lock of 2014 keeps the writer at the head of its queue out for as long as others come by
/// the fast path. The present one lets those pass that get in before it has announced itself, however
/// many come after.
#[test]
fn scenario_1_a_writer_at_the_head_starves_in_2014_and_not_since() {
    for kind in [QRwLock2014, QRwLock2014Ticket, QRwLock2014PvQSpinLock] {
        for rounds in [10, 20, 40] {
            // As soon as only readers are left it gets in.
            let passed = against_a_writer(kind, rounds).passed_head;
            assert!(
                passed >= 3 * rounds,
                "{kind}: {passed} of {} passed",
                4 * rounds
            );
        }
    }
    for kind in [QRwLock, QRwLockTicket, QRwLockPvQSpinLock] {
        for rounds in [10, 20, 40] {
            let passed = against_a_writer(kind, rounds).passed_head;
            assert!(passed <= 3, "{kind}: {passed} of {} passed", 4 * rounds);
        }
    }
}

/// Halts its waiters, and once in 64 times lets one sleep.
#[test]
fn the_checker_catches_a_lock_that_forgets_to_wake() {
    let few = Config::new(BustedWakeup, 3, 20);
    for seed in 0..10 {
        sound::<Fine>(&few.clone().random(seed));
    }
    for seed in 0..10 {
        let failure = run::<Fine>(&Config::new(BustedWakeup, 3, 100).random(seed)).unwrap_err();
        assert!(
            matches!(&failure, Failure::Deadlock(who) if who.matches("halted").count() > 0),
            "seed {seed}: {failure:?}"
        );
    }
}

#[test]
fn the_checker_catches_a_lock_that_lets_a_reader_in_beside_a_writer() {
    for seed in 0..20 {
        let mut config = Config::new(BustedRw, 4, 0).random(seed);
        config.programs = vec![
            writes(0, 2000),
            reads(0, 2000),
            reads(0, 2000),
            reads(0, 2000),
        ];
        config.step_limit = 1_000_000;
        let failure = run::<Fine>(&config).unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::ReadersBesideWriter {
                    lock: 0,
                    writer: 0,
                    ..
                }
            ),
            "seed {seed}: {failure:?}"
        );
    }
}

/// It is right in all that can be checked step by step; what is wrong is who gets it.
#[test]
fn a_lock_that_starves_a_vcpu_is_sound_but_that_one_comes_last() {
    for seed in 0..3 {
        let mut config = Config::new(BustedStarve, 3, 50).random(seed);
        config.programs[0] = section(0, 1);
        let outcome = sound::<Fine>(&config);
        let last = outcome.acquisitions.last().map(|&(cpu, ..)| cpu);
        assert_eq!(outcome.acquisitions.len(), 101, "seed {seed}");
        assert_eq!(last, Some(0), "seed {seed}");
        // Any other lock is taken by each within its share of the run, or nearly.
        config.kind = Ticket;
        let fair = sound::<Fine>(&config).acquisitions;
        assert!(fair.iter().position(|&(cpu, ..)| cpu == 0) < Some(50));
    }
}
