//! The checker itself: it catches what is broken, by a lock or by a schedule.

use super::*;

#[test]
fn the_checker_catches_a_lock_that_excludes_nobody() {
    let failure = run::<Fine>(&Config::new(Busted, 2, 1)).unwrap_err();
    assert!(
        matches!(failure, Failure::TwoHolders { lock: 0, .. }),
        "{failure:?}"
    );
}

#[test]
fn a_forgotten_kick_is_a_deadlock() {
    let mut config = Config::new(PvQSpinLock, 2, 1);
    config.preempt(0, HOLDS, LONG);
    assert!(sound::<Fine>(&config).count(PvKickUnlock) > 0);
    config.kick = Kick::Lost;
    match run::<Fine>(&config) {
        Err(Failure::Deadlock(who)) => {
            assert!(
                who.contains("vCPU 0: done") && who.contains("vCPU 1: halted"),
                "{who}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// P2: without stickiness some schedule must lose the wake-up.
#[test]
fn a_kick_that_does_not_stick_is_a_deadlock() {
    let mut config = Config::new(PvQSpinLock, 2, 1);
    config.programs[0] = vec![Op::Lock(0), Op::Pause(40), Op::Unlock(0)];
    let deadlocks = (0..40).filter(|&at| {
        let preempt = vec![Preempt {
            vcpu: 1,
            at,
            steps: LONG,
        }];
        let sticky = Config {
            preempt,
            ..config.clone()
        };
        sound::<Coarse>(&sticky);
        let fleeting = Config {
            kick: Kick::Fleeting,
            ..sticky
        };
        matches!(run::<Coarse>(&fleeting), Err(Failure::Deadlock(_)))
    });
    assert!(deadlocks.count() > 0);
}

#[test]
fn a_lock_never_released_is_a_livelock() {
    let mut config = Config::new(Tas, 2, 1);
    config.programs[0].truncate(1);
    config.step_limit = 1000;
    let failure = run::<Fine>(&config).unwrap_err();
    assert!(matches!(failure, Failure::Livelock(_)), "{failure:?}");
}

#[test]
fn a_release_too_many_is_reported_by_the_lock() {
    let mut config = Config::new(PvQSpinLock, 1, 1);
    config.order = Order::Script(vec![0; 8]);
    config.programs[0] = vec![Op::Unlock(0)];
    let failure = run::<Fine>(&config).unwrap_err();
    assert!(
        matches!(&failure, Failure::Panic(text) if text.contains("0x0")),
        "{failure:?}"
    );
}
