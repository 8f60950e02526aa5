//! What a vCPU executes, and how far it is.

use super::turn::Window;
use crate::units::Ps;
use abi::{Layout, VcpuArea};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::ops::Range;

/// What runs on a vCPU.
pub(crate) type Program = Coroutine<(), (), (), DefaultStack>;

/// What a vCPU does when it has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It computes until then.
    Computes { until: Ps },
    /// It would compute for so long.
    Computed { left: Ps },
    /// It waits for a line: no interrupt is taken meanwhile.
    WaitsForLine,
    /// It spins until its line changes, at most until it has spun for `left`.
    Spins { since: Ps, left: Ps },
    /// Its CPU polls for it while it is halted.
    Polls,
    /// Nothing: it is off its CPU for another reason than that others run.
    Nothing,
}

pub(super) struct Execution {
    /// `None` once it has ended; what is there beside the VMs has none, and computes for ever.
    pub(super) program: Option<Box<Program>>,
    /// How that suspends itself, once it has begun.
    pub(super) yielder: *const Yielder<(), ()>,
    /// The lowest address of its stack.
    pub(super) lowest_stack: usize,
    pub(super) vm: u32,
    /// Its number there.
    pub(super) number: u32,
    /// The address of its area in the region.
    pub(super) area: usize,
    pub(super) doing: Doing,
    /// What has been arranged for it, by its order: all else does not hold any more.
    pub(super) arranged: u32,
    /// The line that it spins on, or has last.
    pub(super) spins_on: u32,
    /// That has changed, and it has not looked yet.
    pub(super) line_changed: bool,
    /// It takes no interrupts: nobody takes its CPU away.
    pub(super) masked: bool,
    /// What is left of the time for which it was to spin at most.
    pub(super) spin_left: Ps,
}

impl Execution {
    /// It loses its CPU.
    pub(super) fn suspend(&mut self, now: Ps) {
        self.arranged = 0;
        self.doing = match self.doing {
            Doing::Computes { until } => Doing::Computed {
                left: until.saturating_sub(now),
            },
            Doing::Spins { since, left } => Doing::Spins {
                since: now,
                // One that spins without a limit still does when it is back.
                left: match left {
                    Ps::MAX => Ps::MAX,
                    left => left.saturating_sub(now - since),
                },
            },
            other => other,
        };
    }

    pub(super) fn area(&self) -> &'static VcpuArea {
        area_at(self.area)
    }
}

/// The vCPU's area at `address`.
#[allow(unsafe_code)] // By its address.
pub(super) fn area_at(address: usize) -> &'static VcpuArea {
    // SAFETY: given with the VM, for as long as the simulation lives.
    unsafe { guest::machine::vcpu_at(address) }
}

/// A VM on the machine.
pub(super) struct Tenant {
    /// Its vCPUs, by their numbers among all.
    pub(super) vcpus: Range<u32>,
    pub(super) window: Window,
    /// How its region is laid out.
    pub(super) layout: Layout,
    /// Of the tasks that are not the first of their vCPU, in order.
    pub(super) task_stacks: Vec<DefaultStack>,
}
