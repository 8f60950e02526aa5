//! The torture workload: hold times that vary wildly, pauses, nested locks; everything is checked.
//!
//! It does what Linux's locktorture is documented to do (Documentation/locking/locktorture.rst). N
//! is the number of vCPUs of the same kind:
//!
//! | lock | held | with probability |
//! |---|---|---|
//! | exclusive | [`SHORT_NS`] | 1 / 400 N |
//! | | [`Params::long_hold_ns`] | 1 / 2000 N (ms of it) |
//! | | and meanwhile off its CPU | 1 / 20000 N |
//! | | no longer than it takes to check it | otherwise |
//! | reader-writer | [`Params::long_hold_ns`] | 1 / 2000 N (ms of it) |
//! | | [`SHORT_NS`] for writing, [`READ_NS`] for reading | otherwise |
//!
//! vCPUs are writers but for the last [`Params::readers`]. A lock that does not exclude is seen by
//! `Inside::leave`; of a reader and a writer inside together, the
//! reader sees it.

use super::check::Inside;
use super::choice::Choice;
use super::subject::{self, Subject, Visitor};
use super::{alone, current_phase, start_and};
use crate::machine::VcpuAreaExt as _;
use crate::{Machine, machine};
use abi::{Counter, LockSlot, Params, VcpuArea, VcpuState, flags, phase};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

/// Short holds, and those of writers of a reader-writer lock, ns.
pub const SHORT_NS: u64 = 2_000;
/// Holds of readers, ns.
pub const READ_NS: u64 = 10_000;
/// Most locks that are held around the one under torture.
pub const MOST_NESTED: usize = 8;
/// One in this many turns begins with a sleep, of
const SLEEP_TURNS: u64 = 1 << 20;
/// one jiffy of a kernel with 250 Hz, ns.
const JIFFY_NS: u32 = 4_000_000;
/// A vCPU that is to lose its CPU gives it up for this long, ns: as short as the host can.
const PREEMPT_NS: u32 = 1;

/// Creating a thread takes so long, ns.
const CREATE_NS: u64 = 40_000;

/// When thread `number` is created, ns after the first: writers and readers in turn, as long as there are both. All
/// at once would enter a queue in the order of their numbers, which it then keeps.
fn created_after(number: u64, writers: u64, readers: u64) -> u32 {
    let both = writers.min(readers);
    let place = match number.checked_sub(writers) {
        None => number + number.min(both),
        Some(reader) => reader + (reader + 1).min(writers),
    };
    u32::try_from(place * CREATE_NS).unwrap_or(u32::MAX)
}

/// Runs the workload on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine>(vcpu: &'static VcpuArea, params: &'static Params) {
    let torture = Torture {
        vcpu,
        params,
        choice: Choice::new(params, vcpu.cpu),
        machine: PhantomData::<M>,
    };
    subject::visit_whole::<M, _>(params, torture);
}

struct Torture<M> {
    vcpu: &'static VcpuArea,
    params: &'static Params,
    choice: Choice,
    machine: PhantomData<M>,
}

impl<M: Machine> Visitor<M> for Torture<M> {
    fn visit<S: Subject>(mut self) {
        self.turns::<S>();
    }
}

/// How long to hold a lock.
enum Hold {
    Ns(u64),
    Preempted,
}

// What is not inlined is so for the sake of the image: there is a copy of it for each lock.
impl<M: Machine> Torture<M> {
    /// Turns until told to stop.
    #[inline(never)]
    fn turns<S: Subject>(&mut self) {
        let Self { vcpu, params, .. } = *self;
        // The lock under torture is the first; those held around it follow.
        let slots: &[LockSlot] = machine::deref_slice(vcpu.locks, params.locks);
        if vcpu.cpu == 0 {
            subject::construct_all::<S>(slots, params);
        }
        let reader = S::SHARED && u64::from(vcpu.cpu) >= params.vcpus - params.readers;
        let of_its_kind = if reader {
            params.readers
        } else {
            params.vcpus - params.readers
        };
        let nested = params
            .nested_locks
            .min(MOST_NESTED as u64)
            .min(params.locks - 1);
        start_and::<M>(vcpu, || alone::calibrate_turn::<M>(vcpu, self.params));
        if params.flags & flags::IRQS_OFF != 0 {
            let writers = params.vcpus - params.readers;
            M::hold_off(created_after(u64::from(vcpu.cpu), writers, params.readers));
        }

        let mut longest = 0;
        while current_phase(vcpu) != phase::STOP {
            if self.one_in(SLEEP_TURNS) {
                M::hold_off(JIFFY_NS);
            }
            let around = self.choice.below(1 << nested);
            let mut held: [Option<Inside<'_>>; MOST_NESTED] = [const { None }; MOST_NESTED];
            for (i, (held, slot)) in held.iter_mut().zip(&slots[1..]).enumerate() {
                if around >> i & 1 != 0 {
                    *held = Some(self.acquire::<S>(slot, reader));
                    vcpu.count(Counter::Around, 1);
                }
            }
            if around == 0 || !self.one_in(100) {
                self.turn::<S>(&slots[0], reader, of_its_kind, &mut longest);
            }
            for (held, slot) in held.into_iter().zip(&slots[1..]).rev() {
                if let Some(held) = held {
                    self.release::<S>(slot, held, reader);
                }
            }
            self.pause();
        }
    }

    /// Takes the lock under torture, holds it for a while, and releases it.
    fn turn<S: Subject>(
        &mut self,
        slot: &LockSlot,
        reader: bool,
        of_its_kind: u64,
        longest: &mut u64,
    ) {
        let vcpu = self.vcpu;
        let masks = self.params.flags & flags::IRQS_OFF != 0;
        if masks {
            M::mask_interrupts(true);
        }
        let asked = M::now();
        vcpu.wait_since.store(asked, Relaxed);
        let held = self.acquire::<S>(slot, reader);
        let wait = M::now().saturating_sub(asked);
        vcpu.wait_since.store(0, Relaxed);
        if wait > *longest {
            *longest = wait;
            vcpu.wait_max.store(wait, Relaxed);
        }
        vcpu.count(Counter::Acquisitions, 1);
        if reader {
            vcpu.count(Counter::Reads, 1);
        }
        let limit = self.params.acquire_limit_ns;
        if !reader && limit > 0 && wait > M::ticks(limit) {
            vcpu.count(Counter::Late, 1);
        }
        match self.hold::<S>(reader, of_its_kind) {
            Hold::Ns(ns) => self.delay(ns),
            Hold::Preempted => M::hold_off(PREEMPT_NS),
        }
        self.release::<S>(slot, held, reader);
        if masks {
            M::mask_interrupts(false);
        }
    }

    #[inline(never)]
    fn acquire<'a, S: Subject>(&self, slot: &'a LockSlot, reader: bool) -> Inside<'a> {
        let lock = subject::lock_of::<S>(slot);
        S::acquire(lock, reader);
        Inside::enter::<M>(slot, self.params.data(), self.vcpu.cpu + 1, reader)
    }

    #[inline(never)]
    fn release<S: Subject>(&self, slot: &LockSlot, inside: Inside<'_>, reader: bool) {
        let lock = subject::lock_of::<S>(slot);
        let well = inside.leave(self.vcpu.cpu + 1);
        S::release(lock, reader);
        if !well {
            self.vcpu.count(Counter::Violations, 1);
        }
    }

    fn hold<S: Subject>(&mut self, reader: bool, of_its_kind: u64) -> Hold {
        let long = self.params.long_hold_ns;
        let long_ms = long.div_ceil(1_000_000);
        if long > 0 && self.one_in(of_its_kind.saturating_mul(2000).saturating_mul(long_ms)) {
            return Hold::Ns(long);
        }
        match (S::SHARED, reader) {
            (true, true) => Hold::Ns(READ_NS),
            (true, false) => Hold::Ns(SHORT_NS),
            (false, _) if self.one_in(of_its_kind.saturating_mul(400)) => Hold::Ns(SHORT_NS),
            (false, _) if self.one_in(of_its_kind.saturating_mul(20_000)) => Hold::Preempted,
            (false, _) => Hold::Ns(0),
        }
    }

    /// Whether this is the one time in `n`, or in 2^32.
    fn one_in(&mut self, n: u64) -> bool {
        self.choice.below(n.min(1 << 32)) == 0
    }

    /// Lets `ns` pass, on this CPU or off it.
    fn delay(&self, ns: u64) {
        if ns > 0 {
            M::delay(ns, || current_phase(self.vcpu) != phase::STOP);
        }
    }

    /// Halts for as long as the host wants vCPUs to pause. It kicks them when that is over.
    fn pause(&self) {
        let word = &self.vcpu.header().control.pause;
        if word.load(Relaxed) == 0 {
            return;
        }
        self.vcpu.state.store(VcpuState::Paused as u32, Relaxed);
        while word.load(Relaxed) != 0 && current_phase(self.vcpu) != phase::STOP {
            M::halt_while(word, |pause| pause != 0);
        }
        self.vcpu.state.store(VcpuState::Working as u32, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_and_readers_are_created_in_turn() {
        let order = |writers: u64, readers: u64| {
            let mut all: Vec<u64> = (0..writers + readers).collect();
            all.sort_by_key(|&n| created_after(n, writers, readers));
            let times = all.iter().map(|&n| created_after(n, writers, readers));
            assert!(
                times.eq((0..writers + readers).map(|n| u32::try_from(n * CREATE_NS).unwrap()))
            );
            all
        };
        assert_eq!(order(2, 4), [0, 2, 1, 3, 4, 5]);
        assert_eq!(order(3, 1), [0, 3, 1, 2]);
        assert_eq!(order(0, 2), [0, 1]);
    }
}
