//! Locks for which a vCPU has no queue node left, as its holders of other locks keep them.

use super::*;

/// How many steps of each vCPU are tried: beyond those it does what it has done before, or is done.
const STEPS: [u64; 3] = [48, 12, 8];
/// For how many steps of others each is away. The first and the last come back when the second is done.
const AWAY: [u64; 3] = [LONG, 25, LONG];

/// vCPU 2 has no node. Each of the three is descheduled after any of its steps: among the triples are
/// those in which it sees the lock held; vCPU 1, which is pending, takes it and leaves; and vCPU 0, which
/// has come again, is alone in the queue, and at its last exchange.
fn all_triples(kind: LockKind) -> u64 {
    let mut without_node = 0;
    for first in 0..STEPS[0] {
        for second in 0..STEPS[1] {
            for third in 0..STEPS[2] {
                let mut config = Config::new(kind, 3, 1);
                config.programs[0] = section(0, 2);
                config.without_nodes = vec![2];
                config.step_limit = 2_000;
                let triple = [first, second, third].into_iter().zip(AWAY).enumerate();
                config.preempt = triple
                    .map(|(vcpu, (at, steps))| Preempt { vcpu, at, steps })
                    .collect();
                without_node += sound::<Coarse>(&config).count(LockNoNode);
            }
        }
    }
    without_node
}

#[test]
fn a_vcpu_without_a_node_leaves_nobody_waiting_for_it() {
    for kind in [QSpinLock, Cna] {
        let without_node = all_triples(kind);
        assert!(without_node > 1_000, "{kind}: {without_node}");
    }
}

/// All vCPUs in turn have none, in any schedule that chance makes.
#[test]
fn vcpus_without_nodes_get_every_lock_in_the_end() {
    for kind in spinning() {
        for seed in 0..60 {
            let mut config = Config::new(kind, 4, 2).random(seed);
            config.without_nodes = (0..4).filter(|vcpu| seed >> vcpu & 1 != 0).collect();
            assert_eq!(sound::<Fine>(&config).acquisitions.len(), 8, "seed {seed}");
            assert_eq!(
                sound::<Coarse>(&config).acquisitions.len(),
                8,
                "seed {seed}"
            );
        }
    }
}
