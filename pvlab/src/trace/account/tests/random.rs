//! Random timelines of vCPUs that acquire locks as the real ones do, compared with the reference.

use super::reference::Reference;
use crate::figures::Random;
use crate::trace::account::{Accountant, Part, Parts, Setup, VmSetup};
use crate::trace::{Event, Place, What};
use abi::{ExitReason, HostStep, SwitchKind};
use pvlock::LockKind::{self, PvQSpinLock, QSpinLock, Tas, Ticket};
use pvlock::TraceEvent as Step;
use pvlock::trace::How;

const LOCKS: u16 = 3;

struct Rng(Random);

impl Rng {
    fn below<T: TryFrom<u64, Error: std::fmt::Debug>>(&mut self, n: impl Into<u64>) -> T {
        (self.0.bits() % n.into()).try_into().unwrap()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below::<u64>(n) == 0
    }
}

/// What a vCPU is about to do. Between two of these it can lose its CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Todo {
    Choose,
    Try(u16),
    Say(u16, Step),
    HandOn(u16),
    Pending(u16),
    Swapped(u16, Option<u16>),
    Queued(u16),
    Head(u16),
    Halted(u16, bool),
    Drawn(u16, u16),
    Served(u16, u16),
    LetGo(u16),
    Kick(u16, u16),
}

#[derive(Default)]
struct Lock {
    held: bool,
    pending: Option<u16>,
    queue: Vec<u16>,
    /// The front of the queue has been told.
    handed: Option<u16>,
    /// The head sleeps, or will be woken as if it did.
    hashed: Option<u16>,
    next_ticket: u16,
    serving: u16,
}

#[derive(Clone)]
struct Vcpu {
    todo: Todo,
    holds: Vec<u16>,
    on: bool,
    guest: bool,
    kicked: bool,
}

struct World {
    kind: LockKind,
    rng: Rng,
    now: u64,
    locks: Vec<Lock>,
    vcpus: Vec<Vcpu>,
    events: Vec<Event>,
}

impl World {
    fn events(kind: LockKind, vcpus: u16, seed: u64, steps: usize) -> Vec<Event> {
        let vcpu = Vcpu {
            todo: Todo::Choose,
            holds: Vec::new(),
            on: true,
            guest: true,
            kicked: false,
        };
        let mut world = Self {
            kind,
            rng: Rng(Random::new(seed)),
            now: 0,
            locks: (0..LOCKS).map(|_| Lock::default()).collect(),
            vcpus: vec![vcpu; vcpus.into()],
            events: Vec::new(),
        };
        for lock in &mut world.locks {
            // Some wrap within the test.
            let ticket = 65_530 + world.rng.below::<u16>(6u16);
            (lock.next_ticket, lock.serving) = (ticket, ticket);
        }
        for _ in 0..steps {
            world.now += match world.rng.below(60u64) {
                0u64 => world.rng.below(60_000u64),
                1..10 => world.rng.below(2_000u64),
                10..20 => 0,
                _ => world.rng.below(100u64),
            };
            let v = world.rng.below(vcpus);
            world.happen(v);
        }
        world.events
    }

    fn push(&mut self, v: u16, what: What) {
        let place = Place { vm: 0, vcpu: v };
        let at = self.now;
        self.events.push(Event { at, place, what });
    }

    fn switch(&mut self, v: u16, cpu: u16, kind: SwitchKind) {
        self.push(v, What::Switch { cpu, kind });
    }

    fn say(&mut self, v: u16, lock: u16, step: Step) {
        self.push(v, What::Lock { lock, step });
    }

    fn happen(&mut self, v: u16) {
        let rare = self.rng.one_in(12);
        let vcpu = &mut self.vcpus[usize::from(v)];
        if let (Todo::Halted(..), false) = (vcpu.todo, vcpu.guest) {
            if !vcpu.on && (vcpu.kicked || rare) {
                vcpu.on = true;
                self.switch(v, 0, SwitchKind::In);
            } else if vcpu.on {
                vcpu.guest = true;
                self.push(v, What::Host(HostStep::Unblocked));
                self.push(v, What::Host(HostStep::Enter));
            }
            return;
        }
        match (vcpu.on, vcpu.guest) {
            (false, _) => {
                vcpu.on = true;
                self.switch(v, 1, SwitchKind::In);
            }
            (true, false) => {
                vcpu.guest = true;
                self.push(v, What::Host(HostStep::Enter));
            }
            (true, true) if rare && self.rng.one_in(2) => {
                self.vcpus[usize::from(v)].guest = false;
                self.push(v, What::Host(HostStep::Exit(ExitReason::Other)));
            }
            (true, true) if rare => {
                vcpu.on = false;
                self.switch(v, 1, SwitchKind::OutPreempted);
            }
            (true, true) => {
                let todo = vcpu.todo;
                let todo = self.go_on(v, todo);
                self.vcpus[usize::from(v)].todo = todo;
            }
        }
    }

    fn lock(&mut self, l: u16) -> &mut Lock {
        &mut self.locks[usize::from(l)]
    }

    fn acquire(&mut self, v: u16, l: u16, how: How) -> Todo {
        self.lock(l).held = true;
        self.vcpus[usize::from(v)].holds.push(l);
        Todo::Say(l, Step::Acquired(how))
    }

    fn go_on(&mut self, v: u16, todo: Todo) -> Todo {
        let pv = self.kind == PvQSpinLock;
        match todo {
            Todo::Choose => {
                let holds = &self.vcpus[usize::from(v)].holds;
                let top = holds.last().copied();
                let lowest = top.map_or(0, |top| top + 1);
                if lowest < LOCKS && (top.is_none() || self.rng.one_in(3)) {
                    let l = lowest + self.rng.below::<u16>(LOCKS - lowest);
                    self.say(v, l, Step::Start);
                    return Todo::Try(l);
                }
                let Some(l) = top else {
                    return Todo::Choose;
                };
                self.vcpus[usize::from(v)].holds.pop();
                self.say(v, l, Step::Release);
                Todo::LetGo(l)
            }
            Todo::Try(l) => self.try_for(v, l),
            Todo::Say(l, step) => {
                self.say(v, l, step);
                match step {
                    Step::Acquired(How::Queue) => Todo::HandOn(l),
                    _ => Todo::Choose,
                }
            }
            Todo::HandOn(l) => {
                let next = self.lock(l).queue.first().copied();
                let doing = next.map(|next| self.vcpus[usize::from(next)].todo);
                match doing {
                    // It has not told its predecessor yet who is behind it.
                    Some(Todo::Swapped(_, Some(_))) => return todo,
                    Some(Todo::Halted(..)) => self.lock(l).hashed = next,
                    _ => {}
                }
                self.lock(l).handed = next;
                Todo::Choose
            }
            Todo::Pending(l) if !self.lock(l).held => {
                self.lock(l).pending = None;
                self.acquire(v, l, How::Pending)
            }
            Todo::Swapped(l, before) => {
                self.say(v, l, Step::QueuedBehind(before.map(u32::from)));
                Todo::Queued(l)
            }
            Todo::Queued(l) if self.lock(l).handed == Some(v) => {
                self.say(v, l, Step::Head);
                Todo::Head(l)
            }
            Todo::Queued(l) if pv && self.rng.one_in(3) => {
                self.halt(v, l, Step::HaltQueued);
                Todo::Halted(l, false)
            }
            Todo::Head(l) => {
                let state = self.lock(l);
                if !state.held && state.pending.is_none() {
                    state.queue.remove(0);
                    state.handed = None;
                    return self.acquire(v, l, How::Queue);
                }
                if pv && state.held && self.rng.one_in(3) {
                    self.lock(l).hashed = Some(v);
                    self.halt(v, l, Step::HaltHead);
                    return Todo::Halted(l, true);
                }
                todo
            }
            Todo::Halted(l, head) => {
                self.vcpus[usize::from(v)].kicked = false;
                self.say(v, l, Step::Woken);
                if head {
                    return Todo::Head(l);
                }
                if self.lock(l).handed != Some(v) {
                    self.say(v, l, Step::Spurious);
                }
                Todo::Queued(l)
            }
            Todo::Drawn(l, ticket) => {
                self.say(v, l, Step::QueuedWithTicket(ticket));
                Todo::Served(l, ticket)
            }
            Todo::Served(l, ticket) if self.lock(l).serving == ticket => {
                self.acquire(v, l, How::Queue)
            }
            Todo::LetGo(l) => {
                let state = self.lock(l);
                state.held = false;
                state.serving = state.serving.wrapping_add(1);
                let hashed = state.hashed.take();
                hashed.map_or(Todo::Choose, |head| Todo::Kick(l, head))
            }
            Todo::Kick(l, head) => {
                self.vcpus[usize::from(head)].kicked = true;
                self.say(v, l, Step::Kick(head.into()));
                Todo::Choose
            }
            Todo::Pending(_) | Todo::Queued(_) | Todo::Served(..) => todo,
        }
    }

    fn try_for(&mut self, v: u16, l: u16) -> Todo {
        let lock = &mut self.locks[usize::from(l)];
        let empty = lock.queue.is_empty() && lock.pending.is_none();
        match self.kind {
            Tas if !lock.held => self.acquire(v, l, How::Stolen),
            Ticket => {
                let ticket = lock.next_ticket;
                lock.next_ticket = ticket.wrapping_add(1);
                if ticket == lock.serving {
                    return self.acquire(v, l, How::Fast);
                }
                Todo::Drawn(l, ticket)
            }
            QSpinLock if empty && !lock.held => self.acquire(v, l, How::Fast),
            QSpinLock if empty => {
                lock.pending = Some(v);
                if self.rng.one_in(4) {
                    // Not quick enough to see it held.
                    return Todo::Pending(l);
                }
                self.say(v, l, Step::Head);
                Todo::Pending(l)
            }
            PvQSpinLock if !lock.held => self.acquire(v, l, How::Stolen),
            PvQSpinLock if self.rng.one_in(2) => Todo::Try(l),
            QSpinLock | PvQSpinLock => {
                let before = lock.queue.last().copied();
                lock.queue.push(v);
                if before.is_none() {
                    lock.handed = Some(v);
                }
                Todo::Swapped(l, before)
            }
            _ => Todo::Try(l),
        }
    }

    fn halt(&mut self, v: u16, l: u16, step: Step) {
        self.say(v, l, step);
        let vcpu = &mut self.vcpus[usize::from(v)];
        if vcpu.kicked {
            return;
        }
        vcpu.guest = false;
        vcpu.on = false;
        self.push(v, What::Host(HostStep::Exit(ExitReason::Halt)));
        self.push(v, What::Host(HostStep::Blocked));
        self.switch(v, 1, SwitchKind::Out);
    }
}

fn accountant(kind: LockKind, vcpus: u16) -> Accountant {
    let (simulated, lock) = (false, kind.into());
    let (vcpus, locks) = (vcpus.into(), LOCKS.into());
    let vms = vec![VmSetup { lock, vcpus, locks }];
    Accountant::new(&Setup { vms, simulated })
}

/// Compares what each event makes of the account with the reference.
fn check(kind: LockKind, vcpus: u16, seed: u64, from: usize) -> usize {
    let events = World::events(kind, vcpus, seed, 1500);
    let events = &events[from.min(events.len())..];
    let mut accountant = accountant(kind, vcpus);
    let mut reference = Reference::new(vcpus.into(), kind == PvQSpinLock);
    let mut before = [(); LOCKS as usize].map(|()| (0, Parts::default()));
    let mut acquisitions = 0;
    for (i, event) in (from..).zip(events) {
        accountant.event(event);
        let expected = reference.event(event);
        let what = || format!("event {i}, {event:?} of {kind}, {vcpus} vCPUs, seed {seed}");
        for l in 0..LOCKS {
            let next = accountant.vms[0].locks[usize::from(l)].next;
            assert_eq!(next, reference.next_of(l), "next of lock {l} at {}", what());
        }
        let What::Lock { lock, .. } = event.what else {
            continue;
        };
        let tally = &accountant.vms[0].locks[usize::from(lock)].tally;
        let now = (tally.acquisitions, tally.parts_ns);
        let (count, parts) = std::mem::replace(&mut before[usize::from(lock)], now);
        assert_eq!(now.0 > count, expected.is_some(), "{}", what());
        if let Some(expected) = expected {
            acquisitions += 1;
            let expected_sum = expected.parts.sum();
            let wait = expected.wait_ns;
            assert_eq!(expected_sum, wait, "the reference at {}", what());
            for part in Part::ALL {
                let ns = now.1[part] - parts[part];
                assert_eq!(ns, expected.parts[part], "{part:?} at {}", what());
            }
        }
    }
    let account = accountant.finish(events.last().map_or(0, |event| event.at));
    assert_eq!((account.foreign_events, account.sum_violations()), (0, 0));
    acquisitions
}

#[test]
fn every_acquisition_agrees_with_the_reference() {
    for kind in [Tas, Ticket, QSpinLock, PvQSpinLock] {
        for seed in 0..60 {
            let vcpus = 2 + u16::try_from(seed % 7).unwrap();
            let from = if seed % 3 == 2 { 150 } else { 0 };
            let acquisitions = check(kind, vcpus, seed, from);
            assert!(acquisitions > 10, "{kind}, seed {seed}: {acquisitions}");
        }
    }
}

#[test]
fn all_parts_occur_in_random_timelines() {
    let mut parts = Parts::default();
    for seed in 0..40 {
        let events = World::events(PvQSpinLock, 6, seed, 1500);
        let mut accountant = accountant(PvQSpinLock, 6);
        events.iter().for_each(|event| accountant.event(event));
        parts.add_all(&accountant.finish(0).vms[0].total.parts_ns);
    }
    for part in Part::ALL {
        assert!(parts[part] > 0, "{part:?}");
    }
}
