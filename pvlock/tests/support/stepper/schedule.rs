//! The loop that runs a scenario under its schedule.

use super::pct::Pct;
use super::scenario::{Config, Interrupt, Op, Order, When, reads, section};
use super::subject::{Exclusive, Shared, Subject};
use super::{
    Failure, MACHINE, MAX_VCPUS, Machine, Outcome, Phase, Resume, Stepper, Storage, Vcpu,
    invariants, mixed,
};
use crate::rng::Rng;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use pvlock::word::LockWord;
use pvlock::{LockEvent, LockVisitor, RawLock, RawRwLock, RwLockVisitor};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const STACK_BYTES: usize = 128 << 10;

/// Runs a scenario to its end, checking every invariant after every step.
pub(crate) fn run<W: LockWord>(config: &Config) -> Result<Outcome, Failure> {
    if !config.mixed.is_empty() {
        return mixed::run::<W>(config);
    }
    let shared = config.kind.visit_rw::<Stepper<W>, _>(Visit(config));
    shared.unwrap_or_else(|| config.kind.visit::<Stepper<W>, _>(Visit(config)))
}

struct Visit<'a>(&'a Config);

impl<W: LockWord> LockVisitor<Stepper<W>> for Visit<'_> {
    type Output = Result<Outcome, Failure>;

    fn visit<L: RawLock>(self) -> Self::Output {
        run_on::<W, Exclusive<L>>(self.0)
    }
}

impl<W: LockWord> RwLockVisitor<Stepper<W>> for Visit<'_> {
    type Output = Result<Outcome, Failure>;

    fn visit<L: RawRwLock>(self) -> Self::Output {
        run_on::<W, Shared<L>>(self.0)
    }
}

pub(super) fn run_on<W: LockWord, L: Subject>(config: &Config) -> Result<Outcome, Failure> {
    let locks: Rc<[L]> = std::iter::repeat_with(L::new).take(config.locks).collect();
    let machine = Rc::new(Machine::new::<W, L>(config, &locks));
    MACHINE.set(Some(machine.clone()));
    let result = Scheduler::new(config, machine, locks).run::<W>();
    MACHINE.set(None);
    result
}

impl Machine {
    pub(super) fn new<W: LockWord, L: Subject>(config: &Config, locks: &Rc<[L]>) -> Self {
        let vcpu = || Vcpu {
            yielder: Cell::new(std::ptr::null()),
            token: Cell::new(false),
            steps: Cell::new(0),
            pauses: Cell::new(0),
            halted: Cell::new(false),
            done: Cell::new(false),
            queued: Cell::new(false),
            doing: Cell::new("start"),
            phases: RefCell::default(),
            handlers: Cell::new(0),
            passed: Cell::new(None),
        };
        let vcpus = config.programs.len();
        assert!(vcpus <= MAX_VCPUS);
        let handler_locks = locks.clone();
        let handler_section = if config.interrupts_read {
            reads
        } else {
            section
        };
        let handler = move |lock: usize| {
            for op in handler_section(lock, 1) {
                perform(op, &handler_locks);
            }
        };
        Self {
            vcpus: std::iter::repeat_with(vcpu).take(vcpus).collect(),
            running: Cell::new(None),
            spin_threshold: config.spin_threshold,
            numa_nodes: config.numa_nodes,
            millisecond: config.millisecond,
            kick: config.kick,
            storage: Storage::<Stepper<W>>::cleared(&config.without_nodes),
            without_nodes: config.without_nodes.clone(),
            locks: RefCell::new(
                locks
                    .iter()
                    .map(|l| std::ptr::from_ref(l).addr())
                    .map(|at| at..at + size_of::<L>())
                    .collect(),
            ),
            interrupt: RefCell::new(Rc::new(handler)),
            preempted: Cell::default(),
            interrupts_are_told: config.interrupts_are_told,
            log: RefCell::new(Outcome {
                trace: 0xcbf2_9ce4_8422_2325,
                steps: vec![],
                acquisitions: vec![],
                arrivals: vec![],
                overtakes: 0,
                interrupts: 0,
                sharing: 0,
                passed_head: 0,
                counts: [0; LockEvent::COUNT],
            }),
        }
    }
}

/// Asks for a lock by `acquire`, with the phases before and after; whether it has got it.
fn ask(
    lock: usize,
    [asks, holds]: [fn(usize) -> Phase; 2],
    acquire: impl FnOnce() -> bool,
) -> bool {
    let machine = super::machine();
    machine.enter(asks(lock));
    let taken = acquire();
    if taken {
        machine.enter(holds(lock));
        machine.acquired(lock);
    } else {
        machine.leave(lock);
    }
    taken
}

/// Does one thing, on the vCPU that runs.
fn perform<L: Subject>(op: Op, locks: &[L]) {
    const WRITE: [fn(usize) -> Phase; 2] = [Phase::Locking, Phase::Holding];
    const READ: [fn(usize) -> Phase; 2] = [Phase::ReadLocking, Phase::Reading];
    let machine = super::machine();
    let took = |taken, unlock| {
        if taken {
            machine.suspend("section");
            perform(unlock, locks);
        }
    };
    match op {
        Op::Lock(lock) => {
            ask(lock, WRITE, || {
                locks[lock].lock();
                true
            });
        }
        Op::Unlock(lock) => {
            machine.enter(Phase::Unlocking(lock));
            locks[lock].unlock();
            machine.leave(lock);
        }
        Op::Try(lock) => took(
            ask(lock, WRITE, || locks[lock].try_lock()),
            Op::Unlock(lock),
        ),
        Op::Read(lock) => {
            ask(lock, READ, || {
                locks[lock].read();
                true
            });
        }
        Op::ReadUnlock(lock) => {
            machine.enter(Phase::ReadUnlocking(lock));
            locks[lock].read_unlock();
            machine.leave(lock);
        }
        Op::TryRead(lock) => took(
            ask(lock, READ, || locks[lock].try_read()),
            Op::ReadUnlock(lock),
        ),
        Op::Pause(steps) => {
            for _ in 0..steps {
                machine.suspend("section");
            }
        }
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_default()
}

pub(super) type Body = Coroutine<Resume, (), ()>;

struct Scheduler<'a, L> {
    config: &'a Config,
    // Before the machine: a coroutine that is given up unwinds.
    bodies: Vec<Body>,
    machine: Rc<Machine>,
    locks: Rc<[L]>,
    rng: Rng,
    pct: Pct,
    script: std::vec::IntoIter<usize>,
    last: usize,
    /// Since when nobody has got a lock, for [`Order::Against`].
    fruitless: (usize, u64),
    time: u64,
    /// Until when each vCPU is descheduled.
    away: Vec<u64>,
    /// Which of the preemptions have begun.
    preempted: Vec<bool>,
    interrupts: Vec<Interrupt>,
}

impl<'a, L: Subject> Scheduler<'a, L> {
    fn new(config: &'a Config, machine: Rc<Machine>, locks: Rc<[L]>) -> Self {
        let (seed, script) = match &config.order {
            Order::Random(seed) | Order::Pct { seed, .. } => (*seed, vec![]),
            Order::RoundRobin | Order::Against(_) | Order::Switches(_) => (0, vec![]),
            Order::Script(script) => (0, script.clone()),
        };
        let body = |(cpu, program): (usize, &Vec<Op>)| {
            let (program, locks, machine) = (program.clone(), locks.clone(), machine.clone());
            let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
            Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, ()>, _| {
                machine.vcpus[cpu].yielder.set(yielder);
                for op in program {
                    perform(op, &locks);
                }
                machine.vcpus[cpu].done.set(true);
            })
        };
        let mut rng = Rng(seed);
        Self {
            pct: Pct::new(config, &mut rng),
            config,
            bodies: config.programs.iter().enumerate().map(body).collect(),
            rng,
            script: script.into_iter(),
            last: usize::MAX,
            fruitless: (0, 0),
            time: 0,
            away: vec![0; config.programs.len()],
            preempted: vec![false; config.preempt.len()],
            interrupts: config.interrupts.clone(),
            machine,
            locks,
        }
    }

    fn run<W: LockWord>(mut self) -> Result<Outcome, Failure> {
        while !self.machine.vcpus.iter().all(|vcpu| vcpu.done.get()) {
            if self.time == self.config.step_limit {
                return Err(Failure::Livelock(self.machine.describe()));
            }
            for &(_, cpu) in self.config.kicks.iter().filter(|(at, _)| *at == self.time) {
                self.machine.kick(cpu);
            }
            let Some(cpu) = self.choose() else {
                return Err(Failure::Deadlock(self.machine.describe()));
            };
            let resume = self.due(cpu).map_or(Resume::Go, |i| {
                Resume::Interrupt(self.interrupts.remove(i).lock)
            });
            self.machine.running.set(Some(cpu));
            let body = &mut self.bodies[cpu];
            let result = catch_unwind(AssertUnwindSafe(|| body.resume(resume)));
            self.machine.running.set(None);
            match result {
                Ok(CoroutineResult::Yield(()) | CoroutineResult::Return(())) => {}
                Err(panic) => {
                    return Err(Failure::Panic(panic_text(&*panic)));
                }
            }
            self.time += 1;
            let check = if self.config.mixed.is_empty() {
                invariants::check::<W, L>
            } else {
                invariants::check_mixed::<W, L>
            };
            check(self.config.kind, &self.machine, &self.locks)?;
            let mut log = self.machine.log.borrow_mut();
            log.sharing = log.sharing.max(invariants::sharing(&self.machine));
        }
        let mut outcome = self.machine.log.borrow().clone();
        outcome.steps = self
            .machine
            .vcpus
            .iter()
            .map(|vcpu| vcpu.steps.get())
            .collect();
        Ok(outcome)
    }

    /// The interrupt that `cpu` is to take now.
    fn due(&self, cpu: usize) -> Option<usize> {
        let vcpu = &self.machine.vcpus[cpu];
        let i = self.interrupts.iter().position(|i| i.vcpu == cpu)?;
        let due = match self.interrupts[i].when {
            When::Step(at) => vcpu.steps.get() >= at,
            When::Pauses(n) => vcpu.pauses.get() >= n,
        };
        (due && !vcpu.done.get() && !vcpu.yielder.get().is_null()).then_some(i)
    }

    fn choose(&mut self) -> Option<usize> {
        let vcpus = &self.machine.vcpus;
        for (preempt, fired) in self.config.preempt.iter().zip(&mut self.preempted) {
            // Exactly when it gets there: it takes no further step until it is back.
            if !*fired && vcpus[preempt.vcpu].steps.get() == preempt.at {
                *fired = true;
                self.away[preempt.vcpu] = self.time + preempt.steps;
            }
        }
        let ready: Vec<usize> = (0..vcpus.len())
            .filter(|&cpu| vcpus[cpu].ready() || self.due(cpu).is_some())
            .collect();
        let here = |&cpu: &usize| self.away[cpu] <= self.time;
        let mut preempted = [false; MAX_VCPUS];
        for (flag, &away) in preempted.iter_mut().zip(&self.away) {
            *flag = away > self.time;
        }
        self.machine.preempted.set(preempted);
        let mut choice: Vec<usize> = ready.iter().copied().filter(here).collect();
        if choice.is_empty() {
            // All others sleep or are done, so the hypervisor has a CPU for the one it had stopped.
            choice = ready;
            for &cpu in &choice {
                self.away[cpu] = self.time;
            }
        }
        if choice.is_empty() {
            return None;
        }
        let next = match self.config.order {
            Order::Random(_) => choice[self.rng.below(choice.len())],
            Order::Against(victim) => self.choose_against(victim, &choice),
            Order::Pct { .. } => self.pct.choose(self.time, &self.machine, &choice),
            Order::Switches(ref switches) => {
                let due = switches.iter().find(|(at, _)| *at == self.time);
                let goes_on = |&cpu: &usize| cpu == self.last && !vcpus[cpu].pauses();
                let round_robin = || choice.iter().copied().find(|&cpu| cpu > self.last);
                due.map(|&(_, cpu)| cpu)
                    .filter(|cpu| choice.contains(cpu))
                    .or_else(|| choice.iter().copied().find(goes_on))
                    .or_else(round_robin)
                    .unwrap_or(choice[0])
            }
            Order::RoundRobin | Order::Script(_) => self
                .script
                .find(|cpu| choice.contains(cpu))
                .or_else(|| choice.iter().copied().find(|&cpu| cpu > self.last))
                .unwrap_or(choice[0]),
        };
        self.last = next;
        Some(next)
    }

    fn choose_against(&mut self, victim: usize, choice: &[usize]) -> usize {
        /// Longer than any acquisition that does not wait.
        const FRUITLESS: u64 = 40;
        let acquisitions = self.machine.log.borrow().acquisitions.len();
        if self.fruitless.0 != acquisitions {
            self.fruitless = (acquisitions, self.time);
        }
        let round_robin = |choice: &[usize]| {
            let later = choice.iter().copied().find(|&cpu| cpu > self.last);
            later.unwrap_or(choice[0])
        };
        if self.time - self.fruitless.1 > FRUITLESS {
            return round_robin(choice);
        }
        let is = |cpu: usize, wanted: fn(&Phase) -> bool| {
            let phases = self.machine.vcpus[cpu].phases.borrow();
            phases.iter().any(wanted)
        };
        let others: Vec<usize> = choice.iter().copied().filter(|&c| c != victim).collect();
        let writes = others
            .iter()
            .any(|&cpu| is(cpu, |p| matches!(p, Phase::Holding(_))));
        if others.is_empty() || (writes && self.last != victim && choice.contains(&victim)) {
            return victim;
        }
        let busy = others.iter().copied().find(|&cpu| is(cpu, |_| true));
        busy.unwrap_or_else(|| round_robin(&others))
    }
}
