//! What must hold after every step.

use super::subject::Subject;
use super::{ALL_NODES, Failure, Kick, Machine, Phase, Stepper, Storage, Vcpu, key};
use pvlock::LockKind;
use pvlock::percpu::NodeRef;
use pvlock::qspinlock::pv::{HALTED, HASHED, HASHING};
use pvlock::word::LockWord;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The locked byte of a held lock whose queue head sleeps.
const SLOW: u32 = 3;
/// The pending byte of an asymmetric lock whose queue head sleeps.
const ASLEEP: u32 = 2;

/// That no lock of several kinds has two holders, and that each is free in the end.
pub(super) fn check_mixed<W: LockWord, L: Subject>(
    kind: LockKind,
    machine: &Machine,
    locks: &[L],
) -> Result<(), Failure> {
    let view = View::<W> {
        kind,
        machine,
        storage: machine.storage.downcast_ref().unwrap(),
    };
    (0..locks.len()).try_for_each(|lock| view.one_holder(lock))?;
    let done = machine.vcpus.iter().all(|vcpu| vcpu.done.get());
    that(
        !done || !locks.iter().any(L::is_locked),
        "not free in the end",
    )
    .map_err(|what| view.failure(&what))
}

pub(super) fn check<W: LockWord, L: Subject>(
    kind: LockKind,
    machine: &Machine,
    locks: &[L],
) -> Result<(), Failure> {
    let storage: &Storage<Stepper<W>> = machine.storage.downcast_ref().unwrap();
    let view = View {
        kind,
        machine,
        storage,
    };
    for (lock, raw) in locks.iter().enumerate() {
        view.one_holder(lock)?;
        let words = words(raw);
        view.words(lock, words).map_err(|what| {
            let state = u64::from(words[0]) | u64::from(words[1]) << 32;
            view.failure(&format!("lock {lock}, {}: {what}", kind.describe(state)))
        })?;
    }
    // Lost kicks break this at once; whoever loses them wants to see what comes of it.
    if machine.kick == Kick::Sticky && kind != LockKind::BustedWakeup {
        view.sleepers().map_err(|what| view.failure(&what))?;
    }
    view.ends_clean(locks).map_err(|what| view.failure(&what))
}

/// How many vCPUs read under lock 0.
pub(super) fn sharing(machine: &Machine) -> usize {
    let reads = |vcpu: &&Vcpu| {
        vcpu.phases
            .borrow()
            .iter()
            .any(|p| matches!(p, Phase::Reading(0)))
    };
    machine.vcpus.iter().filter(reads).count()
}

/// The first 64 bits of a lock; what it does not have is 0.
fn words<L>(lock: &L) -> [u32; 2] {
    let word = |i: usize| {
        if size_of::<L>() < 4 * (i + 1) {
            return 0;
        }
        let at = std::ptr::from_ref(lock).cast::<AtomicU32>().wrapping_add(i);
        // SAFETY: every lock is made of 32-bit words, this is one of them, and this thread runs all vCPUs.
        #[allow(unsafe_code)]
        let word = unsafe { &*at };
        word.load(Relaxed)
    };
    [word(0), word(1)]
}

fn that(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// A lock's word, or that of the wait lock within it.
#[derive(Clone, Copy)]
struct Place {
    lock: usize,
    within: bool,
    /// Whether a vCPU is in the critical section that it guards.
    held: bool,
}

struct View<'a, W: LockWord> {
    kind: LockKind,
    machine: &'a Machine,
    storage: &'a Storage<Stepper<W>>,
}

impl<W: LockWord> View<'_, W> {
    fn failure(&self, what: &str) -> Failure {
        Failure::Invariant(format!("{what}\n{}", self.machine.describe()))
    }

    /// Which vCPUs are in a phase for which `is` holds.
    fn who(&self, is: impl Fn(Phase) -> bool) -> Vec<usize> {
        let vcpus = self.machine.vcpus.iter().enumerate();
        vcpus
            .filter(|(_, vcpu)| vcpu.phases.borrow().iter().any(|&phase| is(phase)))
            .map(|(cpu, _)| cpu)
            .collect()
    }

    fn one_holder(&self, lock: usize) -> Result<(), Failure> {
        let holders = self.who(|phase| phase == Phase::Holding(lock));
        if holders.len() > 1 {
            return Err(Failure::TwoHolders { lock, holders });
        }
        let readers = self.who(|phase| phase == Phase::Reading(lock));
        match holders.first() {
            Some(&writer) if !readers.is_empty() => Err(Failure::ReadersBesideWriter {
                lock,
                readers,
                writer,
            }),
            _ => Ok(()),
        }
    }

    /// How many operations are in a phase for which `is` holds. A vCPU can read twice.
    fn count(&self, is: impl Fn(Phase) -> bool) -> u32 {
        let vcpus = self.machine.vcpus.iter();
        let of = |vcpu: &Vcpu| vcpu.phases.borrow().iter().filter(|&&p| is(p)).count();
        u32::try_from(vcpus.map(of).sum::<usize>()).unwrap()
    }

    fn words(&self, lock: usize, [word, second]: [u32; 2]) -> Result<(), String> {
        let own = Place {
            lock,
            within: false,
            held: self.held(lock),
        };
        // The holder of the wait lock is waiting, and nobody has it for long.
        let wait = Place {
            within: true,
            held: false,
            ..own
        };
        match self.kind {
            LockKind::Ticket => self.ticket(own, word),
            LockKind::QSpinLock | LockKind::Cna => self.queue(own, word),
            kind if kind.traits().halts && kind.traits().steals => self.queue(own, word),
            LockKind::Mcs => self.mcs(lock, word, second),
            LockKind::PpcSpinLock => self.named(lock, word >> 31 != 0, word & 0xffff),
            LockKind::PpcQSpinLock => self.ppc_queue(lock, word),
            LockKind::RwLock => {
                self.readers_and_writer(lock, word & !(1 << 31), word >> 31 != 0, false)
            }
            LockKind::QRwLock | LockKind::QRwLockPvQSpinLock | LockKind::QRwLockPvNext => {
                self.queued_rw(lock, word)?;
                self.queue(wait, second)
            }
            LockKind::QRwLockTicket => {
                self.queued_rw(lock, word)?;
                self.ticket(wait, second)
            }
            LockKind::QRwLock2014 | LockKind::QRwLock2014PvQSpinLock => {
                self.queued_rw_2014(lock, word)?;
                self.queue(wait, second)
            }
            LockKind::QRwLock2014Ticket => {
                self.queued_rw_2014(lock, word)?;
                self.ticket(wait, second)
            }
            _ if self.kind.traits().control => Ok(()),
            _ => self.flag(lock, word),
        }
    }

    fn queued_rw(&self, lock: usize, word: u32) -> Result<(), String> {
        that(matches!(word & 0xff, 0 | 0xff), "illegal writer byte")?;
        self.readers_and_writer(lock, word >> 9, word & 0xff != 0, word & 0x100 != 0)
    }

    fn queued_rw_2014(&self, lock: usize, word: u32) -> Result<(), String> {
        that(matches!(word & 0xff, 0 | 1 | 0xff), "illegal writer byte")?;
        self.readers_and_writer(lock, word >> 8, word & 0xff == 0xff, word & 0xff == 1)
    }

    /// What the word says agrees with who does what.
    fn readers_and_writer(
        &self,
        lock: usize,
        readers: u32,
        writer: bool,
        waiting: bool,
    ) -> Result<(), String> {
        let inside = self.count(|phase| phase == Phase::Reading(lock));
        let about = [Phase::ReadLocking(lock), Phase::ReadUnlocking(lock)];
        let at_most = inside + self.count(|phase| about.contains(&phase));
        that(inside <= readers, "a reader is not counted")?;
        that(readers <= at_most, "a reader is counted that is none")?;
        that(writer || !self.held(lock), "a writer is inside unmarked")?;
        that(!(writer && inside > 0), "marked as written, but read")?;
        let writes = |phase: Phase| {
            phase.lock() == lock
                && matches!(
                    phase,
                    Phase::Locking(_) | Phase::Holding(_) | Phase::Unlocking(_)
                )
        };
        that(!writer || self.count(writes) > 0, "written by nobody")?;
        let waits = self.count(|phase| phase == Phase::Locking(lock)) > 0;
        that(!waiting || waits, "nobody waits to write")
    }

    fn held(&self, lock: usize) -> bool {
        !self.who(|phase| phase == Phase::Holding(lock)).is_empty()
    }

    fn in_use(&self, lock: usize) -> bool {
        !self.who(|phase| phase.lock() == lock).is_empty()
    }

    fn flag(&self, lock: usize, word: u32) -> Result<(), String> {
        that(word <= 1, "neither free nor held")?;
        that(word == 1 || !self.held(lock), "free but has a holder")?;
        that(word == 0 || self.in_use(lock), "held by nobody")
    }

    fn ticket(&self, Place { lock, held, .. }: Place, word: u32) -> Result<(), String> {
        let out = (word >> 16).wrapping_sub(word) & 0xffff;
        let users = self.who(|phase| phase.lock() == lock).len();
        that(out as usize <= users, "more tickets out than takers")?;
        that(out > 0 || !held, "free but has a holder")
    }

    fn queue(&self, place: Place, word: u32) -> Result<(), String> {
        let Place { lock, held, within } = place;
        let pv = self.kind.traits().halts;
        let locked = word & 0xff;
        that(locked <= 1 || (pv && locked == SLOW), "illegal locked byte")?;
        let pending = (word >> 8) & 0xff;
        let asym = self.kind.traits().barriers;
        that(
            pending <= 1 || (asym && pending == ASLEEP),
            "illegal pending byte",
        )?;
        that(locked > 0 || !held, "free but has a holder")?;
        that(word == 0 || self.in_use(lock), "a word of nobody's")?;
        if let Some(tail) = NodeRef::from_raw(word >> 16) {
            let users = self.who(|phase| phase.lock() == lock && phase.begins());
            that(
                users.contains(&(tail.cpu() as usize)),
                "the tail does not wait",
            )?;
            let in_use = self.nodes_in_use(tail.cpu() as usize);
            that(in_use & (1 << tail.index()) != 0, "the tail is not in use")?;
        }
        let entries = self.entries(|entry, _| entry == key(lock, within));
        that(entries <= 1, "hashed twice")?;
        let at_work = self.at_work(lock);
        if asym {
            that(locked != SLOW, "marked in the locked byte")?;
            return that(
                pending != ASLEEP || entries == 1 || at_work,
                "asleep but not hashed",
            );
        }
        that(
            entries == 0 || locked == SLOW || at_work,
            "hashed but not marked",
        )?;
        that(
            locked != SLOW || entries == 1 || at_work,
            "marked but not hashed",
        )
    }

    fn mcs(&self, lock: usize, tail: u32, holder: u32) -> Result<(), String> {
        const NODELESS: u32 = 1 << 31;
        // The CPU that a place in the queue names, if its node is one that is in use.
        let owner = |place: u32| match NodeRef::from_raw(place) {
            _ if place & NODELESS != 0 => Some((place & !NODELESS) as usize),
            Some(node) => Some(node.cpu() as usize)
                .filter(|&cpu| self.nodes_in_use(cpu) & (1 << node.index()) != 0),
            None => None,
        };
        that(tail != 0 || !self.held(lock), "free but has a holder")?;
        if tail != 0 {
            let users = self.who(|phase| phase.lock() == lock);
            that(
                owner(tail).is_some_and(|cpu| users.contains(&cpu)),
                "the tail does not use the lock, or has no node",
            )?;
        }
        let holding = self.who(|phase| phase == Phase::Holding(lock));
        that(
            holding.iter().all(|&cpu| owner(holder) == Some(cpu)),
            "the lock names another holder",
        )
    }

    /// A lock that names its holder.
    fn named(&self, lock: usize, locked: bool, owner: u32) -> Result<(), String> {
        let users = self.who(|phase| phase.lock() == lock);
        let holders = self.who(|phase| phase == Phase::Holding(lock));
        let is_owner = |&cpu: &usize| cpu == owner as usize;
        that(locked || owner == 0, "free but names a holder")?;
        that(locked || holders.is_empty(), "free but has a holder")?;
        that(!locked || users.iter().any(is_owner), "held by nobody")?;
        that(holders.iter().all(is_owner), "names another holder")
    }

    fn ppc_queue(&self, lock: usize, word: u32) -> Result<(), String> {
        let (locked, sleepy) = (word & 1 != 0, word & (1 << 15) != 0);
        let (must_queue, tail) = (word & (1 << 16) != 0, word >> 17);
        self.named(lock, locked, (word >> 1) & 0x3fff)?;
        that(locked || !sleepy, "free but sleepy")?;
        that(tail != 0 || !must_queue, "thieves stopped for nobody")?;
        if let Some(tail) = tail.checked_sub(1) {
            let waiters = self.who(|phase| phase == Phase::Locking(lock));
            that(waiters.contains(&(tail as usize)), "the tail does not wait")?;
            let tags = &self.storage.percpu[tail as usize].tags;
            let tag = 2 * key(lock, false);
            let tagged = |i: &usize| tags[*i].0.load(Relaxed) == tag;
            let in_use = |i: usize| self.nodes_in_use(tail as usize) & (1 << i) != 0;
            let nodes: Vec<usize> = (0..tags.len()).filter(tagged).collect();
            that(nodes.len() == 1 && in_use(nodes[0]), "the tail has no node")?;
        }
        Ok(())
    }

    /// Bit `i` for node `i`.
    fn nodes_in_use(&self, cpu: usize) -> u32 {
        self.storage.percpu[cpu].nodes[0].in_use.0.load(Relaxed)
    }

    fn entries(&self, is: impl Fn(u64, u32) -> bool) -> usize {
        let slots = self.storage.hash.iter();
        slots
            .map(|slot| (slot.lock.0.load(Relaxed), slot.node.0.load(Relaxed)))
            .filter(|&(key, node)| key != 0 && is(key, node))
            .count()
    }

    /// Whether somebody awake is inside a lock or unlock of `lock`, so that tables may be halfway.
    fn at_work(&self, lock: usize) -> bool {
        self.machine.vcpus.iter().any(|vcpu| {
            let phases = vcpu.phases.borrow();
            // An interrupted vCPU that sleeps in its handler is still at work outside.
            let asleep_in = phases.last().filter(|_| vcpu.halted.get() && !vcpu.ready());
            phases.iter().any(|phase| {
                phase.lock() == lock
                    && !phase.is_inside()
                    && asleep_in.is_none_or(|inner| inner != phase)
            })
        })
    }

    /// A halted waiter is known to whoever has to wake it.
    fn sleepers(&self) -> Result<(), String> {
        for (cpu, vcpu) in self.machine.vcpus.iter().enumerate() {
            if !vcpu.halted.get() || vcpu.ready() {
                continue;
            }
            let Some(lock) = vcpu
                .phases
                .borrow()
                .last()
                .filter(|p| p.begins())
                .map(|p| p.lock())
            else {
                return Err(format!("vCPU {cpu} sleeps outside a lock"));
            };
            let key = key(lock, self.kind.is_rw());
            let nodes = &self.storage.percpu[cpu].nodes;
            // Its innermost wait's: no lock that halts keeps a node after its wait.
            let index = self.nodes_in_use(cpu).ilog2() as usize;
            let me = u32::from(NodeRef::new(u32::try_from(cpu).unwrap(), index).raw());
            let entries = self.entries(|entry, node| node == me && entry == key);
            match nodes[index].state.0.load(Relaxed) {
                HASHED => {
                    that(
                        entries == 1 || self.at_work(lock),
                        "a hashed sleeper without entry",
                    )?;
                }
                // By the owner that is about to enter it.
                HASHING => that(self.at_work(lock), "about to be hashed by nobody")?,
                HALTED => {
                    // A slot being filled still names the sleeper before.
                    that(
                        entries == 0 || self.at_work(lock),
                        "a queued sleeper in the table",
                    )?;
                    // The one that made it head is about to advance it.
                    let head = nodes[index].locked.0.load(Relaxed) != 0;
                    that(
                        !head || self.at_work(lock),
                        "sleeps as head, and nobody knows",
                    )?;
                }
                other => return Err(format!("vCPU {cpu} sleeps in state {other}")),
            }
        }
        Ok(())
    }

    /// Once all are done nothing is left behind.
    fn ends_clean<L: Subject>(&self, locks: &[L]) -> Result<(), String> {
        if !self.machine.vcpus.iter().all(|vcpu| vcpu.done.get()) {
            return Ok(());
        }
        for lock in locks {
            that(!lock.is_locked(), "not free in the end")?;
            let [_, wait] = words(lock);
            let wait_is_free = match self.kind {
                LockKind::QRwLockTicket | LockKind::QRwLock2014Ticket => {
                    wait >> 16 == wait & 0xffff
                }
                kind => wait == 0 || !kind.is_rw() || kind.traits().control,
            };
            that(wait_is_free, "wait lock not free in the end")?;
        }
        let mut cpus = 0..self.storage.percpu.len();
        that(
            cpus.all(|cpu| {
                let without = self.machine.without_nodes.contains(&cpu);
                self.nodes_in_use(cpu) == if without { ALL_NODES } else { 0 }
            }),
            "nodes still in use",
        )?;
        that(self.entries(|_, _| true) == 0, "entries left in the table")
    }
}
