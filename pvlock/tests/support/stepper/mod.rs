//! A machine that is stepped by hand: every vCPU a coroutine, one access at a time.
//!
//! Every atomic access, pause, halt and kick suspends to the scheduler first, so a schedule is a
//! sequence of vCPU numbers and two runs of one schedule are the same run. Memory is sequentially
//! consistent here; weak memory is loom's part.

mod atomics;
mod invariants;
mod mixed;
mod pct;
mod scenario;
mod schedule;
mod subject;
mod suite;

pub(crate) use atomics::{Stepped, U32, U64};
pub(crate) use scenario::{
    Config, Interrupt, Kick, Op, Order, Preempt, When, reads, section, writes,
};
pub(crate) use schedule::run;

pub(crate) use suite::conform;

use corosensei::Yielder;
use pvlock::atomic::Watch;
use pvlock::pv_hash::HashSlot;
use pvlock::word::{LockWord, PortableWord};
use pvlock::{LockEvent, PerCpu, Platform, TraceEvent};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The platform of this machine; `W` is the lock word under test.
pub(crate) struct Stepper<W = PortableWord<U32>>(PhantomData<fn() -> W>);

/// vCPUs a machine can have.
const MAX_VCPUS: usize = 8;
/// Few, so that probing wraps and collides.
const HASH_SLOTS: usize = 32;
/// What [`pvlock::percpu::Node::in_use`] says when no node is free.
const ALL_NODES: u32 = (1 << pvlock::MAX_NODES) - 1;

/// What a vCPU is about to do to a lock. Of a reader-writer lock, locking is writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Locking(usize),
    Holding(usize),
    Unlocking(usize),
    ReadLocking(usize),
    Reading(usize),
    ReadUnlocking(usize),
}

impl Phase {
    /// The lock concerned.
    pub(crate) fn lock(self) -> usize {
        match self {
            Self::Locking(lock) | Self::Holding(lock) | Self::Unlocking(lock) => lock,
            Self::ReadLocking(lock) | Self::Reading(lock) | Self::ReadUnlocking(lock) => lock,
        }
    }

    /// Whether it is about to get the lock, so that an earlier operation on it is another one.
    fn begins(self) -> bool {
        matches!(self, Self::Locking(_) | Self::ReadLocking(_))
    }

    /// Whether it is in the critical section.
    pub(crate) fn is_inside(self) -> bool {
        matches!(self, Self::Holding(_) | Self::Reading(_))
    }
}

/// What went wrong, with everything needed to see why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// More than one vCPU in a critical section.
    TwoHolders { lock: usize, holders: Vec<usize> },
    /// Readers in a critical section beside a writer.
    ReadersBesideWriter {
        lock: usize,
        readers: Vec<usize>,
        writer: usize,
    },
    /// An invariant of the lock's data does not hold.
    Invariant(String),
    /// Nobody can run.
    Deadlock(String),
    /// The bound on steps was reached.
    Livelock(String),
    /// The lock itself gave up.
    Panic(String),
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Hash of every step: who, what, and with which result.
    pub(crate) trace: u64,
    /// Steps of each vCPU.
    pub(crate) steps: Vec<u64>,
    /// Which vCPU got which lock, in order, and whether it had to queue. Readers too.
    pub(crate) acquisitions: Vec<(usize, usize, bool)>,
    /// Which vCPUs queued for some lock, or took a ticket that was not served at once, in order.
    pub(crate) arrivals: Vec<usize>,
    /// Acquisitions past the queue while somebody in it slept.
    pub(crate) overtakes: usize,
    /// Interrupts that were delivered.
    pub(crate) interrupts: usize,
    /// The most readers ever inside a lock at once.
    pub(crate) sharing: usize,
    /// Acquisitions by others between a writer's taking of the wait lock and its entry, at most.
    pub(crate) passed_head: usize,
    counts: [u64; LockEvent::COUNT],
}

impl Outcome {
    /// How often `event` was counted.
    pub(crate) fn count(&self, event: LockEvent) -> u64 {
        self.counts[event as usize]
    }
}

enum Resume {
    Go,
    Interrupt(usize),
}

pub(crate) struct Vcpu {
    yielder: Cell<*const Yielder<Resume, ()>>,
    token: Cell<bool>,
    pub(crate) steps: Cell<u64>,
    /// Pauses since the innermost lock operation began.
    pub(crate) pauses: Cell<u64>,
    pub(crate) halted: Cell<bool>,
    pub(crate) done: Cell<bool>,
    queued: Cell<bool>,
    doing: Cell<&'static str>,
    /// Lock operations, outermost first.
    pub(crate) phases: RefCell<Vec<Phase>>,
    /// Interrupt handlers it is in.
    handlers: Cell<u32>,
    /// Acquisitions by others since it became the head of a reader-writer lock; `None` if it is none.
    passed: Cell<Option<usize>>,
}

impl Vcpu {
    /// Whether its next step is a turn of a loop, which may wait.
    fn pauses(&self) -> bool {
        self.doing.get() == "pause"
    }

    /// Whether the scheduler may choose it.
    pub(crate) fn ready(&self) -> bool {
        !self.done.get() && (!self.halted.get() || self.token.get())
    }
}

pub(crate) struct Machine {
    pub(crate) vcpus: Vec<Vcpu>,
    running: Cell<Option<usize>>,
    spin_threshold: u32,
    numa_nodes: u64,
    millisecond: u64,
    without_nodes: Vec<usize>,
    kick: Kick,
    storage: &'static (dyn Any + Send + Sync),
    /// Addresses of the locks; see [`key`].
    locks: RefCell<Vec<Range<usize>>>,
    interrupt: RefCell<Rc<dyn Fn(usize)>>,
    preempted: Cell<[bool; MAX_VCPUS]>,
    /// Whether a lock is told that it is used in an interrupt.
    interrupts_are_told: bool,
    log: RefCell<Outcome>,
}

/// The key of a lock, or of the wait lock within it.
pub(crate) fn key(lock: usize, within: bool) -> u64 {
    1 + 2 * lock as u64 + u64::from(within)
}

thread_local! {
    static MACHINE: RefCell<Option<Rc<Machine>>> = const { RefCell::new(None) };
    static STORAGE: RefCell<HashMap<TypeId, &'static (dyn Any + Send + Sync)>> = RefCell::default();
}

fn machine() -> Rc<Machine> {
    MACHINE.with_borrow(|m| m.clone().expect("on a stepped machine"))
}

/// Per-CPU lock storage and hash table; leaked once per thread, cleared before each run.
pub(crate) struct Storage<P: Platform> {
    pub(crate) percpu: Vec<PerCpu<P>>,
    pub(crate) hash: Vec<HashSlot<P>>,
}

impl<W: LockWord> Storage<Stepper<W>> {
    /// All of whose nodes are free, but those of the CPUs in `without_nodes`.
    fn cleared(without_nodes: &[usize]) -> &'static Self {
        let any = STORAGE.with_borrow_mut(|all| {
            *all.entry(TypeId::of::<W>()).or_insert_with(|| {
                Box::leak(Box::new(Self {
                    percpu: std::iter::repeat_with(PerCpu::default)
                        .take(MAX_VCPUS)
                        .collect(),
                    hash: std::iter::repeat_with(HashSlot::default)
                        .take(HASH_SLOTS)
                        .collect(),
                }))
            })
        });
        let storage: &'static Self = any.downcast_ref().unwrap();
        for node in storage.percpu.iter().flat_map(|percpu| &percpu.nodes) {
            for field in [&node.next, &node.locked, &node.state, &node.in_use] {
                field.0.store(0, Ordering::Relaxed);
            }
        }
        for &cpu in without_nodes {
            storage.percpu[cpu].nodes[0]
                .in_use
                .0
                .store(ALL_NODES, Ordering::Relaxed);
        }
        for tag in storage.percpu.iter().flat_map(|percpu| &percpu.tags) {
            tag.0.store(0, Ordering::Relaxed);
        }
        for slot in &storage.hash {
            slot.lock.0.store(0, Ordering::Relaxed);
        }
        storage
    }
}

impl Machine {
    fn current(&self) -> (usize, &Vcpu) {
        let cpu = self.running.get().expect("called by a vCPU");
        (cpu, &self.vcpus[cpu])
    }

    /// Suspends until chosen again. True if the vCPU was interrupted meanwhile.
    fn suspend(&self, doing: &'static str) -> bool {
        let (cpu, vcpu) = self.current();
        vcpu.doing.set(doing);
        // SAFETY: a vCPU's yielder lives as long as its coroutine, on whose stack we are.
        #[allow(unsafe_code)]
        let resume = unsafe { &*vcpu.yielder.get() }.suspend(());
        vcpu.steps.set(vcpu.steps.get() + 1);
        self.note(cpu as u64);
        let Resume::Interrupt(lock) = resume else {
            return false;
        };
        vcpu.halted.set(false);
        self.log.borrow_mut().interrupts += 1;
        let handler = self.interrupt.borrow().clone();
        vcpu.handlers.set(vcpu.handlers.get() + 1);
        handler(lock);
        vcpu.handlers.set(vcpu.handlers.get() - 1);
        true
    }

    fn note(&self, what: u64) {
        let mut log = self.log.borrow_mut();
        // FNV-1a.
        log.trace = (log.trace ^ what).wrapping_mul(0x0100_0000_01b3);
    }

    fn arrived(&self) {
        let (cpu, vcpu) = self.current();
        vcpu.queued.set(true);
        self.log.borrow_mut().arrivals.push(cpu);
    }

    /// Wakes `cpu`, or lets its next halt pass.
    pub(crate) fn kick(&self, cpu: usize) {
        self.vcpus[cpu].token.set(true);
    }

    fn acquired(&self, lock: usize) {
        let (cpu, vcpu) = self.current();
        let sleeps = self.vcpus.iter().any(|other| {
            let phases = other.phases.borrow();
            other.halted.get()
                && phases.last().is_some_and(|phase| phase.begins())
                && phases.last().map(|phase| phase.lock()) == Some(lock)
        });
        let mut log = self.log.borrow_mut();
        let queued = vcpu.queued.take();
        log.acquisitions.push((cpu, lock, queued));
        log.overtakes += usize::from(sleeps && !queued);
        if let Some(passed) = vcpu.passed.take() {
            log.passed_head = log.passed_head.max(passed);
        }
        for other in &self.vcpus {
            other
                .passed
                .set(other.passed.get().map(|passed| passed + 1));
        }
    }

    fn enter(&self, phase: Phase) {
        let (_, vcpu) = self.current();
        vcpu.pauses.set(0);
        let mut phases = vcpu.phases.borrow_mut();
        let present = phases.iter_mut().rfind(|p| p.lock() == phase.lock());
        match present.filter(|_| !phase.begins()) {
            Some(present) => *present = phase,
            None => phases.push(phase),
        }
    }

    fn leave(&self, lock: usize) {
        let mut phases = self.current().1.phases.borrow_mut();
        let i = phases.iter().rposition(|p| p.lock() == lock).unwrap();
        phases.remove(i);
    }

    /// Where each vCPU is, a line for each.
    pub(crate) fn describe(&self) -> String {
        let line = |(cpu, vcpu): (usize, &Vcpu)| {
            format!(
                "vCPU {cpu}: {} at step {} ({}), {:?}\n",
                if vcpu.done.get() {
                    "done"
                } else if vcpu.halted.get() {
                    "halted"
                } else {
                    "runs"
                },
                vcpu.steps.get(),
                vcpu.doing.get(),
                vcpu.phases.borrow(),
            )
        };
        self.vcpus.iter().enumerate().map(line).collect()
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: one thread executes all vCPUs, which have their own numbers and storage, by single accesses. A run
// that unwinds drops its vCPUs before its locks. Keys are places in the list of locks.
unsafe impl<W: LockWord> Platform for Stepper<W> {
    type U32 = U32;
    type U64 = U64;
    type LockWord = W;

    fn cpu() -> u32 {
        u32::try_from(machine().current().0).unwrap()
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        let storage: &Storage<Self> = machine().storage.downcast_ref().unwrap();
        &storage.percpu[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        let storage: &Storage<Self> = machine().storage.downcast_ref().unwrap();
        &storage.hash
    }
    fn relax() {
        let machine = machine();
        let (_, vcpu) = machine.current();
        vcpu.pauses.set(vcpu.pauses.get() + 1);
        machine.suspend("pause");
    }
    fn halt_while<V: Watch>(word: &V, asleep: impl Fn(V::Value) -> bool) {
        if !asleep(word.load(Ordering::Relaxed)) {
            return;
        }
        let machine = machine();
        let (_, vcpu) = machine.current();
        // A kick that comes here leaves the token. An interrupt that comes here may use it up, so
        // the halt is over: its condition is out of date.
        if !machine.suspend("halt") && !vcpu.token.get() {
            vcpu.halted.set(true);
            machine.suspend("halted");
            vcpu.halted.set(false);
        }
        vcpu.token.set(false);
    }
    fn kick(cpu: u32) {
        machine().suspend("kick");
        let machine = machine();
        let arrives = match machine.kick {
            Kick::Sticky => true,
            Kick::Fleeting => machine.vcpus[cpu as usize].halted.get(),
            Kick::Lost => false,
        };
        if arrives {
            machine.kick(cpu as usize);
        }
    }
    fn yield_to(_: u32) {
        machine().suspend("yield");
    }
    /// Called in the same step as the access that put the vCPU in the queue.
    fn trace<L>(_: &L, event: TraceEvent) {
        match event {
            TraceEvent::QueuedBehind(_) | TraceEvent::QueuedWithTicket(_) => machine().arrived(),
            // Of a lock that has a wait lock, not of the wait lock itself.
            TraceEvent::Head if size_of::<L>() > size_of::<W>() => {
                machine().current().1.passed.set(Some(0));
            }
            _ => {}
        }
    }
    /// CPUs are dealt out to the nodes in turn.
    fn numa_node(cpu: u32) -> u32 {
        u32::try_from(u64::from(cpu) % machine().numa_nodes).unwrap()
    }
    /// A tick is a step.
    fn ticks(ns: u64) -> u64 {
        ns * machine().millisecond / 1_000_000
    }
    fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
        Some(machine().preempted.get()[cpu as usize])
    }
    fn now() -> u64 {
        machine().vcpus.iter().map(|vcpu| vcpu.steps.get()).sum()
    }
    fn pv_spin_threshold() -> u32 {
        machine().spin_threshold
    }
    fn count(event: LockEvent, n: u64) {
        machine().log.borrow_mut().counts[event as usize] += n;
    }
    fn in_interrupt() -> bool {
        let machine = machine();
        machine.interrupts_are_told && machine.current().1.handlers.get() > 0
    }
    fn lock_key<L>(lock: &L) -> u64 {
        let address = std::ptr::from_ref(lock).addr();
        let machine = machine();
        let locks = machine.locks.borrow();
        let i = locks.iter().position(|l| l.contains(&address)).unwrap();
        key(i, address > locks[i].start)
    }
}
