//! A machine for sleeping locks that is stepped by hand: every vCPU a coroutine, one access at a time,
//! as in `tests/support/stepper`, and with what those locks ask for besides: time, tasks that are killed,
//! CPUs that others want, and preemption that may or may not be known.
//!
//! Time passes with the machine's steps, [`NS_PER_STEP`] each.

#[path = "../support/stepper/atomics.rs"]
#[allow(dead_code)]
mod atomics;

use super::checks;
use super::subject::{Subject, subject};
use crate::rng::Rng;
use atomics::{Stepped, U32, U64};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use pvlock::atomic::{Atomic, Watch};
use pvlock::pv_hash::HashSlot;
use pvlock::word::PortableWord;
use pvlock::{LockEvent, LockKind, PerCpu, Platform};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The platform.
pub(crate) struct Steps;

/// So that 4 ms are 200 steps.
pub(crate) const NS_PER_STEP: u64 = 20_000;
const MAX_VCPUS: usize = 8;
const STACK_BYTES: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Outside,
    Entering(Side),
    Inside(Side),
    Leaving(Side),
}

/// What a program consists of; sections last for that many steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write(u32),
    Read(u32),
    /// Writes, then reads without letting go.
    Downgrade(u32, u32),
    /// As their namesakes, but give up when killed.
    KillableWrite(u32),
    KillableRead(u32),
    TryWrite,
    TryRead,
    Pause(u32),
}

/// A scenario and its schedule.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) kind: LockKind,
    pub(crate) programs: Vec<Vec<Op>>,
    /// The seed of a random schedule; `None`: in turns.
    pub(crate) seed: Option<u64>,
    /// Whom the hypervisor takes the CPU from, after which of its steps, and for how many of others.
    pub(crate) preempt: Vec<(usize, u64, u64)>,
    /// Unfounded wake-ups: when, and whom.
    pub(crate) wakes: Vec<(u64, usize)>,
    /// When whose task is killed.
    pub(crate) kills: Vec<(u64, usize)>,
    /// vCPUs that other tasks always want: they do not spin.
    pub(crate) impatient: Vec<usize>,
    pub(crate) preemption_is_known: bool,
}

/// What a run did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) steps: Vec<u64>,
    /// Which task got in, how, and when.
    pub(crate) entries: Vec<(usize, Side, u64)>,
    /// Acquisitions that were given up.
    pub(crate) given_up: usize,
    /// The most readers inside at once.
    pub(crate) sharing: usize,
    /// When somebody made the others leave the lock to the list, if anybody did.
    pub(crate) handoffs: Vec<u64>,
    pub(crate) time: u64,
    counts: [u64; LockEvent::COUNT],
}

impl Outcome {
    pub(crate) fn count(&self, event: LockEvent) -> u64 {
        self.counts[event as usize]
    }

    /// When `vcpu` first got in.
    pub(crate) fn entry(&self, vcpu: usize) -> u64 {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.0 == vcpu).expect("it got in").2
    }
}

pub(crate) struct Vcpu {
    yielder: Cell<*const Yielder<(), ()>>,
    token: Cell<bool>,
    halted: Cell<bool>,
    pub(crate) done: Cell<bool>,
    killed: Cell<bool>,
    steps: Cell<u64>,
    pub(crate) phase: Cell<Phase>,
}

impl Vcpu {
    pub(crate) fn sleeps(&self) -> bool {
        self.halted.get() && !self.token.get()
    }
}

pub(crate) struct Machine {
    pub(crate) vcpus: Vec<Vcpu>,
    running: Cell<Option<usize>>,
    pub(crate) percpu: &'static [PerCpu<Steps>],
    config: Config,
    preempted: Cell<[bool; MAX_VCPUS]>,
    time: Cell<u64>,
    log: RefCell<Outcome>,
}

thread_local! {
    static MACHINE: RefCell<Option<Rc<Machine>>> = const { RefCell::new(None) };
    /// Leaked once per thread, cleared before each run.
    static PERCPU: &'static [PerCpu<Steps>] =
        Box::leak((0..MAX_VCPUS).map(|_| PerCpu::default()).collect());
}

pub(crate) fn machine() -> Rc<Machine> {
    MACHINE.with_borrow(|m| m.clone().expect("on a stepped machine"))
}

impl Machine {
    fn new(config: &Config) -> Self {
        let percpu = PERCPU.with(|percpu| *percpu);
        for waiter in percpu.iter().map(|percpu| &percpu.waiter) {
            for word in [&waiter.next, &waiter.prev, &waiter.state, &waiter.granted] {
                word.store(0, Ordering::Relaxed);
            }
        }
        let vcpu = |_| Vcpu {
            yielder: Cell::new(std::ptr::null()),
            token: Cell::new(false),
            halted: Cell::new(false),
            done: Cell::new(false),
            killed: Cell::new(false),
            steps: Cell::new(0),
            phase: Cell::new(Phase::Outside),
        };
        Self {
            vcpus: (0..config.programs.len()).map(vcpu).collect(),
            running: Cell::new(None),
            percpu,
            config: config.clone(),
            preempted: Cell::default(),
            time: Cell::new(0),
            log: RefCell::new(Outcome {
                steps: vec![],
                entries: vec![],
                given_up: 0,
                sharing: 0,
                handoffs: vec![],
                time: 0,
                counts: [0; LockEvent::COUNT],
            }),
        }
    }

    fn current(&self) -> (usize, &Vcpu) {
        let cpu = self.running.get().expect("called by a vCPU");
        (cpu, &self.vcpus[cpu])
    }

    fn suspend(&self, _doing: &'static str) {
        let (_, vcpu) = self.current();
        // SAFETY: a vCPU's yielder lives as long as its coroutine, on whose stack we are.
        #[allow(unsafe_code)]
        unsafe { &*vcpu.yielder.get() }.suspend(());
        vcpu.steps.set(vcpu.steps.get() + 1);
    }

    // What the atomics tell besides, which is of no use here.
    fn note(&self, _what: u64) {}

    fn wake(&self, cpu: usize) {
        self.vcpus[cpu].token.set(true);
    }

    fn kill(&self, cpu: usize) {
        self.vcpus[cpu].killed.set(true);
        self.wake(cpu);
    }

    pub(crate) fn describe(&self) -> String {
        let line = |(cpu, vcpu): (usize, &Vcpu)| {
            let sleeps = if vcpu.sleeps() { ", sleeps" } else { "" };
            format!("vCPU {cpu}: {:?}{sleeps}\n", vcpu.phase.get())
        };
        self.vcpus.iter().enumerate().map(line).collect()
    }

    /// Does one thing, on the vCPU that runs.
    fn perform(&self, lock: &dyn Subject, op: Op) {
        match op {
            Op::Write(steps) => self.section(Side::Write, steps, lock, || {
                lock.write();
                true
            }),
            Op::KillableWrite(steps) => {
                self.section(Side::Write, steps, lock, || lock.write_killable());
            }
            Op::TryWrite => self.section(Side::Write, 1, lock, || lock.try_write()),
            Op::Read(steps) => self.section(Side::Read, steps, lock, || {
                lock.read();
                true
            }),
            Op::KillableRead(steps) => {
                self.section(Side::Read, steps, lock, || lock.read_killable());
            }
            Op::TryRead => self.section(Side::Read, 1, lock, || lock.try_read()),
            Op::Downgrade(writes, reads) => {
                let (_, vcpu) = self.current();
                vcpu.phase.set(Phase::Entering(Side::Write));
                lock.write();
                self.inside(Side::Write, writes);
                vcpu.phase.set(Phase::Leaving(Side::Write));
                lock.downgrade();
                self.inside(Side::Read, reads);
                vcpu.phase.set(Phase::Leaving(Side::Read));
                lock.read_unlock();
                vcpu.phase.set(Phase::Outside);
            }
            Op::Pause(steps) => (0..steps).for_each(|_| self.suspend("pause")),
        }
    }

    fn section(&self, side: Side, steps: u32, lock: &dyn Subject, enter: impl FnOnce() -> bool) {
        let (_, vcpu) = self.current();
        vcpu.phase.set(Phase::Entering(side));
        if enter() {
            self.inside(side, steps);
            vcpu.phase.set(Phase::Leaving(side));
            match side {
                Side::Read => lock.read_unlock(),
                Side::Write => lock.write_unlock(),
            }
        } else {
            self.log.borrow_mut().given_up += 1;
        }
        vcpu.phase.set(Phase::Outside);
    }

    fn inside(&self, side: Side, steps: u32) {
        let (cpu, vcpu) = self.current();
        vcpu.phase.set(Phase::Inside(side));
        self.log
            .borrow_mut()
            .entries
            .push((cpu, side, self.time.get()));
        (0..steps).for_each(|_| self.suspend("section"));
    }
}

/// Runs a scenario to its end, checking every invariant after every step.
pub(crate) fn run(config: &Config) -> Result<Outcome, String> {
    let machine = Rc::new(Machine::new(config));
    let lock = subject(config.kind);
    MACHINE.set(Some(machine.clone()));
    let result = schedule(&machine, &lock);
    MACHINE.set(None);
    result
}

type Body = Coroutine<(), (), ()>;

fn schedule(machine: &Rc<Machine>, lock: &Rc<dyn Subject>) -> Result<Outcome, String> {
    let config = &machine.config;
    let body = |(cpu, program): (usize, &Vec<Op>)| {
        let (program, lock, machine) = (program.clone(), lock.clone(), machine.clone());
        let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
        Body::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            machine.vcpus[cpu].yielder.set(yielder);
            for op in program {
                machine.perform(&*lock, op);
            }
            machine.vcpus[cpu].done.set(true);
        })
    };
    let mut bodies: Vec<Body> = config.programs.iter().enumerate().map(body).collect();
    let mut rng = Rng(config.seed.unwrap_or(0));
    let mut away = vec![0; bodies.len()];
    let mut fired = vec![false; config.preempt.len()];
    let mut last = usize::MAX;
    while !machine.vcpus.iter().all(|vcpu| vcpu.done.get()) {
        let now = machine.time.get();
        if now == 200_000 {
            return Err(format!("livelock\n{}", machine.describe()));
        }
        let due = |at: &&(u64, usize)| at.0 == now;
        config
            .wakes
            .iter()
            .filter(due)
            .for_each(|w| machine.wake(w.1));
        config
            .kills
            .iter()
            .filter(due)
            .for_each(|k| machine.kill(k.1));
        for (&(cpu, at, steps), fired) in config.preempt.iter().zip(&mut fired) {
            if !*fired && machine.vcpus[cpu].steps.get() == at {
                *fired = true;
                away[cpu] = now + steps;
            }
        }
        let runnable =
            |&cpu: &usize| !machine.vcpus[cpu].done.get() && !machine.vcpus[cpu].sleeps();
        let ready: Vec<usize> = (0..bodies.len()).filter(runnable).collect();
        let mut choice = ready.clone();
        choice.retain(|&cpu| away[cpu] <= now);
        if choice.is_empty() {
            // Nobody else needs the CPU of those who are away.
            for &cpu in &ready {
                away[cpu] = now;
            }
            choice = ready;
        }
        let mut preempted = [false; MAX_VCPUS];
        for (preempted, away) in preempted.iter_mut().zip(&away) {
            *preempted = *away > now;
        }
        machine.preempted.set(preempted);
        let next = match config.seed {
            _ if choice.is_empty() => return Err(format!("deadlock\n{}", machine.describe())),
            Some(_) => choice[rng.below(choice.len())],
            None => *choice
                .iter()
                .find(|&&cpu| cpu > last || last == usize::MAX)
                .unwrap_or(&choice[0]),
        };
        last = next;
        machine.running.set(Some(next));
        let body = &mut bodies[next];
        let result = catch_unwind(AssertUnwindSafe(|| body.resume(())));
        machine.running.set(None);
        if let Err(panic) = result {
            let text = panic.downcast_ref::<String>().cloned();
            return Err(text.unwrap_or_else(|| "panic".into()));
        }
        let Ok(CoroutineResult::Yield(()) | CoroutineResult::Return(())) = result else {
            unreachable!("handled above")
        };
        machine.time.set(now + 1);
        let sharing = checks::check(machine, &**lock, config.kind)
            .map_err(|what| format!("{what}, {:x?}\n{}", lock.words(), machine.describe()))?;
        let mut log = machine.log.borrow_mut();
        log.sharing = log.sharing.max(sharing);
    }
    let mut outcome = machine.log.borrow().clone();
    outcome.time = machine.time.get();
    outcome.steps = machine.vcpus.iter().map(|vcpu| vcpu.steps.get()).collect();
    Ok(outcome)
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: as of the stepper: one thread executes all tasks, which have their own numbers and storage.
unsafe impl Platform for Steps {
    type U32 = U32;
    type U64 = U64;
    type LockWord = Stepped<PortableWord<AtomicU32>>;

    fn cpu() -> u32 {
        u32::try_from(machine().current().0).unwrap()
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        &machine().percpu[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        unreachable!("the wait lock is native")
    }
    fn relax() {
        machine().suspend("pause");
    }
    fn halt_while<V: Watch>(word: &V, asleep: impl Fn(V::Value) -> bool) {
        if !asleep(word.load(Ordering::Relaxed)) {
            return;
        }
        let machine = machine();
        let (_, vcpu) = machine.current();
        // A wake-up that comes here leaves the token.
        machine.suspend("halt");
        if !vcpu.token.get() {
            vcpu.halted.set(true);
            machine.suspend("halted");
            vcpu.halted.set(false);
        }
        vcpu.token.set(false);
    }
    fn kick(cpu: u32) {
        machine().suspend("kick");
        machine().wake(cpu as usize);
    }
    fn yield_to(_: u32) {}
    fn vcpu_is_preempted(cpu: u32) -> Option<bool> {
        let machine = machine();
        let preempted = machine.preempted.get()[cpu as usize];
        machine.config.preemption_is_known.then_some(preempted)
    }
    fn now() -> u64 {
        machine().time.get()
    }
    fn ticks(ns: u64) -> u64 {
        ns / NS_PER_STEP
    }
    fn need_resched() -> bool {
        let machine = machine();
        let (cpu, _) = machine.current();
        machine.config.impatient.contains(&cpu)
    }
    fn killed() -> bool {
        machine().current().1.killed.get()
    }
    fn count(event: LockEvent, n: u64) {
        use LockEvent::{MutexHandoff, RwsemRlockHandoff, RwsemWlockHandoff};
        let machine = machine();
        let mut log = machine.log.borrow_mut();
        log.counts[event as usize] += n;
        if matches!(event, MutexHandoff | RwsemRlockHandoff | RwsemWlockHandoff) {
            log.handoffs.push(machine.time.get());
        }
    }
}
