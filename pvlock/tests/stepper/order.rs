//! In which order waiters are served.

use super::*;

#[test]
fn first_come_first_served() {
    // A thief has not queued.
    for kind in spinning().filter(|&kind| kind.traits().fair || kind.traits().halts) {
        let mut queued = 0;
        for seed in 0..100 {
            let outcome = sound::<Fine>(&Config::new(kind, 4, 3).random(seed));
            let served = outcome.acquisitions.iter().filter(|(_, _, queued)| *queued);
            let served: Vec<usize> = served.map(|&(vcpu, ..)| vcpu).collect();
            assert_eq!(served, outcome.arrivals, "{kind}, seed {seed}");
            queued += served.len();
        }
        assert!(queued > 100, "{kind} hardly queued");
    }
}

/// While the head sleeps the lock is anybody's; the head still gets it in the end.
#[test]
fn sleeping_queues_are_overtaken() {
    paravirtual().for_each(a_sleeping_queue_is_overtaken);
}

fn a_sleeping_queue_is_overtaken(kind: LockKind) {
    let (mut overtakes, mut stolen) = (0, 0);
    for seed in 0..60 {
        let outcome = sound::<Coarse>(&Config::new(kind, 4, 4).random(seed));
        overtakes += outcome.overtakes;
        stolen += outcome.count(PvLockStealing);
    }
    assert!(overtakes > 0 && stolen > 0, "{kind}: {overtakes} {stolen}");
}
