//! The machine of a model, as the locks of `pvlock` see it.
#![allow(unsafe_code)] // That it is one is promised here.

use crate::atomics::{LockAtomic, U32, U64, Word, place_of, value_of};
use crate::machinery;
use crate::op::{Op, Reply, Side, Site};
use crate::points;
use crate::thread::{ask, running};
use pvlock::atomic::{Atomic, Watch};
use pvlock::percpu::Node;
use pvlock::pv_hash::HashSlot;
use pvlock::wait::{OsqNode, Waiter};
use pvlock::{LockEvent, PerCpu, Platform};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// The platform.
pub struct Litmus;

/// What a model's machine is like.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Slots of the hash table: so few that locks collide.
    pub hash_slots: usize,
    /// Each CPU is on a NUMA node of its own, or all but the first are on one, or all.
    pub numa: Numa,
    /// Whether tasks spin for as long as the owner runs.
    pub patience: Patience,
    /// Whether one may know which CPUs run: if so they may be, or not.
    pub preemption_is_known: bool,
    /// Each halt may end too early, once for each CPU.
    pub wakes_early: bool,
    /// Time passes fast: who looks twice has waited for longer than anything allows.
    pub hurries: bool,
    /// CPUs whose task may be killed at any time, a bit each.
    pub killable: u32,
    /// The CPU that executes interrupt handlers and nothing else.
    pub handler: Option<u32>,
    /// Turns before a paravirtual waiter halts.
    pub spin_threshold: u32,
    /// Loops that carry nothing from one turn to the next are known as such.
    pub loops_are_plain: bool,
}

/// How CPUs are dealt out to NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numa {
    /// All are on one.
    One,
    /// Even ones on one, odd ones on another.
    Two,
}

/// How long tasks spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as they may.
    Always,
    /// Not at all: another task wants the CPU.
    Never,
    /// Either, anew each time.
    Either,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            hash_slots: 2,
            numa: Numa::One,
            patience: Patience::Always,
            preemption_is_known: false,
            wakes_early: false,
            hurries: false,
            killable: 0,
            handler: None,
            spin_threshold: 1,
            loops_are_plain: true,
        }
    }
}

struct Storage {
    facts: Facts,
    percpu: Vec<PerCpu<Litmus>>,
    hash: Vec<HashSlot<Litmus>>,
}

thread_local! {
    /// Of the model that is looked at.
    static STORAGE: Cell<Option<&'static Storage>> = const { Cell::new(None) };
    static LOCKS: RefCell<Vec<Range<usize>>> = const { RefCell::new(vec![]) };
}

/// Makes the storage of a new model with that many CPUs.
pub(crate) fn make(facts: Facts, cpus: usize) {
    let node = || Node {
        next: U32::new(0),
        locked: U32::new(0),
        state: U32::new(0),
        in_use: U32(Word::own()),
    };
    let percpu = |_| PerCpu {
        nodes: std::array::from_fn(|_| node()),
        kick_time: U64(Word::own()),
        osq: OsqNode::default(),
        waiter: Waiter {
            since: U64(Word::own()),
            ..Waiter::default()
        },
        tags: std::array::from_fn(|_| U64::new(0)),
    };
    let storage = Storage {
        facts,
        percpu: (0..cpus).map(percpu).collect(),
        hash: (0..facts.hash_slots).map(|_| HashSlot::default()).collect(),
    };
    // Models are few, and refer to it for as long as they are looked at.
    STORAGE.set(Some(Box::leak(Box::new(storage))));
    LOCKS.with_borrow_mut(Vec::clear);
}

/// A lock of the model, whose key is its place among them.
pub fn register<L>(lock: &L) {
    let at = std::ptr::from_ref(lock).addr();
    LOCKS.with_borrow_mut(|locks| locks.push(at..at + size_of::<L>()));
}

fn storage() -> &'static Storage {
    STORAGE.get().expect("a model has been made")
}

/// What must hold of any model when all is done.
///
/// # Panics
/// If it does not.
pub(crate) fn check_end() {
    let storage = storage();
    let load = |word: &U64| word.load(Ordering::Relaxed);
    let mut slots = storage.hash.iter();
    assert!(
        slots.all(|slot| load(&slot.lock) == 0),
        "an entry is left in the table"
    );
    let mut cpus = storage.percpu.iter();
    assert!(
        cpus.all(|cpu| cpu.nodes[0].in_use.load(Ordering::Relaxed) == 0),
        "a node is still in use"
    );
}

fn cpu() -> usize {
    running().expect("called by a CPU")
}

#[track_caller]
fn choose(n: usize) -> u64 {
    ask(Location::caller(), Op::Choose(n)).value
}

/// Waits for `word`; `done` stays on this thread's stack meanwhile.
fn wait<W: Watch>(
    site: Site,
    word: &W,
    order: Ordering,
    mut done: impl FnMut(W::Value) -> bool,
    for_ever: bool,
) -> Option<W::Value> {
    let at = place_of(word);
    let order = points::order(site, 0, order);
    let mut look = |value| done(value_of(word, value));
    let look: &mut dyn FnMut(u64) -> bool = &mut look;
    // SAFETY: only the lifetime is lost; it is used while this thread waits.
    let done: &'static mut dyn FnMut(u64) -> bool = unsafe { std::mem::transmute(look) };
    let op = if for_ever {
        Op::Await { at, order, done }
    } else {
        Op::Spin { at, order, done }
    };
    let Reply { value, ok } = ask(site, op);
    ok.then(|| value_of(word, value))
}

// SAFETY: each thread of a model has a number, and by it storage, of its own. Locks have the keys of their places.
// Waits end with a value that was loaded as asked for.
unsafe impl Platform for Litmus {
    type U32 = U32;
    type U64 = U64;
    type LockWord = LockAtomic;

    fn cpu() -> u32 {
        u32::try_from(cpu()).expect("few CPUs")
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        &storage().percpu[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        &storage().hash
    }
    #[track_caller]
    fn fence(order: Ordering) {
        let site = Location::caller();
        if let Some(order) = points::fence(site, order) {
            ask(site, Op::Fence(order));
        }
    }
    #[track_caller]
    fn light_barrier() {
        let site = Location::caller();
        if points::fence(site, Ordering::SeqCst).is_some() {
            ask(site, Op::Barrier(Side::Light));
        }
    }
    #[track_caller]
    fn heavy_barrier() {
        let site = Location::caller();
        if points::fence(site, Ordering::SeqCst).is_some() {
            ask(site, Op::Barrier(Side::Heavy));
        }
    }
    #[track_caller]
    fn relax() {
        let forgetful = storage().facts.loops_are_plain;
        ask(Location::caller(), Op::Relax { forgetful });
    }
    #[track_caller]
    fn spin_until<W: Watch>(
        word: &W,
        order: Ordering,
        done: impl FnMut(W::Value) -> bool,
    ) -> W::Value {
        let value = wait(Location::caller(), word, order, done, true);
        value.expect("it has waited for it")
    }
    #[track_caller]
    fn spin_for<W: Watch>(
        word: &W,
        order: Ordering,
        budget: &mut u32,
        done: impl FnMut(W::Value) -> bool,
    ) -> Option<W::Value> {
        if *budget == 0 {
            return None;
        }
        let value = wait(Location::caller(), word, order, done, false);
        *budget = if value.is_some() { *budget - 1 } else { 0 };
        value
    }
    #[track_caller]
    fn spin_unless<W: Watch>(
        word: &W,
        order: Ordering,
        mut done: impl FnMut(W::Value) -> bool,
        mut give_up: impl FnMut() -> bool,
    ) -> Option<W::Value> {
        let site = Location::caller();
        if storage().facts.patience != Patience::Always || storage().facts.preemption_is_known {
            if let Some(value) = wait(site, word, order, &mut done, false) {
                return Some(value);
            }
            if give_up() {
                return None;
            }
        }
        wait(site, word, order, done, true)
    }
    #[track_caller]
    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        let site = Location::caller();
        if !asleep(word.load(Ordering::Relaxed)) {
            return;
        }
        let cpu = cpu();
        if storage().facts.wakes_early && machinery::may_wake(cpu) && choose(2) == 1 {
            machinery::woke(cpu);
            return;
        }
        ask(site, Op::Sleep);
    }
    #[track_caller]
    fn kick(cpu: u32) {
        ask(Location::caller(), Op::Kick(cpu as usize));
    }
    fn yield_to(_: u32) {}
    fn vcpu_is_preempted(_: u32) -> Option<bool> {
        storage().facts.preemption_is_known.then(|| choose(2) == 1)
    }
    fn now() -> u64 {
        if storage().facts.hurries {
            machinery::now(cpu())
        } else {
            0
        }
    }
    fn ticks(ns: u64) -> u64 {
        if storage().facts.hurries { 0 } else { ns }
    }
    fn numa_node(cpu: u32) -> u32 {
        match storage().facts.numa {
            Numa::One => 0,
            Numa::Two => cpu % 2,
        }
    }
    fn in_interrupt() -> bool {
        storage().facts.handler == Some(Self::cpu())
    }
    fn pv_spin_threshold() -> u32 {
        storage().facts.spin_threshold
    }
    fn need_resched() -> bool {
        match storage().facts.patience {
            Patience::Always => false,
            Patience::Never => true,
            Patience::Either => choose(2) == 1,
        }
    }
    fn killed() -> bool {
        let cpu = cpu();
        if storage().facts.killable >> cpu & 1 != 0 && !machinery::is_killed(cpu) && choose(2) == 1
        {
            machinery::kill(cpu);
        }
        machinery::is_killed(cpu)
    }
    fn count(event: LockEvent, n: u64) {
        machinery::count(event, n);
    }
    fn lock_key<L>(lock: &L) -> u64 {
        let address = std::ptr::from_ref(lock).addr();
        LOCKS.with_borrow(|locks| {
            let place = locks.iter().position(|lock| lock.contains(&address));
            let place = place.expect("a lock of the model");
            let within = address > locks[place].start;
            1 + 2 * place as u64 + u64::from(within)
        })
    }
}
