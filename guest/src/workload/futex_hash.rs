//! futex-hash: waits on futexes whose value is not the one expected, so that nobody ever waits.
//!
//! After `perf bench futex hash`. Each task has [`FUTEXES`] futexes of its own. A wait takes the lock of
//! the futex's hash bucket, compares, releases, and fails (EAGAIN in Linux). There are as many buckets
//! as [`Params::locks`], a power of two, so few tasks ever meet.

use super::bench::{self, Bench, Member};
use super::subject::Subject;
use crate::Machine;
use abi::{Counter, LockSlot, Params, VcpuArea};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Futexes of each task.
pub const FUTEXES: usize = 1024;
/// Buckets for each CPU, before rounding up to a power of two (kernel/futex: 256 for each).
pub const BUCKETS_PER_CPU: usize = 256;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    assert!(
        params.locks.is_power_of_two(),
        "the number of hash buckets is a power of two"
    );
    bench::run::<M, FutexHash>(vcpu, params);
}

struct FutexHash;

impl<M: Machine> Bench<M> for FutexHash {
    fn work<S: Subject>(mut member: Member, buckets: &'static [LockSlot]) {
        let futexes: [AtomicU32; FUTEXES] = [const { AtomicU32::new(0) }; FUTEXES];
        let mut next = 0;
        while member.goes_on::<M>() {
            M::system_call();
            let bucket = &buckets[bucket(member.rank, next, buckets.len())];
            let expected = black_box(1234);
            let found = member.locked::<M, S, _>(bucket, false, || futexes[next].load(Relaxed));
            if found == expected {
                // Nobody wrote that: this would be a wait for ever.
                member.vcpu.count(Counter::Violations, 1);
            }
            member.count(false);
            member.give_way::<M>();
            next = (next + 1) % FUTEXES;
        }
    }
}

/// The bucket of that futex of a task: its number by multiplicative hashing (Knuth 1973), as Linux
/// hashes its address.
fn bucket(rank: u64, futex: usize, buckets: usize) -> usize {
    let key = rank * FUTEXES as u64 + futex as u64;
    let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (hash as usize) & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futexes_are_spread_over_all_buckets() {
        let mut used = [0; 2 * BUCKETS_PER_CPU];
        for rank in 0..2 {
            for futex in 0..FUTEXES {
                used[bucket(rank, futex, used.len())] += 1;
            }
        }
        let (least, most) = (used.iter().min(), used.iter().max());
        assert!(least > Some(&0) && most < Some(&32), "{least:?} {most:?}");
    }
}
