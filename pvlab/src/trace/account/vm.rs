//! A VM: its locks and vCPUs, and the state of each lock that follows from both.

use super::VmSetup;
use super::clock::Class;
use super::episode::{Close, EpisodeKind, Open};
use super::lock::{Lock, QUIET_NS};
use super::order::Next;
use super::result::{Part, Tally, VmAccount, add};
use super::vcpu::{Stage, VcpuTracker};
use crate::trace::{Event, What};
use abi::HostStep;

/// What the events so far tell of a VM.
#[derive(Debug)]
pub(super) struct VmTracker {
    kind: &'static str,
    pub(super) locks: Vec<Lock>,
    pub(super) vcpus: Vec<VcpuTracker>,
}

impl VmTracker {
    pub(super) fn new(setup: &VmSetup) -> Self {
        let steals = setup.lock.traits().steals;
        Self {
            kind: setup.lock.name(),
            locks: (0..setup.locks)
                .map(|_| Lock::new(steals, setup.vcpus))
                .collect(),
            vcpus: (0..setup.vcpus).map(|_| VcpuTracker::new()).collect(),
        }
    }

    /// Takes in an event. False if it names something that there is not.
    pub(super) fn event(&mut self, event: &Event, now: u64) -> bool {
        let v = event.place.vcpu;
        if usize::from(v) >= self.vcpus.len() {
            return false;
        }
        // Most events are steps, which do not change whether a vCPU runs.
        if !matches!(event.what, What::Lock { .. }) || self.vcpu(v).injected {
            self.host_event(v, &event.what, now);
        }
        match event.what {
            What::Lock { lock, step } => {
                return usize::from(lock) < self.locks.len()
                    && self.step(v, lock, step, event.at, now);
            }
            What::Host(HostStep::Enter) => self.up(v, now),
            What::Host(HostStep::Injected(ns)) => self.injected(v, ns),
            What::Gap { .. } => self.gap(v, now),
            What::Host(_) | What::Switch { .. } => {}
        }
        true
    }

    fn host_event(&mut self, v: u16, what: &What, now: u64) {
        if self.vcpu(v).is_changed_by(what) {
            self.change(v, now, |vcpu| vcpu.apply(what, now));
        } else {
            self.vcpus[usize::from(v)].apply(what, now);
        }
    }

    pub(super) fn vcpu(&self, v: u16) -> &VcpuTracker {
        &self.vcpus[usize::from(v)]
    }

    pub(super) fn lock_mut(&mut self, l: u16) -> &mut Lock {
        &mut self.locks[usize::from(l)]
    }

    /// Changes the state of a vCPU, with the clocks of all that depends on it read before and the
    /// locks' states found anew after.
    pub(super) fn change(&mut self, v: u16, now: u64, change: impl FnOnce(&mut VcpuTracker)) {
        let vcpu = self.vcpu(v);
        let (count, releasing, ran) = (vcpu.acquisitions.len(), vcpu.releasing, vcpu.runs());
        for i in 0..count {
            self.advance(self.vcpu(v).acquisitions[i].lock, now);
        }
        if let Some(l) = releasing {
            self.advance(l, now);
        }
        let own = self.vcpu(v).own_part();
        change(&mut self.vcpus[usize::from(v)]);
        if self.vcpu(v).own_part() != own {
            for i in 0..count {
                self.settle_as(v, i, own);
            }
        }

        let wakes = !ran && self.vcpu(v).runs();
        for i in 0..count {
            let acquisition = &self.vcpu(v).acquisitions[i];
            let (l, waits) = (acquisition.lock, acquisition.stage == Stage::Waiting);
            if wakes && waits && self.locks[usize::from(l)].class == Class::Open {
                let mut others = self.locks[usize::from(l)].waiters.iter();
                // From now on somebody can take it.
                if !others.any(|&other| other != v && self.vcpu(other).runs()) {
                    self.lock_mut(l).quiet_since = now;
                }
            }
            self.reclassify(l, now);
        }
        if let Some(l) = releasing {
            self.reclassify(l, now);
        }
    }

    pub(super) fn some_waiter_runs(&self, l: u16) -> bool {
        let mut waiters = self.locks[usize::from(l)].waiters.iter();
        waiters.any(|&v| self.vcpu(v).runs())
    }

    /// Brings the parts of an acquisition up to date with its lock's clocks.
    pub(super) fn settle(&mut self, v: u16, i: usize) {
        self.settle_as(v, i, self.vcpu(v).own_part());
    }

    /// As [`Self::settle`]; `own` has been its part while it could take the lock.
    fn settle_as(&mut self, v: u16, i: usize, own: Part) {
        let acquisition = &mut self.vcpus[usize::from(v)].acquisitions[i];
        if acquisition.stage == Stage::Waiting {
            let clocks = &self.locks[usize::from(acquisition.lock)].clocks;
            acquisition.settle(clocks, own);
        }
    }

    /// Brings a lock's clocks up to `now`.
    pub(super) fn advance(&mut self, l: u16, now: u64) {
        let lock = &mut self.locks[usize::from(l)];
        if now <= lock.since {
            return;
        }
        let since = std::mem::replace(&mut lock.since, now);
        let ns = now - since;
        add(
            &mut lock.waited,
            ns.saturating_mul(lock.waiters.len() as u64),
        );
        lock.clocks.add(lock.class, ns);

        match lock.class {
            Class::HolderOff => {
                let holder = lock.holder.map(|v| &self.vcpus[usize::from(v)]);
                if holder.is_some_and(|holder| holder.injected) {
                    add(&mut lock.tally.injected.holder_found_ns, ns);
                }
            }
            class if class.next_is_off() => {
                let next = lock.next.map(|v| &mut self.vcpus[usize::from(v)]);
                if let Some(next) = next {
                    if next.injected {
                        add(&mut lock.tally.injected.next_found_ns, ns);
                    }
                    if let Some(i) = next.position(l) {
                        add(&mut next.acquisitions[i].next_off, ns);
                    }
                }
            }
            class if class == Class::Open || class.next_runs() => self.doubt(l, since, now),
            _ => {}
        }
    }

    /// The lock should have been taken in [since, now): if that went on for too long and there is a
    /// suspect, the time was the suspect's.
    fn doubt(&mut self, l: u16, since: u64, now: u64) {
        let lock = &self.locks[usize::from(l)];
        let from = since.max(lock.quiet_since.saturating_add(QUIET_NS));
        if now <= from || lock.waiters.is_empty() {
            return;
        }
        let Some(suspect) = lock.suspect.or_else(|| self.suspect(l)) else {
            return;
        };
        let off_since = self.vcpu(suspect).absent_since();
        let lock = self.lock_mut(l);
        let class = lock.class;
        lock.clocks.shift(class, Class::HolderOff, now - from);
        if lock.suspect.is_none() {
            // The wait since `from` is this episode's already.
            let own = (now - from).saturating_mul(lock.waiters.len() as u64);
            let waited = lock.waited.saturating_sub(own);
            let open = Open {
                kind: EpisodeKind::Lhp,
                vcpu: suspect,
                at: from,
                off_since,
                waited,
                waits: lock.waiters.contains(&suspect),
            };
            lock.suspect = Some(suspect);
            // There was no episode: nobody was missed in this state.
            lock.episode = Some(open);
        }
    }

    /// The vCPU that may hold the lock, which looks free.
    fn suspect(&self, l: u16) -> Option<u16> {
        let lock = &self.locks[usize::from(l)];
        // If nobody can take it, that it is not taken proves nothing.
        if lock.class == Class::Open && !self.some_waiter_runs(l) {
            return None;
        }
        let mut suspects = lock.releaser.iter().chain(&lock.waiters).copied();
        suspects.find(|&v| self.is_suspect(v, l))
    }

    fn is_suspect(&self, v: u16, l: u16) -> bool {
        let lock = &self.locks[usize::from(l)];
        let vcpu = self.vcpu(v);
        if vcpu.runs() {
            return false;
        }
        let may_hold = |i: usize| {
            let acquisition = &vcpu.acquisitions[i];
            Some(v) != lock.next && (!acquisition.placed || acquisition.head)
        };
        lock.releaser == Some(v) || vcpu.position(l).is_some_and(may_hold)
    }

    pub(super) fn is_placed(&self, v: u16, l: u16) -> bool {
        let vcpu = self.vcpu(v);
        vcpu.position(l)
            .is_some_and(|i| vcpu.acquisitions[i].placed)
    }

    /// Whether that vCPU waits for the lock.
    pub(super) fn waits(&self, v: u16, l: u16) -> bool {
        let vcpu = self.vcpu(v);
        vcpu.position(l)
            .is_some_and(|i| vcpu.acquisitions[i].stage == Stage::Waiting)
    }

    /// The waiter that is to have the lock next.
    pub(super) fn next(&self, l: u16) -> Option<u16> {
        let lock = &self.locks[usize::from(l)];
        match lock.order.next() {
            Next::Vcpu(v) => Some(v),
            Next::Anyone => None,
            // Likelier one that was cut short than one that runs, and one that has tried for long.
            Next::Unseen(smallest) => {
                let likeliness = |v: u16| {
                    let vcpu = self.vcpu(v);
                    let start = vcpu.position(l).map(|i| vcpu.acquisitions[i].start);
                    (vcpu.runs(), start, v)
                };
                let waiters = lock.waiters.iter().copied();
                let unseen = waiters.filter(|&v| !self.is_placed(v, l));
                unseen.min_by_key(|&v| likeliness(v)).or(Some(smallest))
            }
        }
    }

    fn classify(&self, l: u16) -> (Class, Option<u16>) {
        let lock = &self.locks[usize::from(l)];
        if let Some(holder) = lock.holder {
            let class = if self.vcpu(holder).runs() {
                Class::HolderRunning
            } else {
                Class::HolderOff
            };
            return (class, None);
        }
        if !lock.known {
            return (Class::Unknown, None);
        }
        let Some(next) = self.next(l) else {
            return (Class::Open, None);
        };
        let vcpu = self.vcpu(next);
        let head = vcpu.position(l).is_some_and(|i| vcpu.acquisitions[i].head);
        let stealable = lock.steals && !(head && vcpu.halt.is_none());
        (Class::free(vcpu.own_part(), stealable), Some(next))
    }

    /// Finds a lock's state anew. Its clocks must be up to date.
    pub(super) fn reclassify(&mut self, l: u16, now: u64) {
        let (class, next) = self.classify(l);
        let lock = self.lock_mut(l);
        if (class, next) != (lock.class, lock.next) {
            lock.class = class;
            lock.next = next;
            lock.quiet_since = now;
            lock.suspect = None;
        }
        if let Some(suspect) = self.locks[usize::from(l)].suspect
            && !(self.is_suspect(suspect, l) && self.suspect(l).is_some())
        {
            self.lock_mut(l).suspect = None;
        }
        self.follow_episode(l, now);
    }

    /// Ends and begins the episodes that the lock's state implies.
    fn follow_episode(&mut self, l: u16, now: u64) {
        let lock = &self.locks[usize::from(l)];
        let others = lock.waiters.len() > 1;
        let missed = match lock.class {
            Class::HolderOff if !lock.waiters.is_empty() => lock.holder.zip(Some(EpisodeKind::Lhp)),
            class if others && class.next_is_off() => lock.next.zip(Some(EpisodeKind::Lwp)),
            class if others && class.next_is_kicked() => lock.next.zip(Some(EpisodeKind::Kick)),
            _ => lock.suspect.zip(Some(EpisodeKind::Lhp)),
        };
        if lock.episode.map(|open| (open.vcpu, open.kind)) == missed {
            return;
        }
        self.close_episode(l, now);
        let absent_since = |v: u16| self.vcpus[usize::from(v)].absent_since();
        let lock = &self.locks[usize::from(l)];
        self.locks[usize::from(l)].episode = missed.map(|(vcpu, kind)| Open {
            kind,
            vcpu,
            at: now,
            off_since: absent_since(vcpu),
            waited: lock.waited,
            waits: lock.waiters.contains(&vcpu),
        });
    }

    fn close_episode(&mut self, l: u16, now: u64) {
        let lock = &mut self.locks[usize::from(l)];
        let Some(open) = lock.episode.take() else {
            return;
        };
        let end = Close {
            lock: l,
            now,
            waited: lock.waited,
            waiters: &lock.waiters,
        };
        let Tally {
            lhp,
            lwp,
            kick,
            stalls,
            ..
        } = &mut lock.tally;
        let episodes = match open.kind {
            EpisodeKind::Lhp => lhp,
            EpisodeKind::Lwp => lwp,
            EpisodeKind::Kick => kick,
        };
        open.close(end, episodes, stalls);
    }

    /// Ends the account at `end`; unfinished waits are measured up to `end_ns`.
    pub(super) fn finish(mut self, vm: u16, end: u64, end_ns: u64, span_ns: u64) -> VmAccount {
        for l in 0..u16::try_from(self.locks.len()).unwrap_or(u16::MAX) {
            self.advance(l, end);
            self.close_episode(l, end);
        }
        for v in 0..u16::try_from(self.vcpus.len()).unwrap_or(u16::MAX) {
            for i in 0..self.vcpu(v).acquisitions.len() {
                self.settle(v, i);
            }
        }
        for vcpu in &self.vcpus {
            let open = vcpu.acquisitions.iter();
            for acquisition in open.filter(|a| a.stage == Stage::Waiting) {
                let tally = &mut self.locks[usize::from(acquisition.lock)].tally;
                if acquisition.phantom {
                    tally.incomplete += 1;
                    continue;
                }
                let wait = end_ns.max(acquisition.start) - acquisition.start;
                tally.unfinished += 1;
                add(&mut tally.unfinished_wait_ns, wait);
                tally.wait(wait, &acquisition.parts);
            }
        }
        let mut total = Tally::default();
        let mut locks = Vec::with_capacity(self.locks.len());
        for mut lock in self.locks {
            let tally = &mut lock.tally;
            tally.holder_off_ns = lock.clocks.get(Class::HolderOff);
            for episodes in [&mut tally.lhp, &mut tally.lwp, &mut tally.kick] {
                episodes.set_rate(span_ns);
            }
            total.merge(tally);
            locks.push(lock.tally);
        }
        let without = self.vcpus.iter().filter(|vcpu| !vcpu.switches_seen);
        VmAccount {
            vm,
            lock: self.kind,
            vcpus: self.vcpus.len(),
            vcpus_without_switches: without.count(),
            total,
            locks,
        }
    }
}
