//! `cna`: waiters of one NUMA node go first, and none is lost.

use super::*;

/// Waiters 2 to 7 queue behind a holder and a pending waiter; the even ones are of one node.
#[test]
fn cna_serves_waiters_of_one_node_together() {
    let mut config = Config::new(Cna, 8, 0);
    config.numa_nodes = 2;
    config.millisecond = 100_000;
    let hold = |start, steps| {
        let (start, steps) = (Op::Pause(start), Op::Pause(steps));
        vec![start, Op::Lock(0), steps, Op::Unlock(0)]
    };
    config.programs = (0..8).map(|cpu| hold(20 * cpu, 40)).collect();
    config.programs[0] = hold(0, 400);
    let order = |config: &Config| -> Vec<usize> {
        let outcome = sound::<Coarse>(config);
        outcome.acquisitions.iter().map(|&(cpu, ..)| cpu).collect()
    };
    // 7, the last, cannot be moved; then the primary queue is empty.
    assert_eq!(order(&config), [0, 1, 2, 4, 6, 7, 3, 5]);
    let outcome = sound::<Coarse>(&config);
    assert_eq!((outcome.count(CnaMoved), outcome.count(CnaFlushed)), (2, 0));

    // On one node, and as natives, they are served as they came.
    config.numa_nodes = 1;
    assert_eq!(order(&config), [0, 1, 2, 3, 4, 5, 6, 7]);

    // A head that finds the secondary queue too old puts it first.
    config.numa_nodes = 2;
    config.millisecond = 1_000;
    config.programs[2] = hold(40, 400);
    // (3 and 5 have a queue before them, of which 5 then moves 6.)
    assert_eq!(order(&config), [0, 1, 2, 4, 3, 5, 7, 6]);
    assert!(sound::<Coarse>(&config).count(CnaFlushed) > 0);
}

#[test]
fn cna_loses_no_waiter_in_any_schedule() {
    let (mut moved, mut flushed) = (0, 0);
    for seed in 0..200 {
        let mut config = Config::new(Cna, 6, 4).random(seed);
        config.numa_nodes = 2 + seed % 2;
        let fine = sound::<Fine>(&config);
        let coarse = sound::<Coarse>(&config);
        for outcome in [fine, coarse] {
            assert_eq!(outcome.acquisitions.len(), 24, "seed {seed}");
            moved += outcome.count(CnaMoved);
            flushed += outcome.count(CnaFlushed);
        }
    }
    assert!(moved > 0 && flushed > 0, "{moved} {flushed}");
}

/// Any of the vCPUs around the moved ones is descheduled at any of its steps.
#[test]
fn cna_loses_no_waiter_when_one_is_preempted() {
    let mut moved = 0;
    for vcpu in 0..5 {
        let mut config = Config::new(Cna, 5, 2);
        config.numa_nodes = 2;
        config.preempt(0, HOLDS, LONG);
        preempted_everywhere::<Coarse>(&config, vcpu, |outcome| moved += outcome.count(CnaMoved));
    }
    assert!(moved > 0);
}
