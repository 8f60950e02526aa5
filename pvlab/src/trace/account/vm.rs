//! A VM: its locks and vCPUs, and the state of each lock that follows from both.

use super::VmSetup;
use super::clock::Class;
use super::episode::EpisodeKind;
use super::lock::{Lock, Missed, QUIET_NS};
use super::order::Next;
use super::result::{Part, Tally, VmAccount, add};
use super::vcpu::{Acquisition, VcpuTracker};
use crate::trace::{Event, What};
use abi::HostStep;

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
            locks: Vec::from_iter((0..setup.locks).map(|_| Lock::new(steals, setup.vcpus))),
            vcpus: Vec::from_iter((0..setup.vcpus).map(|_| VcpuTracker::new())),
        }
    }

    /// Takes in an event. False if it names something that there is not.
    pub(super) fn event(&mut self, event: &Event, now: u64) -> bool {
        let v = event.place.vcpu;
        if usize::from(v) >= self.vcpus.len() {
            return false;
        }
        // Most events are steps, which do not change whether a vCPU runs.
        let (what, vcpu) = (&event.what, self.vcpu(v));
        let may_change = !matches!(what, What::Lock { .. }) || vcpu.injected();
        if may_change && vcpu.is_changed_by(what) {
            self.change(v, now, |vcpu| vcpu.apply(what, now));
        } else if may_change {
            self.vcpu_mut(v).apply(what, now);
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

    pub(super) fn vcpu(&self, v: u16) -> &VcpuTracker {
        &self.vcpus[usize::from(v)]
    }

    pub(super) fn vcpu_mut(&mut self, v: u16) -> &mut VcpuTracker {
        &mut self.vcpus[usize::from(v)]
    }

    pub(super) fn lock(&self, l: u16) -> &Lock {
        &self.locks[usize::from(l)]
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
        change(self.vcpu_mut(v));
        if self.vcpu(v).own_part() != own {
            for i in 0..count {
                self.settle_as(v, i, own);
            }
        }

        let wakes = !ran && self.vcpu(v).runs();
        for i in 0..count {
            let acquisition = &self.vcpu(v).acquisitions[i];
            let (l, waits) = (acquisition.lock, acquisition.waits());
            if wakes && waits && self.lock(l).class == Class::Open {
                let mut others = self.lock(l).waiters.iter();
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
        let mut waiters = self.lock(l).waiters.iter();
        waiters.any(|&v| self.vcpu(v).runs())
    }

    /// Brings the parts of an acquisition up to date with its lock's clocks.
    pub(super) fn settle(&mut self, v: u16, i: usize) {
        self.settle_as(v, i, self.vcpu(v).own_part());
    }

    /// As [`Self::settle`]; `own` has been its part while it could take the lock.
    fn settle_as(&mut self, v: u16, i: usize, own: Part) {
        let acquisition = &mut self.vcpus[usize::from(v)].acquisitions[i];
        if acquisition.waits() {
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
        let waited = ns.saturating_mul(lock.waiter_count());
        add(&mut lock.waited, waited);
        lock.clocks.add(lock.class, ns);

        match lock.class {
            Class::HolderOff => {
                let holder = lock.holder.map(|v| &self.vcpus[usize::from(v)]);
                if holder.is_some_and(VcpuTracker::injected) {
                    add(&mut lock.tally.injected.holder_found_ns, ns);
                }
            }
            class if class.next_is_off() => {
                let next = lock.next.map(|v| &mut self.vcpus[usize::from(v)]);
                if let Some(next) = next {
                    if next.injected() {
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
        let lock = self.lock(l);
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
            let own = (now - from).saturating_mul(lock.waiter_count());
            let waited = lock.waited.saturating_sub(own);
            lock.suspect = Some(suspect);
            // There was no episode: nobody was missed in this state.
            let (kind, vcpu) = (EpisodeKind::Lhp, suspect);
            lock.miss(Missed { kind, vcpu }, from, off_since, waited);
        }
    }

    /// The vCPU that may hold the lock, which looks free.
    fn suspect(&self, l: u16) -> Option<u16> {
        let lock = self.lock(l);
        // If nobody can take it, that it is not taken proves nothing.
        if lock.class == Class::Open && !self.some_waiter_runs(l) {
            return None;
        }
        let mut suspects = lock.releaser.iter().chain(&lock.waiters).copied();
        suspects.find(|&v| self.is_suspect(v, l))
    }

    fn is_suspect(&self, v: u16, l: u16) -> bool {
        let lock = self.lock(l);
        let may_hold = |acquisition: &Acquisition| {
            Some(v) != lock.next && (!acquisition.is_placed() || acquisition.is_head())
        };
        !self.vcpu(v).runs() && (lock.releaser == Some(v) || self.is_in(v, l, may_hold))
    }

    /// Whether the vCPU is in an acquisition of the lock, and such a one.
    pub(super) fn is_in(&self, v: u16, l: u16, such: impl FnOnce(&Acquisition) -> bool) -> bool {
        self.vcpu(v).acquisition(l).is_some_and(such)
    }

    /// Whether that vCPU waits for the lock.
    pub(super) fn waits(&self, v: u16, l: u16) -> bool {
        self.is_in(v, l, Acquisition::waits)
    }

    /// The waiter that is to have the lock next.
    pub(super) fn next(&self, l: u16) -> Option<u16> {
        let lock = self.lock(l);
        match lock.order.next() {
            Next::Vcpu(v) => Some(v),
            Next::Anyone => None,
            // Likelier one that was cut short than one that runs, and one that has tried for long.
            Next::Unseen(smallest) => {
                let likeliness = |v: u16| {
                    let vcpu = self.vcpu(v);
                    (vcpu.runs(), vcpu.acquisition(l).map(|a| a.start), v)
                };
                let waiters = lock.waiters.iter().copied();
                let unseen = waiters.filter(|&v| !self.is_in(v, l, Acquisition::is_placed));
                unseen.min_by_key(|&v| likeliness(v)).or(Some(smallest))
            }
        }
    }

    fn classify(&self, l: u16) -> (Class, Option<u16>) {
        let lock = self.lock(l);
        match lock.holder {
            Some(holder) if self.vcpu(holder).runs() => return (Class::HolderRunning, None),
            Some(_) => return (Class::HolderOff, None),
            None if !lock.known => return (Class::Unknown, None),
            None => {}
        }
        let Some(next) = self.next(l) else {
            return (Class::Open, None);
        };
        let vcpu = self.vcpu(next);
        let head_is_awake = vcpu.halt.is_none() && self.is_in(next, l, Acquisition::is_head);
        let stealable = lock.steals && !head_is_awake;
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
        if let Some(suspect) = self.lock(l).suspect
            && !(self.is_suspect(suspect, l) && self.suspect(l).is_some())
        {
            self.lock_mut(l).suspect = None;
        }
        self.follow_episode(l, now);
    }

    /// Ends and begins the episodes that the lock's state implies.
    fn follow_episode(&mut self, l: u16, now: u64) {
        let lock = self.lock(l);
        let others = lock.waiters.len() > 1;
        let (vcpu, kind) = match lock.class {
            Class::HolderOff if !lock.waiters.is_empty() => (lock.holder, EpisodeKind::Lhp),
            class if others && class.next_is_off() => (lock.next, EpisodeKind::Lwp),
            class if others && class.next_is_kicked() => (lock.next, EpisodeKind::Kick),
            _ => (lock.suspect, EpisodeKind::Lhp),
        };
        let missed = vcpu.map(|vcpu| Missed { kind, vcpu });
        if lock.episode.as_ref().map(|open| open.missed) == missed {
            return;
        }
        let off_since = vcpu.map_or(0, |v| self.vcpu(v).absent_since());
        let lock = self.lock_mut(l);
        lock.close_episode(l, now);
        if let Some(missed) = missed {
            lock.miss(missed, now, off_since, lock.waited);
        }
    }

    /// Ends the account at `end`; unfinished waits are measured up to `end_ns`.
    pub(super) fn finish(mut self, vm: u16, end: u64, end_ns: u64, span_ns: u64) -> VmAccount {
        for l in 0..u16::try_from(self.locks.len()).unwrap_or(u16::MAX) {
            self.advance(l, end);
            self.lock_mut(l).close_episode(l, end);
        }
        for v in 0..u16::try_from(self.vcpus.len()).unwrap_or(u16::MAX) {
            for i in 0..self.vcpu(v).acquisitions.len() {
                self.settle(v, i);
            }
        }
        for vcpu in &self.vcpus {
            for acquisition in vcpu.acquisitions.iter().filter(|a| a.waits()) {
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
