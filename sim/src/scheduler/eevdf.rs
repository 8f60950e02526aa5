//! Earliest eligible virtual deadline first (Stoica and Abdel-Wahab 1995).

use super::cpu::Cpu;
use super::policy::Policy;
use crate::parameters::Costs;
use crate::units::{Ps, times};

times!(Times {
    slice_ns,
    wakeup_protect_ns,
});

/// How far a vCPU is in virtual time, and when it should have had its slice.
#[derive(Clone, Copy, Debug, Default)]
struct Virtual {
    time: Ps,
    deadline: Ps,
}

impl Virtual {
    /// A deadline that is past is followed by the next.
    fn renew(&mut self, slice: Ps) {
        if self.time >= self.deadline {
            self.deadline = self.time + slice;
        }
    }
}

/// The policy.
pub(super) struct Eevdf {
    times: Times,
    wakeup_preemption: bool,
    /// One of each vCPU.
    vcpus: Vec<Virtual>,
}

impl Eevdf {
    pub(super) fn new(costs: &Costs) -> Self {
        Self {
            times: Times::new(costs),
            wakeup_preemption: costs.wakeup_preemption != 0.0,
            vcpus: Vec::new(),
        }
    }

    fn of(&self, vcpu: u32) -> Virtual {
        self.vcpus[vcpu as usize]
    }

    /// The one that is on `cpu`, as it is now.
    fn current(&self, cpu: &Cpu, now: Ps) -> Option<Virtual> {
        cpu.current.map(|vcpu| {
            let mut current = self.of(vcpu);
            current.time += cpu.ran(now);
            current
        })
    }

    /// The next among those that wait for `cpu`, and `current`, with its virtual time.
    fn pick_among(&self, cpu: &Cpu, current: Option<(u32, Ps)>, is_own: bool) -> Option<u32> {
        let all = || {
            let queued = cpu.queue.iter().map(|&vcpu| (vcpu, self.of(vcpu).time));
            queued.chain(current)
        };
        let (sum, count) = all().fold((0u128, 0u128), |(sum, n), (_, time)| {
            (sum + u128::from(time), n + 1)
        });
        // Eligible is one that has had no more than its share; the earliest deadline among them is first, unless
        // somebody has yielded to one. Of another VM than the one that ran that one must be eligible, too.
        let eligible = |time| u128::from(time) * count <= sum;
        let may_be_next = |&vcpu: &u32| eligible(self.of(vcpu).time) || is_own;
        cpu.favoured().filter(may_be_next).or_else(|| {
            all()
                .filter(|&(_, time)| eligible(time))
                .min_by_key(|&(vcpu, _)| (self.of(vcpu).deadline, vcpu))
                .map(|(vcpu, _)| vcpu)
        })
    }
}

impl Policy for Eevdf {
    fn add_vcpu(&mut self) {
        self.vcpus.push(Virtual::default());
    }

    fn joins(&mut self, vcpu: u32, cpu: &Cpu, now: Ps) {
        let current = self.current(cpu, now).map(|current| current.time);
        let queued = cpu.queue.iter().map(|&vcpu| self.of(vcpu).time);
        let least = queued.chain(current).min().unwrap_or(0);
        let own = &mut self.vcpus[vcpu as usize];
        own.time = own.time.max(least);
        own.renew(self.times.slice_ns);
    }

    fn ran(&mut self, vcpu: u32, time: Ps) {
        let own = &mut self.vcpus[vcpu as usize];
        own.time += time;
        own.renew(self.times.slice_ns);
    }

    /// One whose deadline is past would have to go at the next tick, and goes now.
    fn preempts(&self, woken: u32, cpu: &Cpu, now: Ps) -> bool {
        let Some(current) = self.current(cpu, now).filter(|_| self.wakeup_preemption) else {
            return false;
        };
        if current.time >= current.deadline {
            return true;
        }
        let woken = self.of(woken);
        cpu.ran(now) >= self.times.wakeup_protect_ns
            && woken.time < current.time
            && woken.deadline < current.deadline.max(current.time)
    }

    fn stays(&mut self, cpu: &Cpu, is_own: bool, now: Ps) -> bool {
        let (Some(vcpu), Some(mut current)) = (cpu.current, self.current(cpu, now)) else {
            return false;
        };
        current.renew(self.times.slice_ns);
        self.vcpus[vcpu as usize].deadline = current.deadline;
        self.pick_among(cpu, Some((vcpu, current.time)), is_own) == Some(vcpu)
    }

    fn favours_at_once(&self) -> bool {
        true
    }

    fn pick(&self, cpu: &Cpu, is_own: bool) -> Option<u32> {
        self.pick_among(cpu, None, is_own)
    }
}
