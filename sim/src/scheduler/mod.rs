//! The host's scheduler: which vCPU is on which CPU. It decides and keeps account; what a vCPU does with its
//! CPU is the engine's affair.

mod cpu;
mod eevdf;
mod policy;
mod thread;

pub(crate) use thread::State;

use crate::agenda::{Agenda, What};
use crate::parameters::Costs;
use crate::topology::Topology;
use crate::units::{NS, Ps, times};
use abi::{StealTime, Switch, SwitchKind};
use cpu::Cpu;
use eevdf::Eevdf;
use policy::{InTurn, Policy};
use std::cmp::Reverse;
use std::rc::Rc;
use thread::Thread;

times!(Times {
    idle_exit_ns,
    deep_idle_after_ns,
    deep_idle_exit_ns,
    slice_ns,
    tick_ns,
    tick_jitter_ns,
    switch_ns,
    migration_ns,
    balance_ns,
});

pub(crate) struct Scheduler {
    topology: Rc<Topology>,
    times: Times,
    policy: Box<dyn Policy>,
    cpus: Vec<Cpu>,
    /// One of each vCPU.
    threads: Vec<Thread>,
    may_migrate: bool,
    /// Whether switches are noted.
    tracing: bool,
}

impl Scheduler {
    pub(crate) fn new(costs: &Costs, topology: Rc<Topology>, tracing: bool) -> Self {
        let policy: Box<dyn Policy> = if costs.eevdf == 0.0 {
            Box::new(InTurn)
        } else {
            Box::new(Eevdf::new(costs))
        };
        Self {
            times: Times::new(costs),
            policy,
            cpus: (0..topology.cpus()).map(|_| Cpu::default()).collect(),
            threads: Vec::new(),
            may_migrate: false,
            tracing,
            topology,
        }
    }

    /// A vCPU more: number `own` of `vm`, or of none, which may run on `allowed`.
    pub(crate) fn add_vcpu(
        &mut self,
        vm: Option<u32>,
        own: usize,
        allowed: Box<[u32]>,
        steal: Option<&'static StealTime>,
        now: Ps,
    ) {
        self.may_migrate |= allowed.len() > 1;
        self.policy.add_vcpu();
        self.threads.push(Thread::new(vm, own, allowed, steal, now));
    }

    fn cpu(&self, cpu: u32) -> &Cpu {
        &self.cpus[cpu as usize]
    }

    fn thread(&self, vcpu: u32) -> &Thread {
        &self.threads[vcpu as usize]
    }

    pub(crate) fn state(&self, vcpu: u32) -> State {
        self.thread(vcpu).state
    }

    /// The CPU that `vcpu` is on, or was last, or waits for.
    #[inline(always)]
    pub(crate) fn cpu_of(&self, vcpu: u32) -> u32 {
        self.thread(vcpu).cpu
    }

    /// The vCPU that is on `cpu`.
    #[inline(always)]
    pub(crate) fn current(&self, cpu: u32) -> Option<u32> {
        self.cpu(cpu).current
    }

    /// Whether `cpu` is to look at its queue as soon as it can.
    #[inline(always)]
    pub(crate) fn is_due(&self, cpu: u32) -> bool {
        self.cpu(cpu).is_due
    }

    pub(crate) fn set_due(&mut self, cpu: u32, is_due: bool) {
        self.cpus[cpu as usize].is_due = is_due;
    }

    /// Whether somebody waits for the vCPU that is on `cpu`.
    pub(crate) fn is_wanted(&self, cpu: u32) -> bool {
        self.cpu(cpu).is_wanted()
    }

    /// For each CPU how long it has been busy and idle, ns.
    pub(crate) fn cpu_times(&self, now: Ps) -> Vec<(u64, u64)> {
        let times = self.cpus.iter().map(|cpu| cpu.times(now));
        times.map(|(busy, idle)| (busy / NS, idle / NS)).collect()
    }

    /// How long `vcpu` has been on a CPU and has waited for one, ns, and how often it gave one up and lost one.
    pub(crate) fn account(&self, vcpu: u32, now: Ps) -> ((u64, u64), (u64, u64)) {
        let thread = self.thread(vcpu);
        (thread.times(now), thread.switched())
    }

    pub(crate) fn take_switches(&mut self, vcpu: u32) -> Vec<Switch> {
        std::mem::take(&mut self.threads[vcpu as usize].switches)
    }

    /// `vcpu` can run, and waits for a CPU from now on: for which.
    pub(crate) fn make_runnable(&mut self, vcpu: u32, now: Ps) -> u32 {
        let cpu = self.select_cpu(vcpu);
        let thread = &mut self.threads[vcpu as usize];
        thread.set_state(State::Queued, now);
        thread.cpu = cpu;
        let c = &mut self.cpus[cpu as usize];
        self.policy.joins(vcpu, c, now);
        c.queue.push(vcpu);
        cpu
    }

    /// Where it ran before, if that is idle; the nearest idle one; or else where it ran before.
    fn select_cpu(&self, vcpu: u32) -> u32 {
        let Thread { allowed, cpu, .. } = self.thread(vcpu);
        let free = |cpu: u32| self.cpu(cpu).load() == 0;
        let before = if allowed.contains(cpu) {
            *cpu
        } else {
            allowed[0]
        };
        if allowed.len() == 1 || free(before) {
            return before;
        }
        let idle = allowed.iter().copied().filter(|&cpu| free(cpu));
        // An idle core rather than the sibling of a busy one.
        let whole_core = |cpu: u32| {
            let mut siblings = self.topology.siblings(cpu);
            free(cpu) && siblings.all(free)
        };
        idle.min_by_key(|&cpu| (!whole_core(cpu), self.topology.transfer(before, cpu), cpu))
            .unwrap_or(before)
    }

    /// Whether `woken`, which has just begun to wait for `cpu`, takes it from the one that runs.
    pub(crate) fn preempts(&self, woken: u32, cpu: u32, now: Ps) -> bool {
        self.policy.preempts(woken, self.cpu(cpu), now)
    }

    /// An idle CPU is to look at its queue.
    pub(crate) fn rouse(&mut self, cpu: u32, agenda: &mut Agenda) {
        let c = &mut self.cpus[cpu as usize];
        if c.waking {
            return;
        }
        c.waking = true;
        let delay = if c.idled(agenda.now) > self.times.deep_idle_after_ns {
            self.times.deep_idle_exit_ns
        } else {
            self.times.idle_exit_ns
        };
        agenda.arrange(agenda.now + delay, What::CpuAwake, cpu);
    }

    /// A CPU that was idle runs: whether it looks at its queue.
    pub(crate) fn awakes(&mut self, cpu: u32) -> bool {
        let c = &mut self.cpus[cpu as usize];
        c.waking = false;
        c.current.is_none()
    }

    /// The vCPU on `cpu` goes back into the queue, if another is to have the CPU: which does.
    pub(crate) fn preempt(&mut self, cpu: u32, agenda: &mut Agenda) -> Option<u32> {
        self.set_due(cpu, false);
        if self.cpu(cpu).queue.is_empty() {
            return None;
        }
        let is_own = self.next_is_own(cpu);
        // One that stays on is not switched.
        if self
            .policy
            .stays(&self.cpus[cpu as usize], is_own, agenda.now)
        {
            self.arrange_tick(cpu, agenda);
            return None;
        }
        let vcpu = self.take_off(cpu, State::Queued, SwitchKind::OutPreempted, agenda.now)?;
        self.cpus[cpu as usize].queue.push(vcpu);
        Some(vcpu)
    }

    /// The vCPU on `cpu` gives it up: which, if one does.
    pub(crate) fn give_up(&mut self, cpu: u32, state: State, now: Ps) -> Option<u32> {
        let vcpu = self.take_off(cpu, state, SwitchKind::Out, now)?;
        self.set_due(cpu, false);
        Some(vcpu)
    }

    fn take_off(&mut self, cpu: u32, state: State, kind: SwitchKind, now: Ps) -> Option<u32> {
        let (vcpu, ran) = self.cpus[cpu as usize].take_off(now)?;
        self.policy.ran(vcpu, ran);
        let thread = &mut self.threads[vcpu as usize];
        thread.note(kind, now, self.tracing);
        thread.set_state(state, now);
        Some(vcpu)
    }

    /// Gives an idle `cpu` to the first of its queue, or to one that waits elsewhere: to which, and when that
    /// can go on.
    pub(crate) fn put_on(&mut self, cpu: u32, now: Ps) -> Option<(u32, Ps)> {
        if self.cpu(cpu).queue.is_empty() {
            self.pull(cpu);
        }
        let vcpu = self.policy.pick(self.cpu(cpu), self.next_is_own(cpu))?;
        let mut start = now;
        if self.cpus[cpu as usize].put_on(vcpu, now) {
            start += self.times.switch_ns;
        }
        let thread = &mut self.threads[vcpu as usize];
        if thread.ran_on != cpu {
            start += self.times.migration_ns;
            thread.ran_on = cpu;
        }
        thread.cpu = cpu;
        thread.set_state(State::Running, now);
        thread.note(SwitchKind::In, now, self.tracing);
        Some((vcpu, start))
    }

    /// Arranges for the end of the slice of the vCPU on `cpu`, if somebody waits.
    pub(crate) fn arrange_tick(&mut self, cpu: u32, agenda: &mut Agenda) {
        let count = self.cpus.len() as u64;
        let late = agenda.chance.below(self.times.tick_jitter_ns);
        let now = agenda.now;
        let c = &mut self.cpus[cpu as usize];
        if c.tick_arranged || !c.is_wanted() {
            return;
        }
        c.tick_arranged = true;
        let tick = self.times.tick_ns;
        let at = match tick {
            0 => c.slice_ends(self.times.slice_ns).max(now + 1),
            _ => {
                // The ticks of the CPUs are spread evenly.
                let phase = u64::from(cpu) * tick / count;
                let past = (now + tick - phase) / tick;
                past * tick + phase
            }
        };
        let at = if at <= now { at + tick } else { at };
        agenda.arrange(at + late, What::Tick, cpu);
    }

    /// A tick of `cpu`: whether the slice of the vCPU that is on it is over, if somebody waits for that.
    pub(crate) fn tick(&mut self, cpu: u32, now: Ps) -> Option<bool> {
        let c = &mut self.cpus[cpu as usize];
        c.tick_arranged = false;
        c.is_wanted().then(|| c.ran(now) >= self.times.slice_ns)
    }

    /// Takes one that waits for another CPU, from the longest queue.
    fn pull(&mut self, cpu: u32) {
        if !self.may_migrate {
            return;
        }
        let movable = |&vcpu: &u32| self.thread(vcpu).allowed.contains(&cpu);
        let from = (0..self.cpus.len())
            .filter(|&other| self.cpus[other].queue.iter().any(movable))
            .max_by_key(|&other| (self.cpus[other].load(), Reverse(other)));
        if let Some(from) = from.filter(|&from| self.cpus[from].current.is_some()) {
            self.move_one(from, cpu);
        }
    }

    /// Whether there was one to move.
    fn move_one(&mut self, from: usize, to: u32) -> bool {
        let movable = |&vcpu: &u32| self.thread(vcpu).allowed.contains(&to);
        let Some(place) = self.cpus[from].queue.iter().position(movable) else {
            return false;
        };
        let vcpu = self.cpus[from].queue.remove(place);
        self.cpus[to as usize].queue.push(vcpu);
        self.threads[vcpu as usize].cpu = to;
        true
    }

    /// Arranges for waiting vCPUs to be spread over the CPUs, if they ever are.
    pub(crate) fn arrange_balance(&self, agenda: &mut Agenda) {
        if self.times.balance_ns > 0 {
            agenda.arrange(agenda.now + self.times.balance_ns, What::Balance, 0);
        }
    }

    /// Moves a waiting vCPU from the fullest CPU to the emptiest, if they differ by two: to which.
    pub(crate) fn even_out(&mut self) -> Option<u32> {
        let load = |cpu: &usize| self.cpus[*cpu].load();
        let full = (0..self.cpus.len()).max_by_key(load)?;
        let empty = (0..self.cpus.len()).min_by_key(load)?;
        if load(&full) < load(&empty) + 2 {
            return None;
        }
        let to = u32::try_from(empty).unwrap_or(u32::MAX);
        self.move_one(full, to).then_some(to)
    }

    /// `vcpu` is to be the next on its CPU, which it waits for, as another has yielded to it: that CPU, if it
    /// is to look at its queue at once. It is if that is not at the cost of another VM: what is done to its own
    /// VM's vCPUs is that VM's affair.
    pub(crate) fn favour(&mut self, vcpu: u32, yielder: u32) -> Option<u32> {
        let cpu = self.cpu_of(vcpu);
        self.cpus[cpu as usize].next = Some(vcpu);
        let at_once =
            cpu != self.cpu_of(yielder) && (self.policy.favours_at_once() || self.next_is_own(cpu));
        at_once.then_some(cpu)
    }

    /// Whether the vCPU that is to be next on `cpu` is of the VM of the one that is on it, or was last.
    fn next_is_own(&self, cpu: u32) -> bool {
        let vm = |vcpu: Option<u32>| vcpu.and_then(|vcpu| self.thread(vcpu).vm);
        let Cpu { last, next, .. } = self.cpu(cpu);
        vm(*last).is_some_and(|last| vm(*next) == Some(last))
    }
}
