//! The hypervisor does what its parameters say, to the nanosecond: slices, halts, kicks, yields.
//!
//! The machine is [`support::exact`]: nothing varies. Times are in ns.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{Counter, ExitReason, HostStep, Params, Switch, SwitchKind, VcpuArea, Workload, phase};
use sim::{Options, Rule, Spec};
use std::mem::offset_of;
use support::{Lab, exact, pinned, spin};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Figures of the machine.
const EXIT: u64 = 1_000;
const ENTRY: u64 = 500;
const WAKE: u64 = 2_000;
const IDLE_EXIT: u64 = 700;
const DEEP_IDLE_EXIT: u64 = 30_000;
const SWITCH: u64 = 1_500;
const MEMORY: u64 = 100;
const HIT: u64 = 1;
const RMW: u64 = 8;
const CLOCK: u64 = 16;

fn traced(spec: &Spec, params: Params, cpus: &[Vec<usize>], rules: Vec<Rule>) -> Lab {
    let options = Options {
        seed: 1,
        rules,
        tracing: true,
    };
    Lab::with(spec, options, params, cpus)
}

/// `vcpus` that compute all the time, on CPU 0.
fn busy(spec: &Spec, vcpus: usize) -> Lab {
    let params = Params {
        workload: Workload::Busy as u64,
        ..spin("tas", vcpus)
    };
    let mut lab = traced(spec, params, &pinned(vcpus, 1), Vec::new());
    lab.sim.run_until(MS);
    lab.arrivals(0);
    lab.enter(phase::WARM_UP);
    lab
}

/// How long each had the CPU before the next got it.
fn lengths(arrivals: &[(u64, usize)]) -> Vec<u64> {
    arrivals
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect()
}

#[test]
fn vcpus_that_share_a_cpu_take_turns_of_exactly_a_slice() {
    for (vcpus, slice) in [(2, MS), (3, MS), (2, 70 * US), (5, 333_333)] {
        let mut lab = busy(&exact(&[&format!("slice_ns={slice}")]), vcpus);
        let rounds = 6;
        lab.sim.run_until(2 * MS + rounds * vcpus as u64 * slice);
        let arrivals = lab.arrivals(0);
        assert!(
            arrivals.len() as u64 > rounds * vcpus as u64,
            "{arrivals:?}"
        );
        for length in lengths(&arrivals) {
            assert_eq!(length, slice, "{vcpus} vCPUs: {arrivals:?}");
        }
        for (turn, (_, vcpu)) in arrivals.iter().enumerate() {
            assert_eq!(*vcpu, turn % vcpus, "{vcpus} vCPUs: {arrivals:?}");
        }
        // The first has got the CPU when it was kicked and woken.
        let begun = arrivals[0].0;
        assert_eq!(begun, MS + WAKE + DEEP_IDLE_EXIT, "{arrivals:?}");
    }
}

#[test]
fn vcpus_that_share_a_cpu_have_equal_shares_of_it() {
    for eevdf in ["eevdf=0", "eevdf=1"] {
        let slice = 100 * US;
        for vcpus in [2, 3, 4] {
            let mut lab = busy(&exact(&[eevdf, "slice_ns=100us"]), vcpus);
            let (rounds, start) = (50, 2 * MS);
            lab.sim.run_until(start);
            let had = |lab: &Lab| -> Vec<u64> {
                (0..vcpus)
                    .map(|v| lab.sim.vcpu_stats(0, v).cpu_ns)
                    .collect()
            };
            let before = had(&lab);
            lab.sim.run_until(start + rounds * vcpus as u64 * slice);
            for (before, after) in before.into_iter().zip(had(&lab)) {
                let error = (after - before).abs_diff(rounds * slice);
                let allowed = if eevdf == "eevdf=0" { 1 } else { slice };
                assert!(
                    error <= allowed,
                    "{eevdf}, {vcpus} vCPUs: {before} to {after}"
                );
            }
        }
    }
}

#[test]
fn with_a_tick_slices_end_when_it_comes() {
    // Eight CPUs: the tick of the first is at multiples of its period.
    let mut lab = busy(&exact(&["slice_ns=2500us", "tick_ns=1ms"]), 2);
    lab.sim.run_until(40 * MS);
    let arrivals = lab.arrivals(0);
    assert!(arrivals.len() > 10, "{arrivals:?}");
    for (at, _) in &arrivals[1..] {
        assert_eq!(at % MS, 0, "{arrivals:?}");
    }
    for length in &lengths(&arrivals)[1..] {
        assert_eq!(*length, 3 * MS, "the first tick after 2.5 ms: {arrivals:?}");
    }
}

#[test]
fn noise_has_its_share_too() {
    let mut lab = busy(&exact(&["slice_ns=100us"]), 2);
    lab.sim.add_noise(0).unwrap();
    lab.sim.run_until(2 * MS);
    let had = |lab: &Lab| lab.sim.vcpu_stats(0, 1);
    let before = had(&lab);
    lab.sim.run_until(2 * MS + 30 * 100 * US);
    let after = had(&lab);
    assert!(
        (after.cpu_ns - before.cpu_ns).abs_diff(10 * 100 * US) <= 1,
        "{before:?} {after:?}"
    );
    let queued = after.queued_ns - before.queued_ns;
    assert!(queued.abs_diff(20 * 100 * US) <= 1, "{before:?} {after:?}");
}

/// When a vCPU has taken its first lock that is kicked when the machine has been idle for `idle`: ns after
/// the kick.
fn woken(spec: &Spec, vcpus: usize, idle: u64) -> u64 {
    let mut lab = traced(spec, spin("tas", vcpus), &pinned(vcpus, 1), Vec::new());
    while !(0..vcpus).all(|vcpu| lab.sim.is_halted(0, vcpu)) {
        let next = lab.sim.now_ns() + US;
        lab.sim.run_until(next);
    }
    let kicked = lab.sim.now_ns() + idle;
    lab.sim.run_until(kicked);
    lab.region.set_phase(phase::WARM_UP).unwrap();
    lab.sim.kick(0, 0);
    lab.sim.run_until(kicked + MS);
    let steps = lab.sim.take_steps(0, 0);
    let unblocked = steps.iter().find(|(_, step)| *step == HostStep::Unblocked);
    assert_eq!(unblocked.unwrap().0, kicked + WAKE, "{steps:?}");
    lab.word(0, offset_of!(VcpuArea, first_acquisition)) - kicked
}

#[test]
fn a_kick_takes_its_wake_up_the_idle_exit_the_switch_and_the_entry() {
    // The first turn is timed.
    let lock = MEMORY + RMW + CLOCK;
    let spec = exact(&[]);
    // The state is deep after 200 us.
    assert_eq!(woken(&spec, 1, 150 * US), WAKE + IDLE_EXIT + ENTRY + lock);
    assert_eq!(
        woken(&spec, 1, 210 * US),
        WAKE + DEEP_IDLE_EXIT + ENTRY + lock
    );
    // With another one that was on the CPU last.
    assert_eq!(
        woken(&spec, 2, 150 * US),
        WAKE + IDLE_EXIT + SWITCH + ENTRY + lock
    );
    // On bare metal nothing is entered.
    let metal = exact(&["virtual_machine=0"]);
    assert_eq!(woken(&metal, 1, 150 * US), WAKE + IDLE_EXIT + lock);
}

/// vCPU 0 kicks vCPU 1, which halts, again and again, half a millisecond after the last time.
fn probe(spec: &Spec, rules: Vec<Rule>) -> Lab {
    let params = Params {
        workload: Workload::Probe as u64,
        ..spin("tas", 2)
    };
    let mut lab = traced(spec, params, &pinned(2, 2), rules);
    lab.sim.run_until(5 * MS);
    lab.enter(phase::MEASURE);
    lab
}

/// For each halt of vCPU 1 how long it was polled for in vain; `None` if it was woken meanwhile.
fn polls(lab: &mut Lab) -> Vec<Option<u64>> {
    let steps = lab.sim.take_steps(0, 1);
    let switches = lab.sim.take_switches(0, 1);
    let mut blocked = None;
    let mut polls = Vec::new();
    for (at, step) in steps {
        match step {
            HostStep::Blocked => blocked = Some(at),
            HostStep::Unblocked => {
                let since = blocked.take().unwrap();
                let gave_up =
                    |s: &&Switch| s.kind == SwitchKind::Out && (since..=at).contains(&s.at_ns);
                polls.push(switches.iter().find(gave_up).map(|s| s.at_ns - since));
            }
            _ => {}
        }
    }
    polls
}

#[test]
fn halt_polling_grows_until_it_helps_and_shrinks_when_halts_are_long() {
    let changes = [
        "halt_poll_max_ns=800us",
        "halt_poll_start_ns=10us",
        "tick_ns=0",
    ];
    let spec = exact(&changes);
    // The eleventh wake-up comes after more than the most: a host's, and ten trials.
    let late = Rule::DelayWake {
        vcpu: 1,
        wake: 12,
        ns: 2 * MS,
    };
    let mut lab = probe(&spec, vec![late]);
    lab.sim.run_until(30 * MS);
    let polls = polls(&mut lab);
    let us = |n: u64| Some(n * US);
    // In the first two halts, which are longer than that, nothing is learned. Then each is of half a
    // millisecond: that would have helped, so the next time is longer, until it does help.
    let grown = [
        us(0),
        us(0),
        us(0),
        us(10),
        us(20),
        us(40),
        us(80),
        us(160),
        us(320),
        None,
        None,
    ];
    assert_eq!(polls[..11], grown, "{polls:?}");
    // After the long one it is half of it, which is too short, and grows again.
    assert_eq!(polls[11..14], [us(640), us(320), None], "{polls:?}");
}

#[test]
fn a_vcpu_is_not_polled_for_while_another_waits_for_the_cpu() {
    let spec = exact(&[
        "halt_poll_max_ns=800us",
        "halt_poll_start_ns=700us",
        "slice_ns=50us",
    ]);
    let mut lab = probe(&spec, Vec::new());
    lab.sim.add_noise(1).unwrap();
    lab.sim.run_until(20 * MS);
    let polls = polls(&mut lab);
    assert!(
        polls.len() > 10 && polls.iter().all(|poll| *poll == Some(0)),
        "{polls:?}"
    );
}

#[test]
fn a_vcpu_that_spins_leaves_the_guest_when_its_window_is_over() {
    let changes = [
        "ple=1",
        "ple_window_ns=3us",
        "ple_grow=2",
        "ple_window_max_ns=20us",
    ];
    let spec = exact(&changes);
    let mut params = spin("tas", 2);
    params.critical_ns = 10 * MS;
    let mut lab = traced(&spec, params, &pinned(2, 2), Vec::new());
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    lab.sim.run_until(3 * MS);
    let exits = |lab: &mut Lab, vcpu| -> Vec<u64> {
        let steps = lab.sim.take_steps(0, vcpu);
        let exits = steps
            .iter()
            .filter(|(_, step)| *step == HostStep::Exit(ExitReason::Pause));
        exits.map(|(at, _)| *at).collect()
    };
    let owner = lab.region.lock(0).unwrap().1 as usize;
    assert!(owner == 1 || owner == 2, "somebody holds it");
    let waiter = 2 - owner;
    assert_eq!(
        exits(&mut lab, owner - 1),
        [0; 0],
        "the holder does not spin"
    );
    let exits = exits(&mut lab, waiter);
    let lengths: Vec<_> = exits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Out and in again, and a look at the line; then for the window, which doubles.
    let turn = |window: u64| EXIT + ENTRY + HIT + window;
    let windows = [6 * US, 12 * US, 20 * US, 20 * US];
    assert_eq!(lengths[..4], windows.map(turn), "{exits:?}");
    assert!(
        lengths[4..].iter().all(|length| *length == turn(20 * US)),
        "{exits:?}"
    );
    assert_eq!(
        lab.sim.vcpu_stats(0, waiter).exits["pause"],
        exits.len() as u64
    );
}

#[test]
fn a_pause_loop_exit_gives_the_cpu_to_one_that_waits_for_it() {
    // Both on one CPU: without the exit the waiter would spin for all of its slice.
    let spec = exact(&["ple=1", "ple_window_ns=3us", "slice_ns=10ms"]);
    let mut params = spin("tas", 2);
    (params.critical_ns, params.outside_ns) = (MS, 0);
    let mut lab = traced(&spec, params, &pinned(2, 1), Vec::new());
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    lab.sim.run_until(200 * MS);
    let mut handed = 0;
    let switches: Vec<_> = (0..2).map(|vcpu| lab.sim.take_switches(0, vcpu)).collect();
    for waiter in 0..2 {
        for (at, step) in lab.sim.take_steps(0, waiter) {
            if step == HostStep::Exit(ExitReason::Pause) {
                let holder = &switches[1 - waiter];
                assert!(
                    holder
                        .iter()
                        .any(|s| s.kind == SwitchKind::In && s.at_ns == at),
                    "{at}"
                );
                handed += 1;
            }
        }
    }
    assert!(handed > 5, "{handed}");
}

#[test]
fn a_directed_yield_makes_its_target_the_next_on_the_cpu() {
    // On one CPU: a vCPU that finds the lock held yields to its holder, past the third.
    let mut params = spin("ppc-spinlock", 3);
    (params.critical_ns, params.outside_ns) = (2300 * US, 10 * US);
    let mut lab = traced(&exact(&[]), params, &pinned(3, 1), Vec::new());
    lab.sim.run_until(MS);
    lab.enter(phase::WARM_UP);
    lab.sim.run_until(2 * MS);
    let step = 5 * US;
    let turns = 40_000_u64;
    let owners: Vec<_> = (0..turns)
        .map(|turn| {
            lab.sim.run_until(2 * MS + turn * step);
            lab.region.lock(0).unwrap().1 as usize
        })
        .collect();
    let switches: Vec<_> = (0..3).map(|vcpu| lab.sim.take_switches(0, vcpu)).collect();
    let (mut next, mut past_another) = (0, 0);
    for waiter in 0..3 {
        for (at, what) in lab.sim.take_steps(0, waiter) {
            // The holder, if it was the same before and after that: it holds the lock for much longer.
            let Some(place) = at
                .checked_sub(2 * MS)
                .and_then(|since| usize::try_from(since / step).ok())
            else {
                continue;
            };
            let around = [place, place + 1].map(|place| owners.get(place).copied());
            let (HostStep::Exit(ExitReason::Yield), [Some(owner), Some(after)]) = (what, around)
            else {
                continue;
            };
            let gone = switches[waiter].iter().find(|s| s.at_ns >= at).unwrap();
            if owner == 0 || owner != after || gone.at_ns > at + EXIT + ENTRY {
                continue;
            }
            assert_eq!(gone.kind, SwitchKind::OutPreempted);
            let got = |vcpu: &usize| {
                let here = |s: &Switch| s.kind == SwitchKind::In && s.at_ns == gone.at_ns;
                switches[*vcpu].iter().any(here)
            };
            assert_eq!((0..3).find(got), Some(owner - 1), "at {at}");
            next += 1;
            past_another += u32::from(owner - 1 != (waiter + 1) % 3);
        }
    }
    assert!(next > 10 && past_another > 3, "{next}, {past_another}");
}

#[test]
fn a_yield_to_one_that_halts_is_futile_and_counted() {
    let mut lab = probe(&exact(&[]), Vec::new());
    lab.sim.run_until(500 * MS);
    assert_eq!(
        lab.counter(0, Counter::Yields),
        guest::workload::probe::TRIALS
    );
    assert_eq!(
        lab.counter(0, Counter::YieldsToHalted),
        guest::workload::probe::TRIALS
    );
    assert_eq!(
        lab.counter(0, Counter::FutileYields),
        guest::workload::probe::TRIALS
    );
}
