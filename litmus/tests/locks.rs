//! Every lock, three CPUs, all orders that weak memory allows, as far as `litmus::cases` says.
//!
//! With `LITMUS_FAR=1` each is looked at with one preemption more. `LITMUS_SHOW=1` tells how much there was.

#![allow(clippy::unwrap_used)]

use litmus::cases::{Case, of};
use pvlock::LockKind;
use std::time::Instant;

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

fn explore(case: &Case) {
    let bound = if is_set("LITMUS_FAR") {
        case.far
    } else {
        case.bound
    };
    for &model in case.models {
        let start = Instant::now();
        let explored = case.explore(model, bound).unwrap_or_else(|failure| {
            panic!("{}, {}, {}: {failure}", case.kind, case.name, model.name())
        });
        assert!(explored.ends > 0);
        if is_set("LITMUS_SHOW") {
            println!(
                "{}, {}, {}, {bound:?}: {} states, {:?}",
                case.kind,
                case.name,
                model.name(),
                explored.states,
                start.elapsed()
            );
        }
        explored.saw(case.sees);
    }
}

/// Those for which `is` holds.
fn explore_all(is: impl Fn(LockKind) -> bool) {
    let only = std::env::var("LITMUS_LOCK").ok();
    let sound = LockKind::ALL.iter().filter(|kind| !kind.traits().control);
    for &kind in sound.filter(|kind| is(**kind)) {
        if only.as_deref().is_none_or(|only| only == kind.name()) {
            of(kind).iter().for_each(explore);
        }
    }
}

#[test]
fn locks_that_spin() {
    explore_all(|kind| !kind.is_rw() && !kind.traits().halts);
}

#[test]
fn paravirtual_locks() {
    explore_all(|kind| !kind.is_rw() && kind.traits().halts && !kind.traits().sleeps);
}

#[test]
fn locks_with_readers() {
    explore_all(|kind| kind.is_rw() && !kind.traits().sleeps);
}

#[test]
fn locks_that_sleep() {
    explore_all(|kind| kind.traits().sleeps);
}

#[test]
fn each_lock_is_used_by_three_cpus() {
    for kind in LockKind::ALL.iter().filter(|kind| !kind.traits().control) {
        assert!(of(*kind).iter().any(|case| case.cpus() >= 3), "{kind}");
    }
}
