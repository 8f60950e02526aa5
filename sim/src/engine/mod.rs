//! The machine at work: takes what is to happen in the order of time, and lets vCPUs execute.
//!
//! A vCPU is a coroutine. Executing, it has a clock of its own (`local`), which runs ahead of the
//! machine's: up to the next event it is certain that nobody else does anything, and what it has to
//! itself nobody can take away before the shortest transfer has passed after that (`limit`). When it gets
//! there, or must wait, it suspends itself, and the machine goes on.

pub(crate) mod event;
pub(crate) mod vcpu;

mod calls;
mod costs;
mod host;
mod line;
mod sched;
mod setup;

use crate::schedule::Rule;
use crate::simulation::Outcome;
use crate::spec::Spec;
use corosensei::stack::DefaultStack;
use costs::{Times, Topology, per_1024};
use event::{Events, Ps, What};
use guest::abi::{StealTime, VcpuArea};
use line::Hot;
use sched::Cpu;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use vcpu::{Doing, State, Vcpu};

pub(crate) use calls::{CallTimes, Use};
pub(crate) use setup::NewVcpu;

/// Bytes of a line.
const LINE_BYTES: usize = 64;
/// How many events happen between two looks whether the machine is to stand still.
const EVENTS_BETWEEN_LOOKS: u64 = 1024;

/// A VM.
pub(super) struct Vm {
    /// Its first vCPU, and how many there are.
    vcpus: (u32, u32),
    /// Where its region begins, how long it is, and the number of its first line.
    base: usize,
    bytes: usize,
    first_line: u32,
    /// Who was last yielded to by a pause-loop exit, by its number in the VM.
    boosted: u32,
    /// How its region is laid out.
    pub(super) layout: guest::abi::Layout,
    /// Of the tasks that are not the first of their vCPU, in order.
    task_stacks: Vec<DefaultStack>,
}

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

pub(crate) struct Engine {
    /// The clock of the executing vCPU.
    local: Ps,
    /// Until when nobody else does anything.
    horizon: Ps,
    /// Until when nobody can take a line away that no request is under way for.
    limit: Ps,
    /// Where the executing vCPU sees its region, and the number of the first line of that.
    base: usize,
    bytes: usize,
    first_line: u32,
    /// The executing vCPU, and its CPU.
    vcpu: u32,
    cpu: u32,
    /// How much longer everything takes than it should, as its core is shared, in 1/1024.
    factor: Ps,
    hit: Ps,
    rmw: Ps,
    lines: Vec<u64>,
    hot: Vec<Hot>,
    /// For each vCPU the line that it has asked for, and whether to write.
    requested: Vec<(u32, bool)>,

    /// The machine's clock.
    now: Ps,
    /// How far [`Self::run`] goes.
    end: Ps,
    executing: bool,
    /// The executing vCPU, once it suspends itself, leaves its CPU for that.
    leaves: Option<State>,
    lookahead: Ps,
    events: Events,
    /// One for each vCPU, until it has ended.
    programs: Vec<Option<Box<vcpu::Program>>>,
    vcpus: Vec<Vcpu>,
    vms: Vec<Vm>,
    cpus: Vec<Cpu>,
    topology: Topology,
    times: Times,
    jitter: Ps,
    burst: u32,
    wait_on_line: bool,
    smt_busy: Ps,
    smt_spin: Ps,
    poll_grow: Ps,
    poll_shrink: Ps,
    ple: bool,
    ple_grow: Ps,
    eevdf: bool,
    wakeup_preemption: bool,
    may_migrate: bool,
    tracing: bool,
    /// Set by somebody else when the machine is to stand still for good.
    pub(super) interrupt: Option<&'static AtomicBool>,
    rules: Vec<Rule>,
    random: u64,
    outcomes: Vec<Outcome>,
    stats: EngineStats,
}

impl Engine {
    pub(super) fn new(spec: &Spec, seed: u64, rules: Vec<Rule>, tracing: bool) -> Self {
        let costs = &spec.costs;
        let topology = Topology::new(costs);
        let mut times = Times::new(costs);
        let jitter = per_1024(costs.jitter);
        let cpus = topology.places.len();
        let on = |switch: f64| switch != 0.0;
        let virtual_machine = on(costs.virtual_machine);
        if !virtual_machine {
            // Nothing leaves a guest where there is none.
            times.exit_ns = 0;
            times.entry_ns = 0;
        }
        // A transfer may take that much less than its length.
        let lookahead = topology.nearest.min(times.memory_ns);
        let lookahead = lookahead - lookahead * jitter / 1024;
        let mut engine = Self {
            local: 0,
            horizon: 0,
            limit: 0,
            base: 0,
            bytes: 0,
            first_line: 0,
            vcpu: 0,
            cpu: 0,
            factor: 1024,
            hit: times.hit_ns,
            rmw: times.rmw_ns,
            lines: Vec::new(),
            hot: Vec::new(),
            requested: Vec::new(),
            now: 0,
            end: 0,
            executing: false,
            leaves: None,
            lookahead,
            events: Events::default(),
            programs: Vec::new(),
            vcpus: Vec::new(),
            vms: Vec::new(),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            topology,
            jitter,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be from 0 to 10^6"
            )]
            burst: costs.burst as u32,
            wait_on_line: on(costs.wait_on_line),
            smt_busy: per_1024(costs.smt_busy) - 1024,
            smt_spin: per_1024(costs.smt_spin) - 1024,
            poll_grow: per_1024(costs.halt_poll_grow),
            poll_shrink: per_1024(costs.halt_poll_shrink),
            ple: on(costs.ple) && virtual_machine,
            ple_grow: per_1024(costs.ple_grow),
            eevdf: on(costs.eevdf),
            wakeup_preemption: on(costs.wakeup_preemption),
            may_migrate: false,
            tracing,
            interrupt: None,
            rules,
            // Never 0, which the generator could not leave.
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            outcomes: Vec::new(),
            stats: EngineStats::default(),
            times,
        };
        if engine.times.balance_ns > 0 {
            let first = engine.times.balance_ns;
            engine.events.push(first, What::Balance, 0);
        }
        engine
    }

    /// Runs `engine` until `end`, or until nothing is left to happen.
    ///
    /// # Safety
    /// `engine` is valid, and nobody else uses it meanwhile but the programs that run on it, each of
    /// which has no reference into it while it is suspended.
    #[allow(unsafe_code)] // The programs use the engine too, in turn.
    pub(super) unsafe fn run(engine: *mut Self, end: Ps) {
        // SAFETY: the caller's promise. None of the references made here is used once a program executes.
        let machine = || unsafe { &mut *engine };
        if machine().is_interrupted() {
            return;
        }
        machine().end = end;
        loop {
            let e = machine();
            if e.events.next_at().is_none_or(|at| at > end) {
                break;
            }
            let Some(event) = e.events.pop() else { break };
            e.now = event.at;
            e.stats.events += 1;
            if e.stats.events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && e.is_interrupted() {
                // What was to happen now never does: the machine stands still from here on.
                return;
            }
            let id = event.id;
            let valid = |e: &Self| e.vcpus[id as usize].arranged == event.order;
            let goes_on = match event.what {
                What::Step => valid(e).then_some(id),
                What::Notices => (valid(e) && e.looks_again(id)).then_some(id),
                What::Grant => {
                    e.grant(id);
                    Some(id)
                }
                What::SpinEnds => {
                    if valid(e) {
                        e.spin_ends(id);
                    }
                    None
                }
                What::Wake => {
                    e.wake(id);
                    None
                }
                What::Timer => {
                    e.come_back(id);
                    None
                }
                What::PollEnds => {
                    if valid(e) {
                        e.end_poll(id);
                    }
                    None
                }
                What::Tick => {
                    e.tick(id);
                    None
                }
                What::CpuAwake => {
                    e.cpu_awake(id);
                    None
                }
                What::Balance => {
                    e.balance();
                    None
                }
            };
            if let Some(vcpu) = goes_on
                && let Some(program) = e.prepare(vcpu)
            {
                // SAFETY: a box of its own, which only this loop touches while there are programs.
                let result = unsafe { &mut *program }.resume(());
                machine().suspended(vcpu, result.as_return().is_some());
            }
        }
        let e = machine();
        e.now = e.now.max(end);
    }

    /// Whether somebody wants it to stand still.
    fn is_interrupted(&self) -> bool {
        // Relaxed: nothing depends on when it is seen.
        self.interrupt
            .is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// `vcpu` goes on.
    #[inline(always)]
    fn prepare(&mut self, vcpu: u32) -> Option<*mut vcpu::Program> {
        let v = &self.vcpus[vcpu as usize];
        let program = ptr::from_mut(&mut **self.programs[vcpu as usize].as_mut()?);
        let (vm, cpu) = (v.vm as usize, v.cpu);
        debug_assert_eq!(self.cpus[cpu as usize].current, Some(vcpu));
        self.vcpu = vcpu;
        self.cpu = cpu;
        self.local = self.now;
        self.set_horizon();
        let vm = &self.vms[vm];
        self.base = vm.base;
        self.bytes = vm.bytes;
        self.first_line = vm.first_line;
        if self.topology.threads() > 1 {
            let factor = self.factor_of(cpu);
            if factor != self.factor {
                self.factor = factor;
                self.hit = self.times.hit_ns * factor / 1024;
                self.rmw = self.times.rmw_ns * factor / 1024;
            }
        }
        self.executing = true;
        let v = &self.vcpus[vcpu as usize];
        crate::platform::set_current(v.area, v.yielder);
        Some(program)
    }

    /// `vcpu` has suspended itself, or ended.
    #[inline(always)]
    fn suspended(&mut self, vcpu: u32, ended: bool) {
        self.executing = false;
        let cpu = self.cpu;
        if ended {
            self.programs[vcpu as usize] = None;
            let v = &mut self.vcpus[vcpu as usize];
            v.is_guest = false;
            v.doing = Doing::Nothing;
            self.give_up(cpu, State::Done);
            return;
        }
        if let Some(state) = self.leaves.take() {
            self.give_up(cpu, state);
        } else if self.cpus[cpu as usize].resched {
            self.reschedule(cpu);
        }
    }

    fn set_horizon(&mut self) {
        let next = self.events.next_at().unwrap_or(Ps::MAX);
        self.horizon = next.min(self.end);
        self.limit = self.horizon.saturating_add(self.lookahead);
        if self.cpus[self.cpu as usize].resched {
            self.horizon = 0;
            self.limit = 0;
        }
    }

    /// The executing vCPU has done something that may have made others act.
    pub(crate) fn refresh(&mut self) {
        self.set_horizon();
    }

    fn factor_of(&self, cpu: u32) -> Ps {
        let siblings = self.topology.siblings(cpu);
        let slows = |c: usize| match self.cpus[c].current {
            None => 0,
            Some(v) => match self.vcpus[v as usize].doing {
                Doing::Spins { .. } | Doing::Polls | Doing::WaitsForLine => self.smt_spin,
                _ => self.smt_busy,
            },
        };
        1024 + siblings.map(slows).sum::<Ps>()
    }

    /// `vcpu`, which is on a CPU, goes on at `at`.
    fn arrange_step(&mut self, vcpu: u32, at: Ps) {
        let v = &mut self.vcpus[vcpu as usize];
        v.arranged = 0;
        v.doing = Doing::Computes { until: at };
        if v.is_guest {
            v.arranged = self.events.push(at, What::Step, vcpu);
        }
    }

    /// Accounts for `spun` of spinning; `left` was to be spun at most.
    fn spun(&mut self, vcpu: u32, spun: Ps, left: Ps) {
        let now = self.now;
        let v = &mut self.vcpus[vcpu as usize];
        v.spin_left = left.saturating_sub(spun);
        v.ple_left = v.ple_left.saturating_sub(spun);
        v.paused_at = now;
    }

    /// A random number below `bound`; 0 if that is 0.
    fn random_below(&mut self, bound: Ps) -> Ps {
        // xorshift64* (Vigna 2016).
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        let x = x.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(x) * u128::from(bound)) >> 64) as Ps
    }

    fn jittered(&mut self, time: Ps) -> Ps {
        let span = time * self.jitter / 1024;
        time - span + self.random_below(2 * span + 1)
    }

    /// Shows a vCPU's VM its steal time, as KVM does.
    fn report_steal(&mut self, vcpu: u32, queued_ns: u64, preempted: bool) {
        let v = &self.vcpus[vcpu as usize];
        if v.area == 0 {
            return;
        }
        let steal: &StealTime = &area_of(v.area).steal;
        steal.steal_ns.store(queued_ns, Relaxed);
        steal.version.store(2, Relaxed);
        steal.preempted.store(preempted.into(), Relaxed);
    }
}

/// The area at `address`.
#[allow(unsafe_code)] // By its address.
fn area_of(address: usize) -> &'static VcpuArea {
    // SAFETY: given by whoever made the VM, for as long as the simulation lives.
    unsafe { guest::machine::vcpu_at(address) }
}
