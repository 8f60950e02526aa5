//! Tests of who is chosen to run.

use super::*;
use core::sync::atomic::{AtomicU32, AtomicU64};

fn queue(per_vcpu: u32) -> RunQueue {
    RunQueue {
        tasks: 0,
        waiters: 0,
        per_vcpu,
        current: AtomicU32::new(0),
        idle: AtomicU32::new(0),
        blocked: AtomicU32::new(0),
        alive: AtomicU32::new(per_vcpu),
        slice_start: AtomicU64::new(0),
        runnable: Default::default(),
        woken: Default::default(),
        turn: AtomicU32::new(0),
        out_of_turn: AtomicU32::new(0),
    }
}

fn woken(queue: &RunQueue, task: u32) {
    let (word, bit) = bit(task);
    queue.woken[word].fetch_or(bit, Relaxed);
    set_runnable(queue, task);
}

#[test]
fn without_wake_ups_tasks_take_turns() {
    for tasks in [1, 3, 64, 65, 130] {
        let queue = queue(tasks);
        (0..tasks).for_each(|task| set_runnable(&queue, task));
        let mut own = 0;
        for step in 1..=2 * tasks {
            own = choose(&queue, own).unwrap();
            assert_eq!(own, step % tasks);
        }
    }
}

#[test]
fn nobody_is_chosen_who_cannot_run() {
    let queue = queue(70);
    assert_eq!(choose(&queue, 3), None);
    set_runnable(&queue, 69);
    assert_eq!([choose(&queue, 69), choose(&queue, 69)], [Some(69); 2]);
}

#[test]
fn a_woken_task_goes_first_and_then_the_round_goes_on() {
    let queue = queue(5);
    (0..4).for_each(|task| set_runnable(&queue, task));
    assert_eq!(choose(&queue, 0), Some(1));
    woken(&queue, 4);
    assert_eq!(choose(&queue, 1), Some(4));
    assert_eq!(choose(&queue, 4), Some(2), "in turn");
    assert_eq!(choose(&queue, 2), Some(3), "4 is not woken any more");
    assert_eq!(choose(&queue, 3), Some(4));
}

#[test]
fn nobody_waits_for_more_than_two_rounds() {
    // Whatever is woken when: a task that can run does so soon.
    for tasks in [2, 7, 66] {
        let queue = queue(tasks);
        let mut waits = vec![None; tasks as usize];
        let mut random = 1u32;
        let mut below = |n: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % n
        };
        let mut own = 0;
        for _ in 0..20_000 {
            for _ in 0..below(4) {
                let task = below(tasks);
                if waits[task as usize].is_none() {
                    waits[task as usize] = Some(0);
                    match below(8) {
                        0 => set_runnable(&queue, task),
                        _ => woken(&queue, task),
                    }
                }
            }
            let Some(chosen) = choose(&queue, own) else {
                assert!(waits.iter().all(Option::is_none), "somebody is forgotten");
                continue;
            };
            own = chosen;
            let waited = waits[own as usize].take();
            assert!(waited.is_some(), "{own} cannot run");
            clear_runnable(&queue, own);
            for waited in waits.iter_mut().flatten() {
                *waited += 1;
                assert!(*waited < 2 * tasks, "{waited} others of {tasks} went first");
            }
        }
    }
}
