//! What must hold after every step.

use super::{Failure, Kick, Machine, Phase, Stepper, Storage};
use pvlock::percpu::NodeRef;
use pvlock::qspinlock::pv::{HALTED, HASHED};
use pvlock::word::LockWord;
use pvlock::{LockKind, RawLock};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The locked byte of a held lock whose queue head sleeps.
const SLOW: u32 = 3;

pub(super) fn check<W: LockWord, L: RawLock>(
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
        let words = words_of(raw);
        let word = words[0];
        view.one_holder(lock)?;
        let result = match kind {
            LockKind::Ticket => view.ticket(lock, word),
            LockKind::QSpinLock | LockKind::PvQSpinLock | LockKind::Cna => view.queue(lock, word),
            LockKind::Mcs => view.mcs(lock, word, words[1]),
            LockKind::PpcSpinLock => view.named(lock, word >> 31 != 0, word & 0xffff),
            LockKind::PpcQSpinLock => view.ppc_queue(lock, word),
            LockKind::Busted => Ok(()),
            _ => view.flag(lock, word),
        };
        result.map_err(|what| {
            view.failure(&format!(
                "lock {lock}, {}: {what}",
                kind.describe(u64::from(word) | words.get(1).map_or(0, |&w| u64::from(w) << 32))
            ))
        })?;
    }
    // Lost kicks break this at once; whoever loses them wants to see what comes of it.
    if machine.kick == Kick::Sticky {
        view.sleepers().map_err(|what| view.failure(&what))?;
    }
    view.ends_clean().map_err(|what| view.failure(&what))
}

/// The 32-bit words that a lock consists of.
fn words_of<L: RawLock>(lock: &L) -> Vec<u32> {
    let first = std::ptr::from_ref(lock).cast::<AtomicU32>();
    // SAFETY: every lock consists of 32-bit words, and this thread runs all vCPUs.
    #[allow(unsafe_code)]
    let words = unsafe { std::slice::from_raw_parts(first, size_of::<L>() / 4) };
    words.iter().map(|word| word.load(Relaxed)).collect()
}

fn that(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
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
        Ok(())
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

    fn ticket(&self, lock: usize, word: u32) -> Result<(), String> {
        let out = (word >> 16).wrapping_sub(word) & 0xffff;
        let users = self.who(|phase| phase.lock() == lock).len();
        that(out as usize <= users, "more tickets out than takers")?;
        that(out > 0 || !self.held(lock), "free but has a holder")
    }

    fn queue(&self, lock: usize, word: u32) -> Result<(), String> {
        let pv = self.kind == LockKind::PvQSpinLock;
        let locked = word & 0xff;
        that(locked <= 1 || (pv && locked == SLOW), "illegal locked byte")?;
        that((word >> 8) & 0xff <= 1, "illegal pending byte")?;
        that(locked > 0 || !self.held(lock), "free but has a holder")?;
        that(word == 0 || self.in_use(lock), "a word of nobody's")?;
        if let Some(tail) = NodeRef::from_raw(word >> 16) {
            let users = self.who(|phase| phase == Phase::Locking(lock));
            that(
                users.contains(&(tail.cpu() as usize)),
                "the tail does not wait",
            )?;
            let in_use = self.nodes_in_use(tail.cpu() as usize);
            that(in_use & (1 << tail.index()) != 0, "the tail is not in use")?;
        }
        let entries = self.entries(|key, _| key == lock as u64 + 1);
        that(entries <= 1, "hashed twice")?;
        let at_work = self.at_work(lock);
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
            let tag = 2 * (lock as u64 + 1);
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
                    && !matches!(phase, Phase::Holding(_))
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
            let Some(&Phase::Locking(lock)) = vcpu.phases.borrow().last() else {
                return Err(format!("vCPU {cpu} sleeps outside a lock"));
            };
            let nodes = &self.storage.percpu[cpu].nodes;
            // Its innermost wait's: no lock that halts keeps a node after its wait.
            let index = self.nodes_in_use(cpu).ilog2() as usize;
            let me = u32::from(NodeRef::new(u32::try_from(cpu).unwrap(), index).raw());
            let entries = self.entries(|key, node| node == me && key == lock as u64 + 1);
            match nodes[index].state.0.load(Relaxed) {
                HASHED => {
                    that(
                        entries == 1 || self.at_work(lock),
                        "a hashed sleeper without entry",
                    )?;
                }
                HALTED => {
                    // A slot being filled still names the sleeper before.
                    that(
                        entries == 0 || self.at_work(lock),
                        "a queued sleeper in the table",
                    )?;
                    // Whoever made it head is about to advance it.
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
    fn ends_clean(&self) -> Result<(), String> {
        if !self.machine.vcpus.iter().all(|vcpu| vcpu.done.get()) {
            return Ok(());
        }
        let mut cpus = 0..self.storage.percpu.len();
        that(
            cpus.all(|cpu| self.nodes_in_use(cpu) == 0),
            "nodes still in use",
        )?;
        that(self.entries(|_, _| true) == 0, "entries left in the table")
    }
}
