//! The account made the slow way: at each instant, each waiter is asked why it waits.
//!
//! For traces without gaps, of one VM.

use crate::trace::account::{Part, Parts, QUIET_NS};
use crate::trace::{Event, What};
use abi::{HostStep, SwitchKind};
use pvlock::TraceEvent as Step;
use std::collections::HashMap;

#[derive(Clone, Default)]
struct Waiter {
    vcpu: u16,
    start: u64,
    phantom: bool,
    queued: bool,
    head: bool,
    /// When it became head.
    head_at: u64,
    pending: bool,
    /// Unknown, nobody any more, or that one.
    before: Option<Option<u16>>,
    named: Option<u64>,
    ticket: Option<u16>,
    parts: Parts,
}

#[derive(Default)]
struct Lock {
    holder: Option<u16>,
    known: bool,
    releaser: Option<u16>,
    serving: Option<u16>,
    waiters: Vec<Waiter>,
    /// What the lock looked like, and since when it should have been taken.
    look: Option<Look>,
    takeable: bool,
    quiet_since: u64,
}

type Look = (Option<u16>, bool, Option<u16>, Option<Part>, bool);

#[derive(Clone)]
struct Vcpu {
    on: bool,
    guest: bool,
    blocked: bool,
    halted: bool,
    kicked: bool,
    early: bool,
}

impl Vcpu {
    fn runs(&self) -> bool {
        self.on && self.guest && !self.blocked
    }

    fn own(&self) -> Part {
        match (self.halted, self.kicked, self.runs()) {
            (true, true, _) => Part::KickToRun,
            (true, false, _) | (false, _, true) => Part::HandOver,
            (false, _, false) => Part::OwnPreemption,
        }
    }
}

/// A complete acquisition.
pub(super) struct Found {
    pub(super) wait_ns: u64,
    pub(super) parts: Parts,
}

pub(super) struct Reference {
    steals: bool,
    vcpus: Vec<Vcpu>,
    locks: HashMap<u16, Lock>,
    found: Option<Found>,
    now: u64,
    /// Steps so far, to tell which came first.
    steps: u64,
}

impl Reference {
    pub(super) fn new(vcpus: usize, steals: bool) -> Self {
        let vcpu = Vcpu {
            on: true,
            guest: true,
            blocked: false,
            halted: false,
            kicked: false,
            early: false,
        };
        Self {
            steals,
            vcpus: vec![vcpu; vcpus],
            locks: HashMap::new(),
            found: None,
            now: 0,
            steps: 0,
        }
    }

    /// Takes in an event; returns the acquisition that it completes.
    pub(super) fn event(&mut self, event: &Event) -> Option<Found> {
        self.pass(event.at);
        self.take(event);
        self.look();
        self.found.take()
    }

    /// The next waiter of a free lock.
    pub(super) fn next_of(&self, l: u16) -> Option<u16> {
        self.locks.get(&l)?.look?.2
    }

    fn runs(&self, v: u16) -> bool {
        self.vcpus[usize::from(v)].runs()
    }

    fn front(lock: &Lock) -> Option<u16> {
        let heads = lock.waiters.iter().filter(|w| w.head);
        let head = heads.min_by_key(|w| w.head_at);
        let first = || lock.waiters.iter().find(|w| w.before == Some(None));
        head.or_else(first).map(|w| w.vcpu)
    }

    fn next(&self, lock: &Lock) -> Option<u16> {
        let waiters = &lock.waiters;
        let pending = waiters.iter().filter(|w| w.pending);
        let pending = pending.min_by_key(|w| w.head_at).map(|w| w.vcpu);
        let serving = lock.serving;
        pending
            .or_else(|| Self::front(lock))
            .or_else(|| {
                let mut unplaced = waiters.iter().filter(|w| w.before.is_none());
                let named = unplaced.by_ref().filter(|w| w.named.is_some());
                named.min_by_key(|w| w.named).map(|w| w.vcpu)
            })
            .or_else(|| {
                let tickets = || waiters.iter().filter(|w| w.ticket.is_some());
                tickets().next()?;
                let served = tickets().find(|w| serving.is_some() && w.ticket == serving);
                let unseen = |w: &&Waiter| serving.is_some() && w.ticket.is_none();
                let unseen = waiters.iter().filter(unseen);
                let likeliest = unseen.min_by_key(|w| (self.runs(w.vcpu), w.start, w.vcpu));
                // The smallest is the one that all others are at most half the circle above.
                let smallest = tickets().find(|w| {
                    tickets().all(|o| o.ticket.unwrap().wrapping_sub(w.ticket.unwrap()) < 0x8000)
                });
                served.or(likeliest).or(smallest).map(|w| w.vcpu)
            })
    }

    fn placed(waiter: &Waiter) -> bool {
        waiter.queued || waiter.pending || waiter.ticket.is_some() || waiter.named.is_some()
    }

    fn look_of(&self, lock: &Lock) -> Look {
        if lock.holder.is_some() || !lock.known {
            let runs = lock.holder.is_some_and(|holder| self.runs(holder));
            return (lock.holder, lock.known, None, None, runs);
        }
        let next = self.next(lock);
        let own = next.map(|next| self.vcpus[usize::from(next)].own());
        let awake = next.is_some_and(|next| {
            let head = |w: &Waiter| w.vcpu == next && (w.head || w.pending);
            lock.waiters.iter().any(head) && !self.vcpus[usize::from(next)].halted
        });
        (None, true, next, own, self.steals && !awake)
    }

    fn look(&mut self) {
        for l in 0..8 {
            let Some(lock) = self.locks.get(&l) else {
                continue;
            };
            let look = self.look_of(lock);
            let takeable = look.2.is_some() || lock.waiters.iter().any(|w| self.runs(w.vcpu));
            let fresh = lock.look != Some(look) || (takeable && !lock.takeable);
            let now = self.now;
            let lock = self.locks.get_mut(&l).unwrap();
            if fresh {
                lock.quiet_since = now;
            }
            lock.look = Some(look);
            lock.takeable = takeable;
        }
    }

    fn has_suspect(&self, lock: &Lock) -> bool {
        let next = self.next(lock);
        let absent = |w: &Waiter| {
            let may_hold = !Self::placed(w) || w.head || w.pending;
            may_hold && !self.runs(w.vcpu) && Some(w.vcpu) != next
        };
        lock.takeable
            && (lock.releaser.is_some_and(|v| !self.runs(v)) || lock.waiters.iter().any(absent))
    }

    fn why(&self, lock: &Lock, waiter: &Waiter) -> Part {
        let own = self.vcpus[usize::from(waiter.vcpu)].own();
        match lock.look {
            None => Part::Unattributed,
            Some((Some(_), _, _, _, true)) => Part::HolderRunning,
            Some((Some(_), _, _, _, false)) => Part::HolderPreempted,
            Some((None, false, ..)) => Part::Unattributed,
            Some((None, true, None, ..)) => own,
            Some((None, true, Some(next), ..)) if next == waiter.vcpu => own,
            Some((None, true, Some(_), _, true)) if !Self::placed(waiter) => own,
            Some((None, true, Some(_), Some(Part::OwnPreemption), _)) => Part::NextPreempted,
            Some((None, true, Some(_), part, _)) => part.unwrap(),
        }
    }

    /// Lets time pass.
    fn pass(&mut self, now: u64) {
        let since = std::mem::replace(&mut self.now, now);
        let mut locks = std::mem::take(&mut self.locks);
        for lock in locks.values_mut() {
            let believed_until = match lock.look {
                Some((None, true, _, None | Some(Part::HandOver), _)) if self.has_suspect(lock) => {
                    (lock.quiet_since + QUIET_NS).clamp(since, now)
                }
                _ => now,
            };
            for i in 0..lock.waiters.len() {
                let part = self.why(lock, &lock.waiters[i]);
                let parts = &mut lock.waiters[i].parts;
                parts.add(part, believed_until - since);
                parts.add(Part::HolderPreempted, now - believed_until);
            }
        }
        self.locks = locks;
    }

    fn take(&mut self, event: &Event) {
        let v = event.place.vcpu;
        let vcpu = &mut self.vcpus[usize::from(v)];
        match event.what {
            What::Switch { kind, .. } => vcpu.on = kind == SwitchKind::In,
            What::Host(HostStep::Exit(_)) => vcpu.guest = false,
            What::Host(HostStep::Blocked) => vcpu.blocked = true,
            What::Host(HostStep::Unblocked) => vcpu.blocked = false,
            What::Host(HostStep::Enter) => {
                (vcpu.guest, vcpu.blocked) = (true, false);
                if vcpu.kicked {
                    (vcpu.halted, vcpu.kicked) = (false, false);
                }
            }
            What::Lock { lock, step } => self.step(v, lock, step, event.at),
            What::Host(HostStep::Injected(_)) | What::Gap { .. } => unimplemented!(),
        }
    }

    fn waiter(&mut self, v: u16, l: u16) -> &mut Waiter {
        let waiters = &mut self.locks.get_mut(&l).unwrap().waiters;
        let known = waiters.iter().position(|w| w.vcpu == v);
        if known.is_none() {
            waiters.push(Waiter {
                vcpu: v,
                phantom: true,
                ..Waiter::default()
            });
        }
        let last = waiters.len() - 1;
        &mut waiters[known.unwrap_or(last)]
    }

    fn step(&mut self, v: u16, l: u16, step: Step, at: u64) {
        self.steps += 1;
        let order = self.steps;
        for lock in self.locks.values_mut() {
            lock.releaser = lock.releaser.filter(|&releaser| releaser != v);
        }
        let lock = self.locks.entry(l).or_default();
        let vcpu = &mut self.vcpus[usize::from(v)];
        match step {
            Step::Start => lock.waiters.push(Waiter {
                vcpu: v,
                start: at,
                ..Waiter::default()
            }),
            Step::QueuedBehind(before) => {
                let before = before.map(|before| before.try_into().unwrap());
                let before = before.filter(|_| before != lock.holder);
                if let Some(before) = before {
                    // It waits, even if this was not seen.
                    self.waiter(before, l).named.get_or_insert(order);
                }
                let waiter = self.waiter(v, l);
                waiter.queued = true;
                waiter.before = Some(before);
            }
            Step::QueuedWithTicket(ticket) => self.waiter(v, l).ticket = Some(ticket),
            Step::Head => {
                let known = lock.waiters.iter().find(|w| w.vcpu == v);
                let pending = known.is_some_and(|w| !w.queued && w.named.is_none());
                let waiter = self.waiter(v, l);
                (waiter.pending, waiter.head) = (pending, !pending);
                waiter.head_at = order;
                waiter.queued |= !pending;
            }
            Step::HaltQueued | Step::HaltHead => {
                vcpu.halted = true;
                vcpu.kicked = std::mem::take(&mut vcpu.early);
                let waiter = self.waiter(v, l);
                waiter.queued = true;
                if step == Step::HaltHead && !waiter.head {
                    (waiter.head, waiter.head_at) = (true, order);
                }
            }
            Step::Woken => {
                (vcpu.halted, vcpu.kicked, vcpu.early) = (false, false, false);
                self.waiter(v, l).queued = true;
            }
            Step::Kick(target) => {
                let front = Self::front(lock);
                let is_target = |w: &Waiter| u32::from(w.vcpu) == target;
                let known = lock.waiters.iter_mut().find(|w| is_target(w));
                if let (None, Some(kicked)) = (front, known)
                    && self.vcpus[usize::from(kicked.vcpu)].halted
                {
                    kicked.before = Some(None);
                }
                let waits = lock.waiters.iter().any(is_target);
                let target = &mut self.vcpus[usize::try_from(target).unwrap()];
                target.kicked |= target.halted;
                target.early |= !target.halted && waits;
            }
            Step::Acquired(_) => {
                if let Some(i) = lock.waiters.iter().position(|w| w.vcpu == v) {
                    let waiter = lock.waiters.remove(i);
                    let behind = |w: &&mut Waiter| w.before == Some(Some(v));
                    let behind = lock.waiters.iter_mut().filter(behind);
                    behind.for_each(|w| w.before = Some(None));
                    lock.serving = waiter.ticket.or(lock.serving);
                    if !waiter.phantom {
                        self.found = Some(Found {
                            wait_ns: at - waiter.start,
                            parts: waiter.parts,
                        });
                    }
                }
                lock.holder = Some(v);
                lock.known = true;
                lock.releaser = None;
            }
            Step::Release => {
                // Taken for a waiter, because its acquisition was not seen.
                lock.waiters.retain(|w| w.vcpu != v);
                lock.holder = None;
                lock.known = true;
                lock.releaser = Some(v);
                lock.serving = lock.serving.map(|ticket| ticket.wrapping_add(1));
            }
            Step::Spurious | Step::Yield(_) => {}
        }
    }
}
