//! The conformance suite of [`pvlock::conformance`], with every vCPU taking part.
//!
//! `iterations` are the suite's rounds; `locks` must be [`SLOTS`] at least. A breach is a panic.

use super::place::{place, placed};
use super::{start, subject};
use crate::abi::{Counter, LockSlot, Params, VcpuArea};
use crate::{Machine, machine};
use core::marker::PhantomData;
use pvlock::conformance::{Breach, Guarded, Meeting, SITES, Site, Suite};
use pvlock::{LockVisitor, RawLock, RawRwLock, RwLockVisitor};

/// Lock slots that the suite needs: locks, what they guard, and the meeting, once for the lock as such
/// and once for its read side.
pub const SLOTS: u64 = 2 * PART as u64;
/// Slots of one of the two.
const PART: usize = 2 * SITES + 1;

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    assert!(params.locks >= SLOTS, "the suite needs {SLOTS} lock slots");
    let kind = subject::kind(params);
    let slots = machine::deref_slice::<LockSlot>(vcpu.locks, params.locks);
    let (exclusive, rest) = slots.split_at(PART);
    let conform = |slots, prepare| Conform {
        vcpu,
        params,
        slots,
        prepare,
        machine: PhantomData::<M>,
    };
    if vcpu.cpu == 0 {
        kind.visit::<M, _>(conform(exclusive, true));
        kind.visit_rw::<M, _>(conform(rest, true));
    }
    start::<M>(vcpu);
    kind.visit::<M, _>(conform(exclusive, false));
    kind.visit_rw::<M, _>(conform(rest, false));
    vcpu.count(Counter::Acquisitions, 1);
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
        part: impl FnOnce(&mut Suite<'_, M, L>) -> Result<(), Breach>,
    ) {
        let (locks, rest) = self.slots.split_at(SITES);
        let (guarded, meeting) = rest.split_at(SITES);
        if self.prepare {
            locks.iter().for_each(|slot| place(slot, new()));
            let nothing = Guarded::<M>::default;
            guarded.iter().for_each(|slot| place(slot, nothing()));
            place(&meeting[0], Meeting::<M>::default());
            return;
        }
        let sites: [Site<'_, M, L>; SITES] = core::array::from_fn(|i| Site {
            lock: placed(&locks[i]),
            guarded: placed(&guarded[i]),
        });
        let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
        let mut suite = Suite {
            sites: &sites,
            meeting: placed(&meeting[0]),
            cpus: count(self.params.vcpus),
            rounds: count(self.params.iterations),
            met: 0,
        };
        if let Err(breach) = part(&mut suite) {
            self.vcpu.count(Counter::Violations, 1);
            panic!("{breach}");
        }
    }
}

impl<M: Machine> LockVisitor<M> for Conform<M> {
    type Output = ();

    fn visit<L: RawLock>(self) {
        self.conform(L::new, |suite| suite.exclusive());
    }
}

impl<M: Machine> RwLockVisitor<M> for Conform<M> {
    type Output = ();

    fn visit<L: RawRwLock>(self) {
        self.conform(L::new, |suite| suite.shared());
    }
}
