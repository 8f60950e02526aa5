//! The locks of powerpc, whose waiters yield to the holder.

use super::*;

/// A holder that is away is found out, marked, and yielded to; the head at last stops thieves.
#[test]
fn ppc_waiters_yield_to_whom_they_wait_for() {
    let events = [
        PpcYieldOwner,
        PpcYieldPrev,
        PpcMustQueue,
        PpcSteal,
        PpcSleepy,
    ];
    let mut counts = [0; 5];
    for kind in [PpcSpinLock, PpcQSpinLock] {
        let mut config = Config::new(kind, 4, 3);
        // One holds it for longer than anybody steals.
        config.programs[0] = [Op::Lock(0), Op::Pause(600), Op::Unlock(0)].repeat(2);
        for (vcpu, at) in (0..4).flat_map(|vcpu| (0..20).map(move |at| (vcpu, at * 60 + HOLDS))) {
            config.preempt = vec![Preempt {
                vcpu,
                at,
                steps: LONG,
            }];
            let outcome = sound::<Fine>(&config);
            for (count, event) in counts.iter_mut().zip(events) {
                *count += outcome.count(event);
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

/// How long vCPU 0 must hold a lock, in steps, for vCPU 1 to queue for it.
fn steps_until_it_queues(numa_nodes: u64) -> u32 {
    let queues = |hold: &u32| {
        let mut config = Config::new(PpcQSpinLock, 2, 1);
        config.numa_nodes = numa_nodes;
        config.programs[0] = vec![Op::Lock(0), Op::Pause(*hold), Op::Unlock(0)];
        !sound::<Coarse>(&config).arrivals.is_empty()
    };
    (1..1_000).find(queues).expect("nobody steals for ever")
}

/// A comer of the holder's node tries for 32 turns, one of another node for 4. A turn is a look and a pause.
#[test]
fn ppc_comers_from_another_node_queue_sooner() {
    use pvlock::ppc::queued::{REMOTE_STEAL_TURNS, STEAL_TURNS};
    let (near, far) = (steps_until_it_queues(1), steps_until_it_queues(2));
    assert_eq!(near - far, 2 * (STEAL_TURNS - REMOTE_STEAL_TURNS));
    assert!(
        (2 * REMOTE_STEAL_TURNS..4 * REMOTE_STEAL_TURNS).contains(&far),
        "{far}"
    );
}
