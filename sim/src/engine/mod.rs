//! The machine at work: takes what is to happen in the order of time, and lets vCPUs execute.
//!
//! The engine owns the clock and what is arranged ([`Agenda`]), the programs, and the parts of the machine:
//! [`Coherence`], [`Scheduler`] and [`Hypervisor`], which know nothing of each other. It tells each part what
//! happens, and does to the others what follows from the answer.
//!
//! A vCPU is a coroutine. Executing, it has a clock of its own ([`Turn`]), which runs ahead of the
//! machine's: up to the next event it is certain that nobody else does anything, and what it has to
//! itself nobody can take away before the shortest transfer has passed after that. When it gets
//! there, or must wait, it suspends itself, and the machine goes on.

mod calls;
mod describe;
mod dispatch;
mod execution;
mod hypercalls;
mod lines;
mod setup;
mod turn;

use crate::agenda::{Agenda, Chance, What};
use crate::coherence::Coherence;
use crate::hypervisor::Hypervisor;
use crate::outcome::Outcome;
use crate::schedule::Rule;
use crate::scheduler::Scheduler;
use crate::spec::Spec;
use crate::topology::Topology;
use crate::units::{Ps, per_1024, times};
use execution::{Doing, Execution, Program, Tenant};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use turn::Turn;

pub(crate) use lines::Use;
pub(crate) use setup::NewVcpu;

/// How many events happen between two looks whether the machine is to stand still.
const EVENTS_BETWEEN_LOOKS: u64 = 1024;

times!(
    /// What waits and hypercalls take.
    CallTimes { hit_ns, fence_ns, pause_ns, loop_ns, syscall_ns, clock_ns, exit_ns, entry_ns, kick_ns, timer_slack_ns }
);

/// What the machine has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Events.
    pub events: u64,
    /// Requests for lines.
    pub requests: u64,
    /// Atomic operations.
    pub operations: u64,
}

/// What a CPU is slowed down by each other of its core, in 1/1024.
struct Smt {
    busy: Ps,
    spins: Ps,
}

pub(crate) struct Engine {
    pub(crate) turn: Turn,
    pub(crate) times: CallTimes,
    coherence: Coherence,
    scheduler: Scheduler,
    hypervisor: Hypervisor,
    agenda: Agenda,
    /// How far [`Self::run`] goes.
    end: Ps,
    /// The least that a transfer takes.
    lookahead: Ps,
    /// One of each vCPU.
    executions: Vec<Execution>,
    tenants: Vec<Tenant>,
    topology: Rc<Topology>,
    smt: Smt,
    wait_on_line: bool,
    llsc: bool,
    /// Set by somebody else when the machine is to stand still for good.
    pub(crate) interrupt: Option<&'static AtomicBool>,
    outcomes: Vec<Outcome>,
    events: u64,
}

impl Engine {
    pub(crate) fn new(spec: &Spec, seed: u64, rules: Vec<Rule>, tracing: bool) -> Self {
        let costs = &spec.costs;
        let topology = Rc::new(Topology::new(costs));
        let mut times = CallTimes::new(costs);
        let jitter = per_1024(costs.jitter);
        if costs.virtual_machine == 0.0 {
            // Nothing leaves a guest where there is none.
            times.exit_ns = 0;
            times.entry_ns = 0;
        }
        let mut engine = Self {
            turn: Turn::new(costs),
            times,
            coherence: Coherence::new(costs, Rc::clone(&topology)),
            scheduler: Scheduler::new(costs, Rc::clone(&topology), tracing),
            hypervisor: Hypervisor::new(costs, rules, tracing),
            agenda: Agenda::new(Chance::new(seed, jitter)),
            end: 0,
            // A transfer may take that much less than its length, and the line stays for a part of it only.
            lookahead: (topology.nearest - topology.nearest * jitter / 1024) * per_1024(costs.kept)
                / 1024,
            executions: Vec::new(),
            tenants: Vec::new(),
            topology,
            smt: Smt {
                busy: per_1024(costs.smt_busy) - 1024,
                spins: per_1024(costs.smt_spin) - 1024,
            },
            wait_on_line: costs.wait_on_line != 0.0,
            llsc: costs.llsc != 0.0,
            interrupt: None,
            outcomes: Vec::new(),
            events: 0,
        };
        engine.scheduler.arrange_balance(&mut engine.agenda);
        engine
    }

    /// Runs `engine` until `end`, or until nothing is left to happen.
    ///
    /// # Safety
    /// `engine` is valid, and nobody else uses it meanwhile but the programs that run on it, each of
    /// which has no reference into it while it is suspended.
    #[allow(unsafe_code)] // The programs use the engine too, in turn.
    pub(crate) unsafe fn run(engine: *mut Self, end: Ps) {
        // SAFETY: the caller's promise. None of the references made here is used once a program executes.
        let machine = || unsafe { &mut *engine };
        if machine().is_interrupted() {
            return;
        }
        machine().end = end;
        loop {
            let e = machine();
            let Some(due) = e.agenda.next(end) else { break };
            e.events += 1;
            if e.events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && e.is_interrupted() {
                // What was to happen now never does: the machine stands still from here on.
                return;
            }
            let id = due.id;
            let valid = |e: &Self| e.executions[id as usize].arranged == due.order;
            let mut goes_on = None;
            match due.what {
                What::Step if valid(e) => goes_on = Some(id),
                What::Notices if valid(e) && e.looks_again(id) => goes_on = Some(id),
                What::SpinEnds if valid(e) => e.spin_ends(id),
                What::PollEnds if valid(e) => e.end_poll(id),
                What::Step | What::Notices | What::SpinEnds | What::PollEnds => {}
                What::Grant => {
                    e.grant(id);
                    goes_on = Some(id);
                }
                What::Wake => e.wake(id),
                What::Timer => e.come_back(id),
                What::Tick => e.tick(id),
                What::CpuAwake => e.cpu_awake(id),
                What::Balance => e.balance(),
            }
            if let Some(vcpu) = goes_on
                && let Some(program) = e.prepare(vcpu)
            {
                // SAFETY: a box of its own, which only this loop touches while there are programs.
                let result = unsafe { &mut *program }.resume(());
                machine().suspended(vcpu, result.as_return().is_some());
            }
        }
        let now = &mut machine().agenda.now;
        *now = end.max(*now);
    }

    /// Whether somebody wants it to stand still.
    fn is_interrupted(&self) -> bool {
        // Relaxed: nothing depends on when it is seen.
        self.interrupt
            .is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// `vcpu` goes on.
    #[inline(always)]
    fn prepare(&mut self, vcpu: u32) -> Option<*mut Program> {
        let execution = &mut self.executions[vcpu as usize];
        let program = ptr::from_mut(&mut **execution.program.as_mut()?);
        let cpu = self.scheduler.cpu_of(vcpu);
        debug_assert_eq!(self.scheduler.current(cpu), Some(vcpu));
        let window = self.tenants[execution.vm as usize].window;
        crate::executing::set_current(execution.area, execution.yielder);
        self.turn.begin(vcpu, cpu, window, self.agenda.now);
        self.refresh();
        if self.topology.threads() > 1 {
            self.turn.slow_down(self.factor_of(cpu));
        }
        Some(program)
    }

    /// `vcpu` has suspended itself, or ended.
    #[inline(always)]
    fn suspended(&mut self, vcpu: u32, ended: bool) {
        let (cpu, leaves) = self.turn.end();
        if ended {
            self.end(vcpu, cpu);
        } else if let Some(state) = leaves {
            self.give_up(cpu, state);
        } else if self.scheduler.is_due(cpu) && !self.is_masked(vcpu) {
            self.reschedule(cpu);
        }
    }

    /// The executing vCPU has done something that may have made others act.
    pub(crate) fn refresh(&mut self) {
        if self.scheduler.is_due(self.turn.cpu()) && !self.is_masked(self.turn.vcpu()) {
            self.turn.hurry();
        } else {
            let next = self.agenda.next_at().unwrap_or(Ps::MAX);
            self.turn.set_horizon(next.min(self.end), self.lookahead);
        }
    }

    fn factor_of(&self, cpu: u32) -> Ps {
        let siblings = self.topology.siblings(cpu);
        let slows = |cpu: u32| match self.scheduler.current(cpu) {
            None => 0,
            Some(vcpu) => match self.executions[vcpu as usize].doing {
                Doing::Spins { .. } | Doing::Polls | Doing::WaitsForLine => self.smt.spins,
                _ => self.smt.busy,
            },
        };
        1024 + siblings.map(slows).sum::<Ps>()
    }

    /// Whether `vcpu` takes no interrupts.
    fn is_masked(&self, vcpu: u32) -> bool {
        self.executions[vcpu as usize].masked
    }

    /// The executing vCPU takes no interrupts any more, or does again: whether one has come meanwhile, so that
    /// it is to suspend itself.
    pub(crate) fn mask(&mut self, masked: bool) -> bool {
        let vcpu = self.turn.vcpu();
        self.execution(vcpu).masked = masked;
        !masked && self.scheduler.is_due(self.turn.cpu())
    }

    /// A time that varies from half as long to half as long again, as that of instructions does.
    pub(crate) fn varied(&mut self, time: Ps) -> Ps {
        time / 2 + self.agenda.chance.below(time + 1)
    }

    fn execution(&mut self, vcpu: u32) -> &mut Execution {
        &mut self.executions[vcpu as usize]
    }

    /// `vcpu`, which is on a CPU, computes until `at`, and `what` happens then.
    fn computes_until(&mut self, vcpu: u32, at: Ps, what: What) {
        let execution = &mut self.executions[vcpu as usize];
        execution.doing = Doing::Computes { until: at };
        execution.arranged = if execution.program.is_some() {
            self.agenda.arrange(at, what, vcpu)
        } else {
            0
        };
    }

    /// `vcpu`, which is on a CPU, goes on at `at`.
    fn arrange_step(&mut self, vcpu: u32, at: Ps) {
        self.computes_until(vcpu, at, What::Step);
    }

    /// The executing vCPU's clock is ahead of the machine's, which is to catch up.
    #[cold]
    pub(crate) fn computes(&mut self) {
        self.arrange_step(self.turn.vcpu(), self.turn.local());
    }

    /// The machine's clock is to be that of the vCPU, which nobody is before.
    pub(crate) fn synchronize(&mut self) {
        self.agenda.now = self.turn.local();
    }
}
