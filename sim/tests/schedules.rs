//! Schedules on demand: what is to happen happens, exactly there and for exactly so long, every time.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::{HostStep, Params, Switch, SwitchKind, Workload, phase};
use sim::{Options, Rule, Spec, presets};
use support::{Lab, exact, pinned, spin};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn lab(spec: &Spec, seed: u64, params: Params, cpus: &[Vec<usize>], rules: &[Rule]) -> Lab {
    let options = Options {
        seed,
        rules: rules.to_vec(),
        tracing: true,
    };
    Lab::with(spec, options, params, cpus)
}

/// When a vCPU was off its CPU by order: from, to, and how long that was said to be.
fn absences(switches: &[Switch], steps: &[(u64, HostStep)]) -> Vec<(u64, u64, u64)> {
    let absence = |&(at, step): &(u64, HostStep)| {
        let HostStep::Injected(ns) = step else {
            return None;
        };
        let out = switches
            .iter()
            .rev()
            .find(|s| s.kind == SwitchKind::Out && s.at_ns <= at);
        Some((out.unwrap().at_ns, at, ns))
    };
    steps.iter().filter_map(absence).collect()
}

#[test]
fn the_holder_loses_its_cpu_in_exactly_the_section_that_was_named() {
    for lock in ["tas", "qspinlock", "pv-qspinlock", "mcs", "mutex"] {
        for section in [1, 2, 17, 300] {
            let rule = Rule::DescheduleHolder {
                vcpu: 1,
                section,
                ns: 700 * US,
            };
            let mut lab = lab(&exact(&[]), 1, spin(lock, 2), &pinned(2, 2), &[rule]);
            lab.sim.run_until(MS);
            lab.enter(phase::WARM_UP);
            let mut out = None;
            // Looked at while it is away.
            for step in 1..40_000 {
                lab.sim.run_until(MS + step * 100 * US);
                if lab.sim.state(0, 1) == "held off its CPU" {
                    let sections = lab.acquisitions()[1];
                    let owner = lab.region.lock(0).unwrap().0;
                    out.get_or_insert((sections, owner));
                    assert_ne!(owner & 0xffff_ffff, 0, "{lock}: it holds the lock");
                } else if out.is_some() {
                    break;
                }
            }
            let (before, _) = out.unwrap_or_else(|| panic!("{lock}, {section}: {}", lab.states()));
            assert_eq!(before, section - 1, "{lock}: acquisitions completed before");
            let now = lab.sim.now_ns();
            lab.sim.run_until(now + 5 * MS);
            let switches = lab.sim.take_switches(0, 1);
            let absences = absences(&switches, &lab.sim.take_steps(0, 1));
            let [(from, to, told)] = absences.as_slice() else {
                panic!("{lock}, {section}: {absences:?}")
            };
            assert_eq!(
                (to - from, *told),
                (700 * US, 700 * US),
                "{lock}, {section}"
            );
            let others = lab.sim.take_steps(0, 0);
            assert!(
                !others
                    .iter()
                    .any(|(_, s)| matches!(s, HostStep::Injected(_))),
                "{others:?}"
            );
        }
    }
}

/// vCPU 0 kicks vCPU 1, which halts, again and again: how long each of its halts lasted.
fn halts(rules: &[Rule]) -> Vec<u64> {
    let params = Params {
        workload: Workload::Probe as u64,
        ..spin("tas", 2)
    };
    let mut lab = lab(&exact(&[]), 1, params, &pinned(2, 2), rules);
    lab.sim.run_until(5 * MS);
    lab.enter(phase::MEASURE);
    lab.sim.run_until(60 * MS);
    let mut since = 0;
    let mut halts = Vec::new();
    for (at, step) in lab.sim.take_steps(0, 1) {
        match step {
            HostStep::Blocked => since = at,
            HostStep::Unblocked => halts.push(at - since),
            _ => {}
        }
    }
    halts
}

#[test]
fn exactly_the_wake_up_that_was_named_is_late_by_exactly_that_much() {
    let usual = halts(&[]);
    assert!(usual.len() > 30, "{usual:?}");
    for late in [1, 2, 20] {
        let rule = Rule::DelayWake {
            vcpu: 1,
            wake: late as u64,
            ns: 123_456,
        };
        let delayed = halts(&[rule]);
        let place = late - 1;
        assert_eq!(delayed[place], usual[place] + 123_456, "{late}");
        assert_eq!(delayed[..place], usual[..place], "{late}");
    }
}

#[test]
fn a_rule_for_another_vcpu_or_a_section_that_never_comes_does_nothing() {
    let run = |rules: &[Rule]| {
        let mut params = spin("tas", 2);
        // The same code whether there are rules or not.
        params.trace_records = 1 << 10;
        let mut lab = lab(&exact(&[]), 1, params, &pinned(2, 2), rules);
        (
            lab.measure(0, 2 * MS),
            lab.sim.take_steps(0, 1),
            lab.sim.stats(),
        )
    };
    let holder = |vcpu, section| Rule::DescheduleHolder {
        vcpu,
        section,
        ns: MS,
    };
    let without = run(&[]);
    assert_eq!(run(&[holder(2, 1)]), without);
    assert_eq!(run(&[holder(1, 1_000_000)]), without);
    assert_ne!(run(&[holder(1, 1_000)]), without);
}

#[test]
fn the_same_rules_and_seed_replay_identically() {
    let spec = presets::find("cascade-lake-2s").unwrap();
    let rules = [
        Rule::DescheduleHolder {
            vcpu: 2,
            section: 30,
            ns: 2 * MS,
        },
        Rule::DelayWake {
            vcpu: 0,
            wake: 2,
            ns: 50 * US,
        },
    ];
    let run = |seed, rules: &[Rule]| {
        let mut params = spin("pv-qspinlock", 4);
        // Holding takes longer than that, so all halt now and then.
        (params.spin_threshold, params.critical_ns) = (100, 20 * US);
        params.trace_records = 1 << 10;
        let mut lab = lab(&spec, seed, params, &pinned(4, 2), rules);
        let got = lab.measure(MS, 5 * MS);
        let switches: Vec<_> = (0..4).map(|vcpu| lab.sim.take_switches(0, vcpu)).collect();
        let steps: Vec<_> = (0..4).map(|vcpu| lab.sim.take_steps(0, vcpu)).collect();
        let counters: Vec<_> = (0..4)
            .map(|vcpu| lab.region.counters(vcpu).unwrap())
            .collect();
        (got, switches, steps, counters, lab.sim.stats())
    };
    let first = run(3, &rules);
    assert!(first == run(3, &rules));
    assert!(first != run(4, &rules));
    assert!(first != run(3, &rules[..1]));
    assert!(first != run(3, &[]));
}
