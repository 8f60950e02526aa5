//! A VM that will never go on is seen at once, with what each vCPU waits for; one that merely waits is not taken
//! for it.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{Counter, Params, VcpuState, Workload, flags, phase};
use sim::{Options, Outcome, Rule, Said};
use support::{Lab, anywhere, exact, pinned, spin};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Runs in steps of `step` until the VM is stuck, for `most` at most.
fn run_until_stuck(lab: &mut Lab, step: u64, most: u64) -> Option<u64> {
    let start = lab.sim.now_ns();
    while lab.sim.now_ns() < start + most {
        if lab.sim.is_stuck(0) {
            return Some(lab.sim.now_ns());
        }
        let next = lab.sim.now_ns() + step;
        lab.sim.run_until(next);
    }
    None
}

/// Nothing that counts happens any more, however long one waits.
fn nothing_happens(lab: &mut Lab) {
    let before = lab.acquisitions();
    let now = lab.sim.now_ns();
    lab.sim.run_until(now + 200 * MS);
    assert_eq!(lab.acquisitions(), before, "{}", lab.states());
    assert!(lab.sim.is_stuck(0), "{}", lab.states());
}

fn halting(vcpus: usize, lock: &str) -> Params {
    Params {
        // Holding takes longer than that.
        spin_threshold: 100,
        critical_ns: 20 * US,
        ..spin(lock, vcpus)
    }
}

#[test]
fn lost_kicks_leave_all_halted_which_is_seen_at_once() {
    // A head of the queue that sleeps for good does not keep others from stealing the lock: until they have
    // all they want.
    let params = Params {
        flags: flags::DROP_KICKS,
        iterations: 300,
        ..halting(8, "pv-qspinlock")
    };
    let mut lab = Lab::new(&exact(&["slice_ns=50us"]), 1, params, &pinned(8, 2));
    lab.sim.run_until(MS);
    lab.enter(phase::MEASURE);
    let mut seen = false;
    for _ in 0..30_000 {
        let now = lab.sim.now_ns();
        lab.sim.run_until(now + 10 * US);
        let halted = (0..8).filter(|&vcpu| lab.sim.is_halted(0, vcpu)).count();
        let lacking = lab.acquisitions().iter().any(|n| *n < 300);
        assert_eq!(
            lab.sim.is_stuck(0),
            halted == 8 && lacking,
            "at {now}: {}",
            lab.states()
        );
        if lab.sim.is_stuck(0) {
            seen = true;
            break;
        }
    }
    assert!(seen, "{}", lab.states());
    assert!(lab.total(Counter::Kicks) > 0, "some were lost");
    for vcpu in 0..8 {
        let state = lab.sim.state(0, vcpu);
        assert!(state.starts_with("halted"), "{state}");
    }
    nothing_happens(&mut lab);
}

#[test]
fn without_lost_kicks_nobody_is_ever_stuck() {
    let mut lab = Lab::new(
        &exact(&["slice_ns=50us"]),
        1,
        halting(8, "pv-qspinlock"),
        &pinned(8, 2),
    );
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    assert_eq!(
        run_until_stuck(&mut lab, 10 * US, 30 * MS),
        None,
        "{}",
        lab.states()
    );
    assert!(lab.total(Counter::Kicks) > 0);
}

#[test]
fn a_lock_that_forgets_a_kick_is_found_stuck() {
    for vcpus in [3, 8] {
        let params = halting(vcpus, "busted-wakeup");
        let mut lab = Lab::new(&exact(&["slice_ns=50us"]), 1, params, &anywhere(vcpus, 2));
        lab.sim.run_until(MS);
        lab.enter(phase::WARM_UP);
        assert!(
            run_until_stuck(&mut lab, 100 * US, 1000 * MS).is_some(),
            "{}",
            lab.states()
        );
        assert!(lab.total(Counter::Acquisitions) > 0);
        nothing_happens(&mut lab);
    }
}

#[test]
fn spinning_on_what_nobody_will_release_is_being_stuck() {
    for (lock, held, vcpus) in [
        ("tas", 1, 2),
        ("ticket", 1 << 16, 2),
        ("tas", 1, 5),
        ("ticket", 1 << 16, 5),
    ] {
        let mut lab = Lab::new(
            &exact(&["slice_ns=100us"]),
            1,
            spin(lock, vcpus),
            &pinned(vcpus, 2),
        );
        lab.sim.run_until(MS);
        // As if its holder were gone.
        lab.set_lock(held);
        assert!(!lab.sim.is_stuck(0), "{lock}: nobody wants it yet");
        lab.enter(phase::WARM_UP);
        let stuck = run_until_stuck(&mut lab, 7 * US, 10 * MS);
        assert!(stuck.is_some(), "{lock}, {vcpus} vCPUs: {}", lab.states());
        let states = lab.states();
        let spinning = states.matches("spins on lock 0").count();
        assert_eq!(spinning, vcpus, "{states}");
        assert!(
            states.contains("on CPU 0") && states.contains("on CPU 1"),
            "{states}"
        );
        if vcpus > 2 {
            assert_eq!(
                states.matches("waits for CPU").count(),
                vcpus - 2,
                "{states}"
            );
        }
        assert_eq!(lab.total(Counter::Acquisitions), 0);
    }
}

#[test]
fn a_holder_that_comes_back_is_waited_for() {
    let rule = Rule::DescheduleHolder {
        vcpu: 0,
        section: 5,
        ns: 50 * MS,
    };
    let options = Options {
        rules: vec![rule],
        ..Options::default()
    };
    let mut lab = Lab::with(&exact(&[]), options, spin("tas", 2), &pinned(2, 2));
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    lab.sim.run_until(20 * MS);
    let before = lab.acquisitions();
    lab.sim.run_until(21 * MS);
    assert_eq!(lab.acquisitions(), before, "all wait");
    assert_eq!(lab.sim.state(0, 0), "held off its CPU");
    assert!(
        lab.sim.state(0, 1).starts_with("spins on lock 0"),
        "{}",
        lab.states()
    );
    assert!(!lab.sim.is_stuck(0), "but not for ever");
    lab.sim.run_until(60 * MS);
    assert!(lab.acquisitions() > before);
}

#[test]
fn who_is_prepared_or_has_finished_is_not_stuck() {
    let params = Params {
        iterations: 50,
        ..spin("qspinlock", 4)
    };
    let mut lab = Lab::new(&exact(&[]), 1, params, &pinned(4, 2));
    lab.sim.run_until(20 * MS);
    assert_eq!(lab.vcpu_states(), [VcpuState::Ready; 4]);
    assert!((0..4).all(|vcpu| lab.sim.is_halted(0, vcpu)));
    assert!(!lab.sim.is_stuck(0), "it has not been told to begin");
    lab.enter(phase::MEASURE);
    lab.sim.run_until(500 * MS);
    assert_eq!(lab.acquisitions(), [50; 4], "{}", lab.states());
    assert!((0..4).all(|vcpu| lab.sim.is_halted(0, vcpu)));
    assert!(!lab.sim.is_stuck(0), "they have done their work");
    lab.enter(phase::STOP);
    lab.sim.run_until(600 * MS);
    assert_eq!(lab.vcpu_states(), [VcpuState::Done; 4]);
    assert_eq!(lab.states().matches("ended").count(), 4);
    assert!(!lab.sim.is_stuck(0), "they have ended");
    let done = |o: &Outcome| o.what == Said::Done;
    let outcomes = lab.sim.take_outcomes();
    assert!(
        outcomes.len() == 4 && outcomes.iter().all(done),
        "{outcomes:?}"
    );
}

#[test]
fn who_is_paused_is_not_stuck() {
    let params = Params {
        workload: Workload::Torture as u64,
        ..spin("mutex", 3)
    };
    let mut lab = Lab::new(&exact(&[]), 1, params, &pinned(3, 2));
    lab.sim.run_until(MS);
    lab.enter(phase::MEASURE);
    lab.sim.run_until(5 * MS);
    lab.region.set_pause(true).unwrap();
    lab.sim.run_until(30 * MS);
    assert_eq!(
        lab.vcpu_states(),
        [VcpuState::Paused; 3],
        "{}",
        lab.states()
    );
    let before = lab.acquisitions();
    assert!(before.iter().all(|n| *n > 0), "{before:?}");
    assert!(!lab.sim.is_stuck(0));
    lab.region.set_pause(false).unwrap();
    (0..3).for_each(|vcpu| lab.sim.kick(0, vcpu));
    lab.sim.run_until(40 * MS);
    assert!(
        lab.acquisitions()
            .iter()
            .zip(before)
            .all(|(now, before)| *now > before)
    );
}

#[test]
fn a_panic_is_told_with_the_vcpu_and_what_it_said() {
    let params = Params {
        workload: Workload::Panic as u64,
        ..spin("tas", 2)
    };
    let mut lab = Lab::new(&exact(&[]), 1, params, &pinned(2, 2));
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    lab.sim.run_until(2 * MS);
    let outcomes = lab.sim.take_outcomes();
    let [outcome] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    assert_eq!((outcome.vm, outcome.vcpu), (0, 0));
    let message = "a panic was asked for (critical_ns = 100)";
    assert_eq!(outcome.what, Said::Panicked(message.to_owned()));
    assert_eq!(lab.sim.state(0, 0), "ended");
    // The other one goes on.
    lab.enter(phase::STOP);
    lab.sim.run_until(3 * MS);
    assert_eq!(lab.region.state(1).unwrap(), VcpuState::Done);
}
