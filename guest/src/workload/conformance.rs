//! The conformance suite of [`pvlock::conformance`], with every task of every vCPU taking part.
//!
//! `iterations` are the suite's rounds, and for `preempt_ns` a vCPU gives up its CPU in one in four critical
//! sections; `locks` must be [`SLOTS`] at least. A breach is a panic. With several
//! tasks for each vCPU the lock must be one whose waiters sleep.

use super::place::{place, placed};
use super::{start, subject};
use crate::machine::Lock as _;
use crate::machine::VcpuAreaExt as _;
use crate::task::{self, Body};
use crate::{Machine, machine};
use abi::{Counter, LockSlot, Params, TaskArea, VcpuArea, Workload};
use core::marker::PhantomData;
use pvlock::conformance::{Breach, Guarded, Kept, Killing, Meeting, SITES, Site, Suite};
use pvlock::registry::SemVisitor;
use pvlock::{Downgrade, KillableRw, LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor};

/// Lock slots that the suite needs: locks, what they guard, the meeting, and others to be held, once for the lock as such,
/// once for its read side, and once for what only semaphores can.
pub const SLOTS: u64 = 3 * PART as u64;
/// Slots of one of these.
const PART: usize = 2 * SITES + 1 + KEPT;
/// Slots of locks whose holders keep nodes; vCPUs share them.
const KEPT: usize = 4;

/// What a run of the suite asks for.
pub fn params(lock: LockKind, rounds: u64) -> Params {
    Params {
        workload: Workload::Conformance as u64,
        lock_kind: lock.id().into(),
        locks: SLOTS,
        iterations: rounds,
        // Short, so that waiters of halting locks do halt.
        spin_threshold: 200,
        numa_nodes: 2,
        ..Params::default()
    }
}

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    assert!(params.locks >= SLOTS, "the suite needs {SLOTS} lock slots");
    let kind = subject::kind::<M>(params);
    assert!(
        kind.traits().sleeps || vcpu.run_queue.per_vcpu == 1,
        "waiters of {kind} would keep the CPU from the task that they wait for"
    );
    if vcpu.cpu == 0 {
        go_through::<M>(vcpu, true);
    }
    start::<M>(vcpu);
    task::run::<M, Conforms>();
}

/// All parts of the suite that the lock can do.
fn go_through<M: Machine>(vcpu: &'static VcpuArea, prepare: bool) {
    let params = &vcpu.header().params;
    let kind = subject::kind::<M>(params);
    let slots = machine::deref_slice::<LockSlot>(vcpu.locks, params.locks);
    let part = |number: usize| Conform {
        vcpu,
        params,
        slots: &slots[number * PART..][..PART],
        prepare,
        machine: PhantomData::<M>,
    };
    kind.visit(part(0));
    kind.visit_rw(part(1));
    kind.visit_sem(part(2));
}

/// Lets the other tasks of this vCPU run, or, if `preempt_ns` says so, other vCPUs.
fn step_aside<M: Machine>() {
    match u32::try_from(M::vcpu().header().params.preempt_ns) {
        Ok(0) | Err(_) => task::step_aside::<M>(),
        Ok(ns) => M::hold_off(ns),
    }
}

struct Conforms;

impl<M: Machine> Body<M> for Conforms {
    fn run(vcpu: &'static VcpuArea, _: &'static TaskArea) {
        go_through::<M>(vcpu, false);
        vcpu.count(Counter::Acquisitions, 1);
    }
}

struct Conform<M> {
    vcpu: &'static VcpuArea,
    params: &'static Params,
    slots: &'static [LockSlot],
    /// Put the objects into their slots, instead of using them.
    prepare: bool,
    machine: PhantomData<M>,
}

impl<M: Machine> Conform<M> {
    #[inline(never)]
    fn conform<L: Sync>(
        self,
        new: fn() -> L,
        part: impl FnOnce(&mut Suite<'_, M, L>, &[&Kept<M>; KEPT]) -> Result<(), Breach>,
    ) {
        let (locks, rest) = self.slots.split_at(SITES);
        let (guarded, rest) = rest.split_at(SITES);
        let (meeting, kept) = rest.split_at(1);
        if self.prepare {
            locks.iter().for_each(|slot| place(slot, new()));
            let nothing = Guarded::<M>::default;
            guarded.iter().for_each(|slot| place(slot, nothing()));
            place(&meeting[0], Meeting::<M>::default());
            kept.iter()
                .for_each(|slot| place(slot, Kept::<M>::default()));
            return;
        }
        let sites: [Site<'_, M, L>; SITES] = core::array::from_fn(|i| Site {
            lock: placed(&locks[i]),
            guarded: placed(&guarded[i]),
        });
        let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
        let tasks = self.params.vcpus * u64::from(self.vcpu.run_queue.per_vcpu);
        let mut suite = Suite {
            sites: &sites,
            meeting: placed(&meeting[0]),
            tasks: count(tasks),
            step_aside: step_aside::<M>,
            rounds: count(self.params.iterations),
            met: 0,
        };
        let kept = core::array::from_fn(|i| placed(&kept[i]));
        if let Err(breach) = part(&mut suite, &kept) {
            self.vcpu.count(Counter::Violations, 1);
            panic!("{breach}");
        }
    }
}

impl<M: Machine> LockVisitor<M> for Conform<M> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        // A task that sleeps must leave the nodes to the others of its vCPU.
        let scarce = self.vcpu.run_queue.per_vcpu == 1;
        self.conform(L::new, move |suite, kept| {
            suite.exclusive()?;
            if scarce { suite.scarce(kept) } else { Ok(()) }
        });
    }
}

impl<M: Machine> RwLockVisitor<M> for Conform<M> {
    type Output = ();

    fn visit<L: RawRwLock>(self) {
        self.conform(L::new, |suite, _| suite.shared());
    }
}

impl<M: Machine> SemVisitor<M> for Conform<M> {
    type Output = ();

    fn visit<L: Downgrade + KillableRw>(self) {
        let killing = Killing {
            kill: task::kill::<M>,
            revive: task::revive::<M>,
        };
        self.conform(L::new, |suite, _| suite.semaphore(killing));
    }
}
