//! What each step of an acquisition changes.

use super::clock::Class;
use super::lock::Lock;
use super::order::Ahead;
use super::result::add;
use super::vcpu::{Acquisition, Halt, Stage, Standing};
use super::vm::VmTracker;
use pvlock::TraceEvent;
use pvlock::trace::How;

impl VmTracker {
    /// Takes in a step of `v` on lock `l`, with the time stamp `at`. False if it names a vCPU that there
    /// is not.
    pub(super) fn step(&mut self, v: u16, l: u16, step: TraceEvent, at: u64, now: u64) -> bool {
        let target = match step {
            TraceEvent::QueuedBehind(Some(t)) | TraceEvent::Kick(t) | TraceEvent::Yield(t) => {
                match u16::try_from(t) {
                    Ok(t) if usize::from(t) < self.vcpus.len() => t,
                    _ => return false,
                }
            }
            _ => v,
        };
        self.goes_on(v, now);
        self.advance(l, now);
        self.resolve_yield(v, l);
        match step {
            TraceEvent::Start => self.start(v, l, at),
            TraceEvent::QueuedBehind(before) => self.queued(v, l, before.map(|_| target)),
            TraceEvent::QueuedWithTicket(ticket) => self.ticket(v, l, ticket),
            TraceEvent::Head => self.head(v, l),
            TraceEvent::HaltQueued => self.halt(v, l, false, now),
            TraceEvent::HaltHead => self.halt(v, l, true, now),
            TraceEvent::Woken => self.woken(v, l, now),
            TraceEvent::Spurious => self.spurious(v, l),
            TraceEvent::Acquired(how) => self.acquired(v, l, how, at),
            TraceEvent::Release => self.release(v, l),
            TraceEvent::Kick(_) => self.kick(target, l, now),
            TraceEvent::Yield(_) => self.yields(v, l, target),
        }
        self.reclassify(l, now);
        true
    }

    /// `v` does something: its last release is complete.
    fn goes_on(&mut self, v: u16, now: u64) {
        let Some(l) = self.vcpu_mut(v).releasing.take() else {
            return;
        };
        self.advance(l, now);
        let lock = self.lock_mut(l);
        lock.releaser = None;
        if lock.suspect.is_some() {
            self.reclassify(l, now);
        }
    }

    /// The acquisition of `l` that `v` is in. If its beginning was not seen, one is made up that has its
    /// place among the waiters but is not accounted.
    fn acquisition(&mut self, v: u16, l: u16) -> usize {
        self.vcpu(v).position(l).unwrap_or_else(|| {
            let i = self.begin(v, l, 0);
            self.vcpu_mut(v).acquisitions[i].phantom = true;
            i
        })
    }

    /// As [`Self::acquisition`], which has a place in the order, at least that `standing`. What came
    /// before is accounted for as the wait of one that had the standing before.
    fn placed(&mut self, v: u16, l: u16, standing: Standing) -> &mut Acquisition {
        let i = self.acquisition(v, l);
        self.settle(v, i);
        let acquisition = &mut self.vcpu_mut(v).acquisitions[i];
        acquisition.standing = acquisition.standing.max(standing);
        acquisition
    }

    fn begin(&mut self, v: u16, l: u16, at: u64) -> usize {
        if self.lock(l).class == Class::Open && !self.some_waiter_runs(l) {
            // From now on somebody can take it. The clocks have just been read.
            let lock = self.lock_mut(l);
            lock.quiet_since = lock.since;
        }
        let lock = self.lock_mut(l);
        let acquisition = Acquisition {
            lock: l,
            start: at,
            index: lock.waiters.len(),
            seen: lock.clocks,
            ..Acquisition::default()
        };
        lock.waiters.push(v);
        let acquisitions = &mut self.vcpu_mut(v).acquisitions;
        acquisitions.push(acquisition);
        acquisitions.len() - 1
    }

    fn start(&mut self, v: u16, l: u16, at: u64) {
        if let Some(i) = self.vcpu(v).position(l) {
            // It does not wait for a lock that it waits for or holds: something was not seen.
            self.lock_mut(l).tally.incomplete += 1;
            self.abandon(v, i);
        }
        self.vcpu_mut(v).lost = false;
        self.begin(v, l, at);
    }

    fn queued(&mut self, v: u16, l: u16, before: Option<u16>) {
        self.placed(v, l, Standing::Located);
        let ahead = match before {
            Some(p) if self.lock(l).holder == Some(p) => Ahead::Nobody,
            Some(p) if self.vcpu(p).lost => Ahead::Unknown,
            // It waits, seen or not: it does not leave the queue before `v` is behind it.
            Some(p) => {
                if self.placed(p, l, Standing::Placed).standing < Standing::Located {
                    // It could not say yet where it has queued.
                    self.lock_mut(l).order.named(p);
                }
                Ahead::Waiter(p)
            }
            None => Ahead::Nobody,
        };
        self.lock_mut(l).order.queued(v, ahead);
    }

    fn ticket(&mut self, v: u16, l: u16, ticket: u16) {
        self.placed(v, l, Standing::Placed).ticket = Some(ticket);
        self.lock_mut(l).order.ticket(v, ticket);
    }

    fn head(&mut self, v: u16, l: u16) {
        let pending = self.is_in(v, l, |acquisition| !acquisition.is_placed());
        self.placed(v, l, Standing::Head);
        self.lock_mut(l).order.head(v, !pending);
    }

    fn halt(&mut self, v: u16, l: u16, head: bool, now: u64) {
        let standings = [Standing::Placed, Standing::Head];
        let acquisition = self.placed(v, l, standings[usize::from(head)]);
        let again = std::mem::take(&mut acquisition.woken_as_next);
        let Lock { tally, order, .. } = self.lock_mut(l);
        tally.futile_halts += u64::from(again);
        if head {
            tally.halts_head += 1;
            order.head(v, true);
        } else {
            tally.halts_queued += 1;
        }
        self.change(v, now, |vcpu| {
            // A kick that came before makes this halt end at once, as if it came now.
            let kicked = std::mem::take(&mut vcpu.kick_pending).then_some(now);
            vcpu.halt = Some(Halt { lock: l, kicked });
        });
    }

    fn woken(&mut self, v: u16, l: u16, now: u64) {
        self.up(v, now);
        self.change(v, now, |vcpu| {
            vcpu.halt = None;
            vcpu.kick_pending = false;
        });
        self.placed(v, l, Standing::Placed).woken_as_next = true;
    }

    fn spurious(&mut self, v: u16, l: u16) {
        self.placed(v, l, Standing::Placed).woken_as_next = false;
        self.lock_mut(l).tally.futile_halts += 1;
    }

    /// `v` runs in the guest: if it was kicked for it, its halt is over.
    pub(super) fn up(&mut self, v: u16, now: u64) {
        if let Some(halt) = self.vcpu(v).halt
            && let Some(kicked) = halt.kicked
        {
            let distribution = &mut self.lock_mut(halt.lock).tally.kick_to_run_ns;
            distribution.record(now - kicked);
            self.change(v, now, |vcpu| vcpu.halt = None);
        }
    }

    fn acquired(&mut self, v: u16, l: u16, how: How, at: u64) {
        let waits = self.waits(v, l);
        let (i, ticket) = match self.vcpu(v).position(l) {
            Some(i) if waits => {
                self.settle(v, i);
                self.end_wait(v, i, how, at);
                (i, self.vcpu(v).acquisitions[i].ticket)
            }
            Some(i) => {
                self.lock_mut(l).tally.incomplete += 1;
                (i, None)
            }
            None => {
                // Only try_lock acquires without having started.
                let lock = self.lock_mut(l);
                match how {
                    How::Fast => lock.tally.tried += 1,
                    _ => lock.tally.incomplete += 1,
                }
                let acquisitions = &mut self.vcpu_mut(v).acquisitions;
                acquisitions.push(Acquisition {
                    lock: l,
                    ..Acquisition::default()
                });
                (acquisitions.len() - 1, None)
            }
        };
        self.vcpu_mut(v).acquisitions[i].stage = Stage::Holding;
        self.vcpu_mut(v).lost = false;

        let lock = self.lock_mut(l);
        lock.tally.overlaps += u64::from(lock.holder.is_some_and(|holder| holder != v));
        lock.holder = Some(v);
        lock.known = true;
        let releaser = lock.releaser.take();
        let successor = lock.order.acquired(v, ticket, how == How::Queue);
        if let Some(releaser) = releaser {
            self.vcpu_mut(releaser).releasing = None;
        }
        if let Some(next) = successor.filter(|&next| self.waits(next, l)) {
            let knows = self.is_in(next, l, Acquisition::is_head);
            self.lock_mut(l).order.handed(next, knows);
        }
    }

    /// Accounts the wait of an acquisition, settled, that has got the lock.
    fn end_wait(&mut self, v: u16, i: usize, how: How, at: u64) {
        self.leave(v, i);
        let acquisition = &self.vcpus[usize::from(v)].acquisitions[i];
        let tally = &mut self.locks[usize::from(acquisition.lock)].tally;
        if acquisition.phantom {
            tally.incomplete += 1;
            return;
        }
        tally.acquisitions += 1;
        tally.waited += u64::from(how != How::Fast);
        // From the time stamps alone, so that the clocks can be checked against it.
        tally.wait(at.saturating_sub(acquisition.start), &acquisition.parts);
    }

    /// Takes a waiter from the lock's list.
    fn leave(&mut self, v: u16, i: usize) {
        let acquisition = &self.vcpu(v).acquisitions[i];
        let (l, index) = (acquisition.lock, acquisition.index);
        let waiters = &mut self.locks[usize::from(l)].waiters;
        waiters.swap_remove(index);
        if let Some(&moved) = waiters.get(index)
            && let Some(j) = self.vcpu(moved).position(l)
        {
            self.vcpu_mut(moved).acquisitions[j].index = index;
        }
    }

    fn release(&mut self, v: u16, l: u16) {
        match self.vcpu(v).position(l) {
            Some(i) if !self.vcpu(v).acquisitions[i].waits() => {
                self.vcpu_mut(v).acquisitions.swap_remove(i);
            }
            Some(i) => {
                self.lock_mut(l).tally.incomplete += 1;
                self.abandon(v, i);
            }
            None => self.lock_mut(l).tally.incomplete += 1,
        }
        let lock = self.lock_mut(l);
        if lock.holder.is_some_and(|holder| holder != v) {
            // The next holder was seen before this release.
            return;
        }
        lock.holder = None;
        lock.known = true;
        lock.releases += 1;
        lock.releaser = Some(v);
        lock.order.released();
        self.vcpu_mut(v).releasing = Some(l);
    }

    fn kick(&mut self, target: u16, l: u16, now: u64) {
        self.lock_mut(l).tally.kicks += 1;
        let waits = self.waits(target, l);
        // One that comes late, when its target is awake and in another acquisition, tells nothing.
        if waits && self.vcpu(target).halt.is_some() {
            self.lock_mut(l).order.kicked(target);
        }
        self.change(target, now, |vcpu| match &mut vcpu.halt {
            Some(halt) => halt.kicked = halt.kicked.or(Some(now)),
            None => vcpu.kick_pending |= waits,
        });
    }

    fn yields(&mut self, v: u16, l: u16, target: u16) {
        let runs = self.vcpu(target).runs();
        let releases = self.lock(l).releases;
        let tally = &mut self.lock_mut(l).tally;
        tally.yields += 1;
        tally.futile_yields += u64::from(runs);
        let i = self.acquisition(v, l);
        self.vcpu_mut(v).acquisitions[i].yielded_at = (!runs).then_some(releases);
    }

    /// `v` runs again after it yielded: that was futile if the lock has not been released since.
    fn resolve_yield(&mut self, v: u16, l: u16) {
        let vcpu = &mut self.vcpus[usize::from(v)];
        let Some(i) = vcpu.position(l) else {
            return;
        };
        let lock = &mut self.locks[usize::from(l)];
        if vcpu.acquisitions[i].yielded_at.take() == Some(lock.releases) {
            lock.tally.futile_yields += 1;
        }
    }

    /// The vCPU is held off its CPU on purpose for `ns`.
    pub(super) fn injected(&mut self, v: u16, ns: u64) {
        for i in 0..self.vcpu(v).acquisitions.len() {
            let acquisition = &self.vcpu(v).acquisitions[i];
            let l = acquisition.lock;
            let holds = !acquisition.waits();
            let next = !holds && self.next(l) == Some(v);
            let injected = &mut self.lock_mut(l).tally.injected;
            if holds {
                injected.holder += 1;
                add(&mut injected.holder_ns, ns);
            } else if next {
                injected.next += 1;
                add(&mut injected.next_ns, ns);
            }
        }
    }

    /// Gives up an acquisition whose steps were not all seen.
    fn abandon(&mut self, v: u16, i: usize) {
        let acquisition = &self.vcpu(v).acquisitions[i];
        let (l, ticket) = (acquisition.lock, acquisition.ticket);
        if acquisition.waits() {
            self.leave(v, i);
            self.lock_mut(l).order.forget(v, ticket);
        } else if self.lock(l).holder == Some(v) {
            let lock = self.lock_mut(l);
            lock.holder = None;
            lock.known = false;
        }
        self.vcpu_mut(v).acquisitions.swap_remove(i);
    }

    /// Events of `v` are missing: what it was about to do is not known, nor who holds what is free.
    pub(super) fn gap(&mut self, v: u16, now: u64) {
        self.goes_on(v, now);
        let locks = 0..u16::try_from(self.locks.len()).unwrap_or(u16::MAX);
        for l in locks.clone() {
            self.advance(l, now);
        }
        while let Some(acquisition) = self.vcpu(v).acquisitions.last() {
            let accounted = acquisition.waits() && !acquisition.phantom;
            self.lock_mut(acquisition.lock).tally.dropped += u64::from(accounted);
            self.abandon(v, self.vcpu(v).acquisitions.len() - 1);
        }
        let vcpu = self.vcpu_mut(v);
        vcpu.halt = None;
        vcpu.kick_pending = false;
        vcpu.lost = true;
        for l in locks {
            let lock = self.lock_mut(l);
            lock.order.gap(v);
            lock.known = lock.holder.is_some();
            self.reclassify(l, now);
        }
    }
}
