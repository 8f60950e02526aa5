//! lock-pi: all tasks take one lock and sleep while they hold it.
//!
//! After `perf bench futex lock-pi`, which sleeps for one microsecond, to which Linux adds about 50 as
//! the slack of its timers. So the rate hardly depends on the lock: a control for whatever is compared.

use super::bench::{self, Bench, Member};
use super::subject::{Subject, kind};
use crate::machine::Lock as _;
use crate::{Machine, task};
use abi::{LockSlot, Params, VcpuArea};

/// How long a holder asks to sleep, ns.
pub const ASKED_NS: u32 = 1_000;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    bench::run::<M, LockPi>(vcpu, params);
}

struct LockPi;

impl<M: Machine> Bench<M> for LockPi {
    fn work<S: Subject>(mut member: Member, slots: &'static [LockSlot]) {
        let [slot, ..] = slots else {
            panic!("there is no lock");
        };
        let sleeps = kind::<M>(member.params).traits().sleeps;
        while member.goes_on::<M>() {
            // One to take the lock, and one to release it.
            M::system_call();
            member.locked::<M, S, _>(slot, false, || {
                if sleeps {
                    task::sleep::<M>(ASKED_NS);
                } else {
                    // The whole vCPU: a task of it that spins for the lock would never end.
                    M::hold_off(ASKED_NS);
                }
            });
            M::system_call();
            member.count(false);
            member.give_way::<M>();
        }
    }
}
