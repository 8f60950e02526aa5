//! What can be worked out on paper comes out as worked out: costs of lines and locks.
//!
//! The machine is [`support::exact`]: nothing varies. Times are in ns.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod support;

use abi::Params;
use pvlock::LockKind;
use sim::Spec;
use support::{Lab, exact, pinned, spin};

/// Its figures.
const HIT: u64 = 1;
const RMW: u64 = 8;
const SOCKET: u64 = 50;
const CROSS: u64 = 120;
const INVALIDATE: u64 = 2;
const CLOCK: u64 = 16;

/// Work inside and outside the critical section.
const CRITICAL: u64 = 300;
const OUTSIDE: u64 = 170;

const S: u64 = 1_000_000_000;

fn params(lock: &str, vcpus: usize, iterations: u64) -> Params {
    Params {
        critical_ns: CRITICAL,
        outside_ns: OUTSIDE,
        iterations,
        ..spin(lock, vcpus)
    }
}

/// Acquisitions of each vCPU that are looked at.
const TURNS: u64 = 2048;
/// Every 32nd has its work timed, by two looks at the clock inside and two outside the critical section.
const TIMED: u64 = TURNS / 32;

/// How long [`TURNS`] acquisitions take: the beginning, in which lines come from memory, is left out.
fn duration(
    spec: &Spec,
    params: impl Fn(u64) -> Params,
    cpus: &[Vec<usize>],
    noise: Option<usize>,
) -> u64 {
    let time = |iterations| {
        let mut lab = Lab::new(spec, 1, params(iterations), cpus);
        noise
            .iter()
            .for_each(|&cpu| lab.sim.add_noise(cpu).unwrap());
        lab.complete(S)
    };
    time(1024 + TURNS) - time(1024)
}

/// What an acquisition costs that finds all lines where it wants them: read-modify-writes, and hits. That of the
/// guarded line is not among them: the work goes on meanwhile.
const UNCONTENDED: [(&str, u64, u64); 5] = [
    // Exchange; store.
    ("tas", 1, 1),
    // Add; load and store.
    ("ticket", 1, 2),
    // Exchange; store of the locked byte.
    ("qspinlock", 1, 1),
    // Exchange; exchange.
    ("pv-qspinlock", 2, 0),
    // Node taken (2) and made ready (2), exchange of the tail, holder noted; holder and link read, exchange,
    // node given back (2).
    ("mcs", 2, 2 + 2 + 1 + 2 + 2),
];

#[test]
fn an_uncontended_lock_costs_its_hits_and_its_read_modify_writes() {
    for (lock, rmws, hits) in UNCONTENDED {
        for (rmw, hit) in [(RMW, HIT), (25, 4)] {
            let spec = exact(&[&format!("hit_ns={hit}"), &format!("rmw_ns={rmw}")]);
            let each = CRITICAL + OUTSIDE + rmws * rmw + hits * hit;
            let found = duration(&spec, |n| params(lock, 1, n), &[vec![3]], None);
            assert_eq!(found, TURNS * each + TIMED * 4 * CLOCK, "{lock}");
        }
    }
}

#[test]
fn the_first_use_of_a_line_is_a_transfer_from_memory() {
    let first = |memory: u64| {
        let spec = exact(&[&format!("memory_ns={memory}")]);
        Lab::new(&spec, 1, params("tas", 1, 1), &[vec![0]]).complete(S)
    };
    // From the acquisition to the release: the guarded line is new, the lock's is not. It comes while the work
    // is done, or later. The clock is looked at after the work, after the release, and at the end.
    let rest = HIT + 3 * CLOCK;
    assert_eq!(first(100), CRITICAL + rest);
    assert_eq!(first(333), 333 + HIT + rest);
}

/// One handoff of a ticket lock between two CPUs that always want it.
///
/// The waiter, which has added itself and so owns the word's line, reads it when the holder's store takes it
/// away: `transfer`. It uses the guarded line: `transfer`, during which it works. Both have a copy of the word then, so reading it is a
/// hit, and the store of the release takes the other's copy away: `transfer` and `invalidate`.
fn ticket_handoff(transfer: u64, critical: u64) -> u64 {
    (transfer + HIT) + critical.max(transfer + HIT) + HIT + (transfer + INVALIDATE)
}

fn ping_pong(lock: &str, other: usize) -> u64 {
    let params = |n| Params {
        outside_ns: 0,
        ..params(lock, 2, n)
    };
    duration(&exact(&[]), params, &[vec![0], vec![other]], None)
}

#[test]
fn a_lock_goes_back_and_forth_at_the_pace_of_its_lines() {
    // CPUs 0 to 3 are on the first socket.
    for (other, transfer) in [(1, SOCKET), (3, SOCKET), (4, CROSS), (7, CROSS)] {
        // The looks at the clock outside are made while the other one holds the lock.
        let expected = 2 * (TURNS * ticket_handoff(transfer, CRITICAL) + TIMED * 2 * CLOCK);
        assert_eq!(ping_pong("ticket", other), expected, "with CPU {other}");
    }
}

#[test]
fn another_socket_is_farther_by_what_the_transfers_of_a_handoff_differ() {
    // A qspinlock has one more: the waiter reads the word and then writes it, and the old holder takes it away
    // once more, to set pending, before it is released.
    for (lock, transfers) in [("ticket", 2), ("qspinlock", 3)] {
        let (near, far) = (ping_pong(lock, 1), ping_pong(lock, 5));
        assert_eq!(
            far - near,
            TURNS * 2 * transfers * (CROSS - SOCKET),
            "{lock}"
        );
    }
}

#[test]
fn locks_in_order_of_arrival_are_exactly_fair() {
    for &lock in LockKind::ALL {
        if !lock.traits().fair || lock.traits().control {
            continue;
        }
        for (vcpus, spec) in [
            (2, exact(&[])),
            (5, exact(&[])),
            (8, exact(&["jitter=0.2", "wait_on_line=0"])),
        ] {
            let params = Params {
                critical_ns: 1000,
                outside_ns: 0,
                ..spin(lock.name(), vcpus)
            };
            let mut lab = Lab::new(&spec, 5, params, &pinned(vcpus, 8));
            let got = lab.measure(100_000, 3_000_000);
            let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
            assert!(
                *least > 100 && most - least <= 1,
                "{lock}, {vcpus} vCPUs: {got:?}"
            );
        }
    }
}

#[test]
fn a_busy_sibling_slows_a_hardware_thread_by_its_factor() {
    // CPU 8 is the second thread of CPU 0's core, CPU 9 that of CPU 1's.
    let (rmw, hits) = (RMW, HIT);
    let alone = TURNS * (CRITICAL + OUTSIDE + rmw + hits) + TIMED * 4 * CLOCK;
    let spec = |factor: &str| exact(&["threads=2", &format!("smt_busy={factor}")]);
    let found = |factor: &str, noise: Option<usize>| {
        duration(&spec(factor), |n| params("tas", 1, n), &[vec![0]], noise)
    };
    assert_eq!(found("1.5", None), alone, "alone");
    assert_eq!(found("1.5", Some(9)), alone, "beside another core");
    assert_eq!(found("1.5", Some(8)), alone * 3 / 2, "beside its sibling");
    assert_eq!(found("2", Some(8)), alone * 2, "beside its sibling");
}
