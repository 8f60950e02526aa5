//! What the microbenchmarks share: who takes part, when to go on, and an acquisition with its check and
//! its figures.
//!
//! Their threads are tasks ([`crate::task`]), so that threads can share a vCPU as they share a CPU. A
//! microbenchmark's loop is the same in every task; only [`Member::rank`] differs.

use super::check::Inside;
use super::lengths::Outside;
use super::subject::{self, Subject, Visitor};
use super::{alone, current_phase, start_and, wait_for_stop};
use crate::machine::VcpuAreaExt as _;
use crate::task::{self, Body};
use crate::{Machine, machine, work};
use abi::{Counter, Data, LockSlot, Params, TaskArea, VcpuArea, flags, phase};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A task lets others run, if it has had its slice, after so many operations. Looking at the clock after
/// each would cost more than many an operation.
const GIVE_WAY_EVERY: u64 = 16;

/// A microbenchmark.
pub(super) trait Bench<M: Machine>: Sized {
    /// Whether it can read. Where not, there is no code for it.
    const READS: bool = false;

    /// Makes what lies in the slots of locks.
    fn construct<S: Subject>(slots: &'static [LockSlot], params: &'static Params) {
        subject::construct_all::<S>(slots, params);
    }

    /// What each task does that takes part.
    fn work<S: Subject>(member: Member, slots: &'static [LockSlot]);
}

/// Runs `B` on this vCPU with the lock named in `params`.
pub(super) fn run<M: Machine, B: Bench<M>>(vcpu: &'static VcpuArea, params: &'static Params) {
    let tasks = Tasks::<B> {
        vcpu,
        params,
        bench: PhantomData,
    };
    if B::READS {
        subject::visit::<M, _>(params, tasks);
    } else {
        subject::visit_exclusive::<M, _>(params, tasks);
    }
}

/// All tasks of a vCPU, which do the work of `B`.
struct Tasks<B> {
    vcpu: &'static VcpuArea,
    params: &'static Params,
    bench: PhantomData<B>,
}

impl<M: Machine, B: Bench<M>> Visitor<M> for Tasks<B> {
    fn visit<S: Subject>(self) {
        let Self { vcpu, params, .. } = self;
        if vcpu.cpu == 0 {
            B::construct::<S>(machine::deref_slice(vcpu.locks, params.locks), params);
        }
        run_all::<M, OneTask<B, S>>(vcpu, params);
    }
}

struct OneTask<B, S>(PhantomData<(B, S)>);

impl<M: Machine, B: Bench<M>, S: Subject> Body<M> for OneTask<B, S> {
    fn run(vcpu: &'static VcpuArea, area: &'static TaskArea) {
        if let Some(member) = Member::join::<M>(vcpu, area) {
            let slots = machine::deref_slice(vcpu.locks, member.params.locks);
            B::work::<S>(member, slots);
        }
    }
}

/// Runs `B` in every task of this vCPU, from the start signal to the end of all.
fn run_all<M: Machine, B: Body<M>>(vcpu: &'static VcpuArea, params: &'static Params) {
    start_and::<M>(vcpu, || alone::calibrate_section::<M>(vcpu, params));
    task::run::<M, B>();
    if current_phase(vcpu) != phase::STOP {
        vcpu.finished.store(M::now(), Relaxed);
        // Stay, halted, until everybody stops: the host still wants this vCPU's statistics.
        wait_for_stop::<M>(vcpu);
    }
}

/// A task that takes part.
pub(super) struct Member {
    pub(super) vcpu: &'static VcpuArea,
    pub(super) params: &'static Params,
    area: &'static TaskArea,
    /// Its number among those that take part.
    pub(super) rank: u64,
    /// Its number in the machine, and 1.
    pub(super) me: u32,
    timed: bool,
    data: Data,
    /// Its thinking between two operations.
    outside: Outside,
    phase: u32,
    /// Operations to go; `u64::MAX`: until told to stop.
    left: u64,
    turns: u64,
}

impl Member {
    /// The executing task, if it takes part: the first [`Params::threads`] do, where every vCPU's
    /// first comes before any vCPU's second.
    fn join<M: Machine>(vcpu: &'static VcpuArea, area: &'static TaskArea) -> Option<Self> {
        let params = &vcpu.header().params;
        let task = M::task();
        let rank = u64::from(task % vcpu.run_queue.per_vcpu) * params.vcpus + u64::from(vcpu.cpu);
        let timed = params.flags & flags::LATENCY != 0;
        (rank < params.threads).then(|| Self {
            vcpu,
            params,
            area,
            rank,
            me: task + 1,
            timed,
            data: params.data(),
            outside: Outside::new(params, &work::costs::<M>(vcpu), task),
            phase: phase::PREPARE,
            left: u64::MAX,
            turns: 0,
        })
    }

    /// To be called before each operation: whether there is to be one.
    #[inline(always)]
    pub(super) fn goes_on<M: Machine>(&mut self) -> bool {
        if self.notice_phase() == phase::STOP {
            return false;
        }
        if self.left == 0 {
            self.finish::<M>();
            return false;
        }
        self.left -= 1;
        M::looped();
        true
    }

    /// Lets the task begin anew with its figures if a phase has begun; returns the phase.
    #[inline(always)]
    pub(super) fn notice_phase(&mut self) -> u32 {
        let phase = current_phase(self.vcpu);
        if phase != self.phase && phase != phase::STOP {
            self.begin(phase);
        }
        phase
    }

    #[cold]
    fn begin(&mut self, phase: u32) {
        self.phase = phase;
        if phase == phase::MEASURE && self.params.iterations > 0 {
            self.left = self.params.iterations;
        }
        let area = self.area;
        for figure in [
            &area.reads,
            &area.writes,
            &area.read_wait_max,
            &area.write_wait_max,
        ] {
            figure.store(0, Relaxed);
        }
        area.phase.store(phase, Relaxed);
    }

    /// This task has done all that it was to do.
    pub(super) fn finish<M: Machine>(&self) {
        self.area.finished.store(M::now(), Relaxed);
    }

    /// Takes the lock in `slot`, for reading if `read`, does what is to be done `inside`, and releases
    /// it.
    #[inline(always)]
    pub(super) fn locked<M: Machine, S: Subject, R>(
        &self,
        slot: &LockSlot,
        read: bool,
        inside: impl FnOnce() -> R,
    ) -> R {
        let Self {
            vcpu,
            area,
            me,
            data,
            ..
        } = *self;
        let lock = subject::lock_of::<S>(slot);
        let read = S::SHARED && read;
        let asked = if self.timed { M::now() } else { 0 };
        if self.timed {
            // The lowest bit says of which kind the wait is.
            area.wait_since.store(asked & !1 | u64::from(read), Relaxed);
        }
        S::acquire(lock, read);
        let got = if self.timed { M::now() } else { 0 };
        if self.timed {
            area.wait_since.store(0, Relaxed);
        }
        let check = Inside::enter::<M>(slot, data, me, read);
        let result = inside();
        let alone = check.leave(me);
        S::release(lock, read);
        // Figures are noted after the release: nobody waits for that.
        if self.timed {
            let longest = if read {
                &area.read_wait_max
            } else {
                &area.write_wait_max
            };
            raise(longest, got.saturating_sub(asked));
        }
        vcpu.count(Counter::Acquisitions, 1);
        if read {
            vcpu.count(Counter::Reads, 1);
        }
        if !alone {
            vcpu.count(Counter::Violations, 1);
        }
        result
    }

    /// Works as for [`Params::outside_ns`].
    #[inline(always)]
    pub(super) fn think<M: Machine>(&mut self) {
        M::work(self.outside.units(false));
    }

    /// Counts an operation of this task.
    #[inline(always)]
    pub(super) fn count(&self, read: bool) {
        let figure = if read {
            &self.area.reads
        } else {
            &self.area.writes
        };
        figure.store(figure.load(Relaxed) + 1, Relaxed);
    }

    /// To be called between operations: thinks, if that is asked for, and lets other tasks of the vCPU have
    /// their turn.
    #[inline(always)]
    pub(super) fn give_way<M: Machine>(&mut self) {
        self.think::<M>();
        self.turns += 1;
        if self.turns.is_multiple_of(GIVE_WAY_EVERY) {
            task::give_way::<M>();
        }
    }
}

fn raise(longest: &AtomicU64, wait: u64) {
    if wait > longest.load(Relaxed) {
        longest.store(wait, Relaxed);
    }
}
