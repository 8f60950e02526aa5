//! lock-pi: all tasks take one lock and sleep while they hold it.
//!
//! After `perf bench futex lock-pi`, which sleeps for one microsecond, to which Linux adds about 50 as
//! the slack of its timers. So the rate hardly depends on the lock: a control for whatever is compared.

use super::bench::{self, Member};
use super::subject::{self, Subject, Visitor, kind};
use crate::machine::Lock as _;
use crate::task::{self, Body};
use crate::{Machine, machine};
use abi::{LockSlot, Params, TaskArea, VcpuArea};
use core::marker::PhantomData;

/// How long a holder asks to sleep, ns.
pub const ASKED_NS: u32 = 1_000;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    subject::visit_exclusive::<M, _>(params, LockPi { vcpu, params });
}

struct LockPi {
    vcpu: &'static VcpuArea,
    params: &'static Params,
}

impl<M: Machine> Visitor<M> for LockPi {
    fn visit<S: Subject>(self) {
        bench::locks::<S>(self.vcpu, self.params);
        bench::run::<M, Sleeps<S>>(self.vcpu);
    }
}

struct Sleeps<S>(PhantomData<S>);

impl<M: Machine, S: Subject> Body<M> for Sleeps<S> {
    fn run(vcpu: &'static VcpuArea, area: &'static TaskArea) {
        let Some(mut member) = Member::join::<M>(vcpu, area) else {
            return;
        };
        let [slot, ..] = machine::deref_slice::<LockSlot>(vcpu.locks, member.params.locks) else {
            panic!("there is no lock");
        };
        let sleeps = kind::<M>(member.params).traits().sleeps;
        while member.goes_on::<M>() {
            member.locked::<M, S, _>(slot, false, || {
                if sleeps {
                    task::sleep::<M>(ASKED_NS);
                } else {
                    // The whole vCPU: a task of it that spins for the lock would never end.
                    M::hold_off(ASKED_NS);
                }
            });
            member.count(false);
            member.give_way::<M>();
        }
    }
}
