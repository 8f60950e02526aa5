//! Locks under the loom model checker: all interleavings, all outcomes of weak memory.
//!
//! Loom runs all threads of a model on one OS thread, so the [`Mutation`] under test is an ordinary
//! thread-local, while CPUs and storage belong to the execution.

use loom::sync::atomic::{self, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use pvlock::atomic::{Atomic, Watch};
use pvlock::pv_hash::HashSlot;
use pvlock::word::{Field, LockWord, Parts, PortableWord};
use pvlock::{LockEvent, MAX_NODES, PerCpu, Platform};
use std::cell::Cell;

/// The platform.
pub(crate) struct Loom;

const CPUS: usize = 3;
/// The CPU that executes interrupt handlers and nothing else.
pub(crate) const HANDLER: u32 = 2;

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // Each test file makes some.
pub(crate) enum Mutation {
    None,
    /// Sub-word stores and exchanges of the lock word do not release.
    SubWordRelease,
    /// Nothing on the lock word acquires.
    WordAcquire,
    /// Read-modify-writes that add do not release.
    AddRelease,
    /// The loads of a wait for the lock word acquire, and the compare-and-exchange that follows such a
    /// wait does not: a word that is not 0 is exchanged Relaxed.
    LateClaim,
    /// The exchange of the tail is Relaxed.
    TailExchange,
    /// Stores outside the lock word do not release.
    StoreRelease,
    /// Compare-and-exchange outside the lock word does not release.
    CompareRelease,
    /// Compare-and-exchange outside the lock word does not acquire.
    CompareAcquire,
    /// Read-modify-writes that add do not acquire.
    AddAcquire,
    /// Loads of 64 bits do not acquire.
    CountLoadAcquire,
    /// Loads outside the lock word do not acquire.
    LoadAcquire,
    /// Fences of that ordering are left out.
    Fence(Ordering),
    /// The light barrier is none.
    LightBarrier,
    /// The heavy barrier is none.
    HeavyBarrier,
}

thread_local! {
    static MUTATION: Cell<Mutation> = const { Cell::new(Mutation::None) };
    static IMPATIENT: Cell<bool> = const { Cell::new(false) };
    static EXPLORED: Cell<Explored> = const { Cell::new(Explored::NOTHING) };
}

/// How far a check went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explored {
    pub(crate) executions: u64,
    counts: [u64; LockEvent::COUNT],
}

impl Explored {
    const NOTHING: Self = Self {
        executions: 0,
        counts: [0; LockEvent::COUNT],
    };

    /// How often `event` happened, in all executions together.
    pub(crate) fn count(&self, event: LockEvent) -> u64 {
        self.counts[event as usize]
    }

    /// Panics unless each of these has happened.
    #[track_caller]
    pub(crate) fn saw(&self, events: &[LockEvent]) {
        for &event in events {
            assert!(self.count(event) > 0, "{}", event.name());
        }
    }
}

loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(0);
}

struct Machine {
    percpu: [PerCpu<Loom>; CPUS],
    hash: [HashSlot<Loom>; 2],
    tokens: [(Mutex<bool>, Condvar); CPUS],
}

loom::lazy_static! {
    static ref MACHINE: Machine = Machine {
        percpu: std::array::from_fn(|_| PerCpu {
            nodes: std::array::from_fn::<_, MAX_NODES, _>(|_| Default::default()),
            kick_time: U64::Statistics(std::sync::atomic::AtomicU64::new(0)),
            osq: Default::default(),
            waiter: Default::default(),
            tags: std::array::from_fn(|_| U64::new(0)),
        }),
        hash: Default::default(),
        tokens: Default::default(),
    };
}

/// Checks `model` with `mutation` in place and at most `preemptions` per execution (`None`: any
/// number).
pub(crate) fn check(
    mutation: Mutation,
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> Explored {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 5_000;
    MUTATION.set(mutation);
    EXPLORED.set(Explored::NOTHING);
    builder.check(move || {
        let explored = EXPLORED.get();
        EXPLORED.set(Explored {
            executions: explored.executions + 1,
            ..explored
        });
        model();
    });
    EXPLORED.get()
}

/// Starts a thread on `cpu`; the model's first thread is CPU 0.
pub(crate) fn spawn(cpu: u32, run: impl FnOnce() + 'static) -> loom::thread::JoinHandle<()> {
    loom::thread::spawn(move || {
        CPU.with(|current| current.set(cpu));
        run();
    })
}

/// Whether in the checks that follow every CPU is wanted by another task.
#[allow(dead_code)] // Sleeping locks ask.
pub(crate) fn impatient(impatient: bool) {
    IMPATIENT.set(impatient);
}

fn without(mutations: &[Mutation], order: Ordering) -> Ordering {
    let mutated = mutations.contains(&MUTATION.get());
    if mutated { Ordering::Relaxed } else { order }
}

/// As `order`, but for what the mutations of additions take away.
fn add(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => without(&[Mutation::AddRelease], order),
        Ordering::Acquire => without(&[Mutation::AddAcquire], order),
        _ => order,
    }
}

/// As `order`, but for what the mutations of exchanges take away.
fn compare(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => without(&[Mutation::CompareRelease], order),
        Ordering::Acquire => without(&[Mutation::CompareAcquire], order),
        _ => order,
    }
}

/// A 32-bit atomic of loom's; the one inside a lock word (`NODE` false) has no mistakes of its own.
pub(crate) struct U32<const NODE: bool = true>(atomic::AtomicU32);

impl<const NODE: bool> Watch for U32<NODE> {
    type Value = u32;
    fn load(&self, order: Ordering) -> u32 {
        let mutation = Mutation::LoadAcquire;
        self.0.load(if NODE {
            without(&[mutation], order)
        } else {
            order
        })
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: loom's, with its orderings or, on purpose, weaker ones: what a model guards is in loom's cells, which
// report a race before it happens.
unsafe impl<const NODE: bool> Atomic<u32> for U32<NODE> {
    fn new(value: u32) -> Self {
        Self(atomic::AtomicU32::new(value))
    }
    fn store(&self, value: u32, order: Ordering) {
        self.0
            .store(value, without(&[Mutation::StoreRelease], order));
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0
            .swap(value, without(&[Mutation::TailExchange], order))
    }
    fn compare_exchange(&self, old: u32, new: u32, s: Ordering, f: Ordering) -> Result<u32, u32> {
        let s = if NODE { compare(s) } else { s };
        self.0.compare_exchange(old, new, s, f)
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, add(order))
    }
    fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_or(value, order)
    }
    fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_and(value, order)
    }
}

#[allow(unsafe_code)] // For the promise.
// SAFETY: by default.
unsafe impl<const NODE: bool> Parts for U32<NODE> {}

/// A 64-bit atomic: loom's, or for mere statistics one that loom does not see.
pub(crate) enum U64 {
    Checked(atomic::AtomicU64),
    Statistics(std::sync::atomic::AtomicU64),
}

macro_rules! either {
    ($self:ident, $atomic:ident => $access:expr) => {
        match $self {
            U64::Checked($atomic) => $access,
            U64::Statistics($atomic) => $access,
        }
    };
}

impl Watch for U64 {
    type Value = u64;
    fn load(&self, order: Ordering) -> u64 {
        let order = without(&[Mutation::CountLoadAcquire], order);
        either!(self, a => a.load(order))
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: as above.
unsafe impl Atomic<u64> for U64 {
    fn new(value: u64) -> Self {
        Self::Checked(atomic::AtomicU64::new(value))
    }
    fn store(&self, value: u64, order: Ordering) {
        either!(self, a => a.store(value, order));
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        either!(self, a => a.swap(value, order))
    }
    fn compare_exchange(&self, old: u64, new: u64, s: Ordering, f: Ordering) -> Result<u64, u64> {
        either!(self, a => a.compare_exchange(old, new, compare(s), f))
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        either!(self, a => a.fetch_add(value, add(order)))
    }
    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        either!(self, a => a.fetch_or(value, order))
    }
    fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        either!(self, a => a.fetch_and(value, order))
    }
}

/// The portable lock word, with room for mistakes.
pub(crate) struct Word(PortableWord<U32<false>>);

const ACQUIRES: &[Mutation] = &[Mutation::WordAcquire];

/// As `order`, but for what the mutations of sub-word accesses take away.
fn sub_word(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => without(&[Mutation::SubWordRelease], order),
        Ordering::Acquire => without(ACQUIRES, order),
        _ => order,
    }
}

impl Watch for Word {
    type Value = u32;
    fn load(&self, order: Ordering) -> u32 {
        match (MUTATION.get(), order) {
            (Mutation::LateClaim, Ordering::Relaxed) => self.0.load(Ordering::Acquire),
            _ => self.0.load(without(ACQUIRES, order)),
        }
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: as above.
unsafe impl LockWord for Word {
    fn new(value: u32) -> Self {
        Self(PortableWord::new(value))
    }
    fn compare_exchange(&self, old: u32, new: u32, s: Ordering, f: Ordering) -> Result<u32, u32> {
        let success = match old {
            0 => without(ACQUIRES, s),
            _ => without(&[Mutation::WordAcquire, Mutation::LateClaim], s),
        };
        self.0.compare_exchange(old, new, success, f)
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        let order = match order {
            Ordering::Acquire => without(ACQUIRES, order),
            _ => order,
        };
        self.0.fetch_add(value, order)
    }
    fn fetch_set_bit(&self, bit: u32, order: Ordering) -> u32 {
        self.0.fetch_set_bit(bit, without(ACQUIRES, order))
    }
    fn store_field(&self, field: Field, value: u32, order: Ordering) {
        self.0.store_field(field, value, sub_word(order));
    }
    fn swap_field(&self, field: Field, value: u32, order: Ordering) -> u32 {
        // The tail is a half.
        let order = if field.is_byte() {
            order
        } else {
            without(&[Mutation::TailExchange, Mutation::WordAcquire], order)
        };
        self.0.swap_field(field, value, order)
    }
    fn compare_exchange_field(
        &self,
        field: Field,
        old: u32,
        new: u32,
        s: Ordering,
        f: Ordering,
    ) -> Result<u32, u32> {
        self.0
            .compare_exchange_field(field, old, new, sub_word(s), f)
    }
}

#[allow(unsafe_code)] // For the promise below.
// SAFETY: as above; each thread of a model has a number, and by it storage, of its own. All locks have one key,
// but a model has one lock that uses its key.
unsafe impl Platform for Loom {
    type U32 = U32;
    type U64 = U64;
    type LockWord = Word;

    fn cpu() -> u32 {
        CPU.with(Cell::get)
    }
    fn percpu(cpu: u32) -> &'static PerCpu<Self> {
        &MACHINE.percpu[cpu as usize]
    }
    fn pv_hash() -> &'static [HashSlot<Self>] {
        &MACHINE.hash
    }
    fn fence(order: Ordering) {
        if MUTATION.get() != Mutation::Fence(order) {
            fence(order);
        }
    }
    fn light_barrier() {
        if MUTATION.get() != Mutation::LightBarrier {
            fence(Ordering::SeqCst);
        }
    }
    fn heavy_barrier() {
        if MUTATION.get() != Mutation::HeavyBarrier {
            fence(Ordering::SeqCst);
        }
    }
    fn relax() {
        loom::thread::yield_now();
    }
    /// Without the yield of [`relax`](Self::relax): the loop is finite, and a yield would hide the
    /// interleavings in which this CPU goes on at once.
    fn spin_for<W: Watch>(
        word: &W,
        order: Ordering,
        budget: &mut u32,
        mut done: impl FnMut(W::Value) -> bool,
    ) -> Option<W::Value> {
        // One look stands for many, for which there is no room.
        const TURNS: u32 = 32;
        while *budget > 0 {
            *budget = budget.saturating_sub(TURNS);
            let value = word.load(order);
            if done(value) {
                return Some(value);
            }
        }
        None
    }
    fn halt_while<W: Watch>(word: &W, asleep: impl Fn(W::Value) -> bool) {
        if !asleep(word.load(Ordering::Relaxed)) {
            // The caller's loop is endless if nobody else ever runs.
            loom::thread::yield_now();
            return;
        }
        let (token, kicked) = &MACHINE.tokens[Self::cpu() as usize];
        let mut token = token.lock().unwrap();
        while !*token {
            token = kicked.wait(token).unwrap();
        }
        *token = false;
    }
    fn kick(cpu: u32) {
        let (token, kicked) = &MACHINE.tokens[cpu as usize];
        *token.lock().unwrap() = true;
        kicked.notify_one();
    }
    fn yield_to(_: u32) {
        loom::thread::yield_now();
    }
    fn vcpu_is_preempted(_: u32) -> Option<bool> {
        None
    }
    fn in_interrupt() -> bool {
        Self::cpu() == HANDLER
    }
    fn need_resched() -> bool {
        IMPATIENT.get()
    }
    fn now() -> u64 {
        0
    }
    fn pv_spin_threshold() -> u32 {
        1
    }
    fn count(event: LockEvent, n: u64) {
        let mut explored = EXPLORED.get();
        explored.counts[event as usize] += n;
        EXPLORED.set(explored);
    }
    /// Not the address, which may differ from one execution to the next.
    fn lock_key<L>(_: &L) -> u64 {
        1
    }
}
