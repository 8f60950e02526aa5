//! Contexts: what a vCPU does is interrupted, as a task is by a soft interrupt, that by an interrupt,
//! and that by an NMI.
//!
//! Context k takes lock k, so a vCPU takes its locks in one order and there is no deadlock. The guest
//! has no interrupts, so a context begins with a call, now and then: where the one before it holds its
//! lock, has just taken its place in a queue, has become next in line, or spins. A fifth context finds
//! that its vCPU may wait in four queues already, and use all four of its nodes.

use super::choice::{self, by_chance};
use super::lengths::Section;
use super::subject::{self, Subject, Visitor};
use super::turn::Turn;
use crate::machine::VcpuAreaExt as _;
use crate::{Machine, machine, work};
use abi::{Counter, LockSlot, Params, VcpuArea, flags, phase};
use core::sync::atomic::Ordering::Relaxed;
use pvlock::TraceEvent;

/// Most contexts: one more than a CPU has queue nodes.
pub const MAX_CONTEXTS: u32 = 5;
const _: () = assert!(MAX_CONTEXTS as usize == pvlock::MAX_NODES + 1);

/// Share of acquisitions that are interrupted while the lock is held, as a multiple of 2^-32.
const WHILE_HELD: u64 = 1 << 30;
/// Share of the steps into a queue that are interrupted, likewise.
const ON_QUEUEING: u64 = 1 << 30;
/// Share of the turns of a busy-wait loop that are interrupted, likewise: one in 1,024.
const WHILE_SPINNING: u64 = 1 << 22;

/// To be called where this vCPU holds a lock.
pub(super) fn while_held<M: Machine>(vcpu: &'static VcpuArea) {
    perhaps::<M>(vcpu, WHILE_HELD);
}

/// To be called at each step of an acquisition.
#[inline(always)]
pub(crate) fn at<M: Machine>(vcpu: &'static VcpuArea, event: TraceEvent) {
    if let TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) | TraceEvent::Head = event
    {
        perhaps::<M>(vcpu, ON_QUEUEING);
    }
}

/// To be called in each turn of a busy-wait loop.
#[inline(always)]
pub fn while_spinning<M: Machine>() {
    perhaps::<M>(M::vcpu(), WHILE_SPINNING);
}

#[inline(always)]
fn perhaps<M: Machine>(vcpu: &'static VcpuArea, share: u64) {
    let params = &vcpu.header().params;
    let context = vcpu.context.load(Relaxed) + 1;
    if u64::from(context) < params.contexts && by_chance(vcpu, share) {
        interrupt::<M>(vcpu, params, context);
    }
}

#[cold]
#[inline(never)]
fn interrupt<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params, context: u32) {
    // Nor while it finds out what work costs: there the lock is none.
    if !matches!(super::current_phase(vcpu), phase::WARM_UP | phase::MEASURE) {
        return;
    }
    vcpu.context.store(context, Relaxed);
    let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
    let slot = &slots[context as usize];
    let handler = Handler { vcpu, params, slot };
    subject::visit::<M, _>(params, handler);
    vcpu.context.store(context - 1, Relaxed);
    vcpu.count(Counter::Nested, 1);
}

/// What is done in an interrupt.
struct Handler {
    vcpu: &'static VcpuArea,
    params: &'static Params,
    slot: &'static LockSlot,
}

impl<M: Machine> Visitor<M> for Handler {
    fn visit<S: Subject>(self) {
        let Self { vcpu, params, slot } = self;
        let costs = work::costs::<M>(vcpu);
        let timed = params.flags & flags::LATENCY != 0;
        let turn = Turn {
            vcpu,
            data: params.data(),
            section: Section::new(params, &costs, timed),
        };
        let read = S::SHARED && by_chance(vcpu, choice::read_share(params, vcpu.cpu));
        let again = || while_held::<M>(vcpu);
        if timed {
            turn.take::<M, S, true>(slot, read, false, again);
        } else {
            turn.take::<M, S, false>(slot, read, false, again);
        }
    }
}
