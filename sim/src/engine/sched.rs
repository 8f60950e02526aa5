//! The hypervisor's scheduler: who is on which CPU.

use super::Engine;
use super::event::{NS, Ps, What};
use super::vcpu::{Doing, HostStep, State, Switch, SwitchKind};

/// A CPU of the machine.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) current: Option<u32>,
    pub(super) queue: Vec<u32>,
    /// Who was on it last.
    last: Option<u32>,
    /// To be first, as somebody has yielded to it.
    pub(super) next: Option<u32>,
    /// When the one that is on it got it.
    picked_at: Ps,
    idle_since: Ps,
    idle: Ps,
    busy: Ps,
    /// It is idle, and has been told to look at its queue.
    waking: bool,
    tick_arranged: bool,
    /// As soon as it can, it is to look at its queue.
    pub(super) resched: bool,
}

impl Cpu {
    fn load(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some()) + usize::from(self.waking)
    }

    /// Time with somebody on it, and without, until `now`.
    pub(super) fn times(&self, now: Ps) -> (Ps, Ps) {
        match self.current {
            Some(_) => (self.busy + (now - self.picked_at), self.idle),
            None => (self.busy, self.idle + (now - self.idle_since)),
        }
    }
}

impl Engine {
    /// `vcpu` gets into `state`: accounts for the time until now.
    pub(super) fn set_state(&mut self, vcpu: u32, state: State) {
        let now = self.now;
        let v = &mut self.vcpus[vcpu as usize];
        let passed = now - v.since;
        match v.state {
            State::Running => v.ran += passed,
            State::Queued => v.queued += passed,
            State::Halted | State::Away | State::Done => {}
        }
        v.since = now;
        v.state = state;
        let queued_ns = v.queued / NS;
        self.report_steal(vcpu, queued_ns, state != State::Running);
    }

    fn note_switch(&mut self, vcpu: u32, kind: SwitchKind) {
        let at_ns = self.now / NS;
        let tracing = self.tracing;
        let v = &mut self.vcpus[vcpu as usize];
        match kind {
            SwitchKind::In => {}
            SwitchKind::Out => v.voluntary += 1,
            SwitchKind::OutPreempted => v.involuntary += 1,
        }
        if tracing {
            let cpu = v.cpu;
            v.switches.push(Switch { at_ns, cpu, kind });
        }
    }

    /// `vcpu` can run, and gets into a queue.
    pub(super) fn make_runnable(&mut self, vcpu: u32) {
        let cpu = self.select_cpu(vcpu);
        self.enqueue(vcpu, cpu);
    }

    /// Where it ran before, if that is idle; the nearest idle one; or else where it ran before.
    fn select_cpu(&self, vcpu: u32) -> u32 {
        let v = &self.vcpus[vcpu as usize];
        let free = |cpu: u32| self.cpus[cpu as usize].load() == 0;
        let before = if v.allowed.contains(&v.cpu) {
            v.cpu
        } else {
            v.allowed[0]
        };
        if v.allowed.len() == 1 || free(before) {
            return before;
        }
        let idle = v.allowed.iter().copied().filter(|&cpu| free(cpu));
        // An idle core rather than the sibling of a busy one.
        let whole_core = |cpu: u32| {
            let mut siblings = self.topology.siblings(cpu);
            free(cpu) && siblings.all(|c| self.cpus[c].load() == 0)
        };
        idle.min_by_key(|&cpu| (!whole_core(cpu), self.topology.transfer(before, cpu), cpu))
            .unwrap_or(before)
    }

    fn enqueue(&mut self, vcpu: u32, cpu: u32) {
        self.set_state(vcpu, State::Queued);
        let least = self.least_vruntime(cpu);
        let slice = self.times.slice_ns;
        let v = &mut self.vcpus[vcpu as usize];
        v.cpu = cpu;
        v.vruntime = v.vruntime.max(least);
        if v.deadline <= v.vruntime {
            v.deadline = v.vruntime + slice;
        }
        self.cpus[cpu as usize].queue.push(vcpu);
        match self.cpus[cpu as usize].current {
            None => self.rouse(cpu),
            Some(current) if self.vcpus[current as usize].doing == Doing::Polls => {
                self.end_poll(current);
            }
            Some(current) => {
                if self.preempts(vcpu, current, cpu) {
                    self.reschedule(cpu);
                } else {
                    self.arrange_tick(cpu);
                }
            }
        }
    }

    /// Whether a vCPU that has just woken up takes the CPU from the one that runs. Whose deadline is past
    /// would have to go at the next tick, and goes now.
    fn preempts(&self, woken: u32, current: u32, cpu: u32) -> bool {
        if !self.eevdf || !self.wakeup_preemption {
            return false;
        }
        let ran = self.now - self.cpus[cpu as usize].picked_at;
        let (woken, current) = (&self.vcpus[woken as usize], &self.vcpus[current as usize]);
        if current.vruntime + ran >= current.deadline {
            return true;
        }
        ran >= self.times.wakeup_protect_ns
            && woken.vruntime < current.vruntime + ran
            && woken.deadline < current.deadline.max(current.vruntime + ran)
    }

    /// The least virtual time on that CPU.
    fn least_vruntime(&self, cpu: u32) -> Ps {
        let cpu = &self.cpus[cpu as usize];
        let current = cpu
            .current
            .map(|v| self.vcpus[v as usize].vruntime + (self.now - cpu.picked_at));
        let queued = cpu.queue.iter().map(|&v| self.vcpus[v as usize].vruntime);
        queued.chain(current).min().unwrap_or(0)
    }

    /// An idle CPU is to look at its queue.
    fn rouse(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        if c.waking {
            return;
        }
        c.waking = true;
        let idle = self.now - c.idle_since;
        let delay = if idle > self.times.deep_idle_after_ns {
            self.times.deep_idle_exit_ns
        } else {
            self.times.idle_exit_ns
        };
        self.events.push(self.now + delay, What::CpuAwake, cpu);
    }

    pub(super) fn cpu_awake(&mut self, cpu: u32) {
        self.cpus[cpu as usize].waking = false;
        if self.cpus[cpu as usize].current.is_none() {
            self.schedule(cpu);
        }
    }

    /// The vCPU on `cpu` goes back into the queue, and the first of the queue gets the CPU: now, or as
    /// soon as it does not wait for a line any more.
    pub(super) fn reschedule(&mut self, cpu: u32) {
        let Some(current) = self.cpus[cpu as usize].current else {
            self.rouse(cpu);
            return;
        };
        let executes = self.executing && current == self.vcpu;
        if executes || self.vcpus[current as usize].doing == Doing::WaitsForLine {
            self.cpus[cpu as usize].resched = true;
            if executes {
                // It is to come back as soon as possible.
                self.limit = 0;
                self.horizon = 0;
            }
            return;
        }
        self.cpus[cpu as usize].resched = false;
        if self.cpus[cpu as usize].queue.is_empty() {
            return;
        }
        // Who stays on is not switched.
        let v = &mut self.vcpus[current as usize];
        let ran = self.now - self.cpus[cpu as usize].picked_at;
        if self.eevdf {
            let vruntime = v.vruntime + ran;
            if vruntime >= v.deadline {
                v.deadline = vruntime + self.times.slice_ns;
            }
            if self.pick(cpu, Some((current, vruntime))) == Some(current) {
                self.arrange_tick(cpu);
                return;
            }
        }
        self.note_switch(current, SwitchKind::OutPreempted);
        self.take_off(cpu, State::Queued);
        self.cpus[cpu as usize].queue.push(current);
        self.schedule(cpu);
    }

    /// The vCPU on `cpu` gives it up.
    pub(super) fn give_up(&mut self, cpu: u32, state: State) {
        if let Some(current) = self.cpus[cpu as usize].current {
            self.note_switch(current, SwitchKind::Out);
            self.take_off(cpu, state);
            self.cpus[cpu as usize].resched = false;
            self.schedule(cpu);
        }
    }

    fn take_off(&mut self, cpu: u32, state: State) {
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        let Some(current) = c.current.take() else {
            return;
        };
        let ran = now - c.picked_at;
        c.busy += ran;
        c.idle_since = now;
        let slice = self.times.slice_ns;
        let v = &mut self.vcpus[current as usize];
        v.vruntime += ran;
        if v.vruntime >= v.deadline {
            v.deadline = v.vruntime + slice;
        }
        v.arranged = 0;
        v.doing = match v.doing {
            Doing::Computes { until } => Doing::Computed {
                left: until.saturating_sub(now),
            },
            Doing::Spins { line, since, left } => Doing::Spins {
                line,
                since: now,
                // Who spins without a limit still does when it is back.
                left: match left {
                    Ps::MAX => Ps::MAX,
                    left => left.saturating_sub(now - since),
                },
            },
            other => other,
        };
        self.set_state(current, state);
    }

    /// Gives an idle `cpu` to the first of its queue, or to one that waits elsewhere.
    pub(super) fn schedule(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].queue.is_empty() {
            self.pull(cpu);
        }
        let Some(vcpu) = self.pick(cpu, None) else {
            return;
        };
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        c.queue.retain(|&v| v != vcpu);
        c.next = c.next.filter(|&next| next != vcpu);
        c.idle += now - c.idle_since;
        c.picked_at = now;
        let mut start = now;
        if c.last != Some(vcpu) {
            start += self.times.switch_ns;
        }
        c.last = Some(vcpu);
        c.current = Some(vcpu);
        let v = &mut self.vcpus[vcpu as usize];
        if v.ran_on != cpu {
            start += self.times.migration_ns;
            v.ran_on = cpu;
        }
        v.cpu = cpu;
        v.ple_window = self.times.ple_window_ns;
        v.ple_left = v.ple_window;
        if v.is_guest {
            start += self.times.entry_ns;
        }
        self.set_state(vcpu, State::Running);
        self.note_switch(vcpu, SwitchKind::In);
        self.note_step(vcpu, HostStep::Enter);
        match self.vcpus[vcpu as usize].doing {
            Doing::Computed { left } => self.arrange_step(vcpu, start.saturating_add(left)),
            Doing::Spins { left, .. } => {
                self.vcpus[vcpu as usize].spin_left = left;
                self.arrange_step(vcpu, start);
            }
            _ => self.arrange_step(vcpu, start),
        }
        self.arrange_tick(cpu);
    }

    /// Who is next on `cpu`. `current`, with its virtual time, may stay.
    fn pick(&self, cpu: u32, current: Option<(u32, Ps)>) -> Option<u32> {
        let c = &self.cpus[cpu as usize];
        let next = c.next.filter(|next| c.queue.contains(next));
        if !self.eevdf {
            return next.or_else(|| c.queue.first().copied());
        }
        let all = || {
            let queued = c
                .queue
                .iter()
                .map(|&v| (v, self.vcpus[v as usize].vruntime));
            queued.chain(current)
        };
        let (sum, count) = all().fold((0u128, 0u128), |(sum, n), (_, vruntime)| {
            (sum + u128::from(vruntime), n + 1)
        });
        // Eligible is who has had no more than its share; the earliest deadline among them is first, unless
        // somebody has yielded to one. Of another VM than the one that ran that one must be eligible, too.
        let eligible = |vruntime| u128::from(vruntime) * count <= sum;
        let may_be_next =
            |&v: &u32| eligible(self.vcpus[v as usize].vruntime) || self.is_among_its_own(cpu, v);
        if let Some(next) = next.filter(may_be_next) {
            return Some(next);
        }
        all()
            .filter(|&(_, vruntime)| eligible(vruntime))
            .min_by_key(|&(v, _)| (self.vcpus[v as usize].deadline, v))
            .map(|(v, _)| v)
    }

    /// Arranges for the end of the slice of whoever is on `cpu`, if somebody waits.
    fn arrange_tick(&mut self, cpu: u32) {
        let count = self.cpus.len() as u64;
        let late = self.times.tick_jitter_ns;
        let late = self.random_below(late);
        let c = &mut self.cpus[cpu as usize];
        if c.tick_arranged || c.queue.is_empty() || c.current.is_none() {
            return;
        }
        c.tick_arranged = true;
        let tick = self.times.tick_ns;
        let at = match tick {
            0 => (c.picked_at + self.times.slice_ns).max(self.now + 1),
            _ => {
                // The ticks of the CPUs are spread evenly.
                let phase = u64::from(cpu) * tick / count;
                let past = (self.now + tick - phase) / tick;
                past * tick + phase
            }
        };
        let at = if at <= self.now { at + tick } else { at };
        self.events.push(at + late, What::Tick, cpu);
    }

    pub(super) fn tick(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.tick_arranged = false;
        if c.queue.is_empty() || c.current.is_none() {
            return;
        }
        if self.now - c.picked_at >= self.times.slice_ns {
            self.reschedule(cpu);
        }
        self.arrange_tick(cpu);
    }

    /// Takes one that waits for another CPU, from the longest queue.
    fn pull(&mut self, cpu: u32) {
        if !self.may_migrate {
            return;
        }
        let movable = |&vcpu: &u32| self.vcpus[vcpu as usize].allowed.contains(&cpu);
        let from = (0..self.cpus.len())
            .filter(|&other| self.cpus[other].queue.iter().any(movable))
            .max_by_key(|&other| (self.cpus[other].load(), std::cmp::Reverse(other)));
        let Some(from) = from.filter(|&from| self.cpus[from].current.is_some()) else {
            return;
        };
        self.move_one(from, cpu);
    }

    fn move_one(&mut self, from: usize, to: u32) {
        let queue = &self.cpus[from].queue;
        let movable = |&vcpu: &u32| self.vcpus[vcpu as usize].allowed.contains(&to);
        if let Some(place) = queue.iter().position(movable) {
            let vcpu = self.cpus[from].queue.remove(place);
            self.cpus[to as usize].queue.push(vcpu);
            let least = self.least_vruntime(to);
            let v = &mut self.vcpus[vcpu as usize];
            v.cpu = to;
            v.vruntime = v.vruntime.max(least);
        }
    }

    /// Moves waiting vCPUs from the fullest CPU to the emptiest while they differ by two.
    pub(super) fn balance(&mut self) {
        self.events
            .push(self.now + self.times.balance_ns, What::Balance, 0);
        for _ in 0..self.cpus.len() {
            let load = |cpu: &usize| self.cpus[*cpu].load();
            let (Some(full), Some(empty)) = (
                (0..self.cpus.len()).max_by_key(load),
                (0..self.cpus.len()).min_by_key(load),
            ) else {
                return;
            };
            if load(&full) < load(&empty) + 2 {
                return;
            }
            let before = self.cpus[full].queue.len();
            #[expect(clippy::cast_possible_truncation, reason = "at most MAX_CPUS")]
            let to = empty as u32;
            self.move_one(full, to);
            if self.cpus[full].queue.len() == before {
                return;
            }
            match self.cpus[empty].current {
                None => self.rouse(to),
                Some(current) if self.vcpus[current as usize].doing == Doing::Polls => {
                    self.end_poll(current);
                }
                Some(_) => self.arrange_tick(to),
            }
        }
    }

    /// `vcpu` is to be the next on its CPU, which it waits for, as another has yielded to it. It gets it at once,
    /// if that is not at the cost of another VM: what is done to its own VM's vCPUs is that VM's affair.
    pub(super) fn favour(&mut self, vcpu: u32, yielder: u32) {
        let cpu = self.vcpus[vcpu as usize].cpu;
        self.cpus[cpu as usize].next = Some(vcpu);
        if cpu != self.vcpus[yielder as usize].cpu
            && (self.eevdf || self.is_among_its_own(cpu, vcpu))
        {
            self.reschedule(cpu);
        }
    }

    /// Whether the vCPU that is on `cpu`, or was last, is of the VM of `vcpu`.
    fn is_among_its_own(&self, cpu: u32, vcpu: u32) -> bool {
        self.cpus[cpu as usize].last.is_some_and(|last| {
            let last = &self.vcpus[last as usize];
            last.is_guest && last.vm == self.vcpus[vcpu as usize].vm
        })
    }
}
