//! Which models there are of which lock, and how far each is looked at.

use crate::atomics::LockAtomic;
use crate::locks::{Do, Parts, Use, alone};
use crate::model::{Cell, Part, Setting, at};
use crate::platform::register;
use crate::{Explored, Facts, Failure, Limits, Litmus, Model, Numa, Patience};
use Do::{Downgrade, KillableRead, KillableWrite, Read, Try, TryRead, Write};
use pvlock::LockEvent::{self, *};
use pvlock::sleep::osq::Osq;
use pvlock::sleep::within::Within;
use pvlock::word::LockWord;
use pvlock::{LockKind, RawCna, RawPvNext, RawPvQSpinLock, RawQSpinLock, RawRwSem, RawSleepMutex};
use pvlock::{RawLock, RawTas, RawTicket};
use std::sync::atomic::Ordering::Release;

/// What runs a model.
type Run = fn(Use, Model) -> Result<Explored, Failure>;

/// A model of a lock.
pub struct Case {
    /// Of which lock.
    pub kind: LockKind,
    /// Who does what.
    pub name: String,
    used: Use,
    run: Option<Run>,
    /// With how many preemptions of CPUs that could go on, always; `None`: any number.
    pub bound: Option<u32>,
    /// And when there is time.
    pub far: Option<u32>,
    /// In which memories.
    pub models: &'static [Model],
    /// What happens in some execution.
    pub sees: &'static [LockEvent],
}

/// No bound.
const ANY: Option<u32> = None;
const ALL: &[Model] = &Model::ALL;
/// Of locks that set no bit of a lock word.
const NO_BITS: &[Model] = &[Model::C11, Model::X86];
const C11: &[Model] = &[Model::C11];

const ONE_EACH: Parts = &[&[Write], &[Write], &[Write]];
const TWO_ONE_ONE: Parts = &[&[Write, Write], &[Write], &[Write]];
const TWO_EACH: Parts = &[&[Write, Write], &[Write, Write]];
const TRIES: Parts = &[&[Write, Write], &[Try, Try], &[Write]];

impl Case {
    fn new(kind: LockKind, name: &str, parts: Parts, bound: Option<u32>) -> Self {
        Self {
            kind,
            name: name.into(),
            used: Use {
                parts,
                facts: Facts::default(),
                limits: Limits {
                    idle_turns: u8::from(kind.traits().halts && !kind.traits().sleeps),
                    ..Limits::default()
                },
            },
            run: None,
            bound,
            far: bound.map(|bound| bound + 1),
            models: NO_BITS,
            sees: &[],
        }
    }

    fn with(mut self, change: impl Fn(&mut Facts)) -> Self {
        change(&mut self.used.facts);
        self
    }

    /// Waits for a while end in vain so often.
    const fn waiting(mut self, timeouts: u8) -> Self {
        self.used.limits.timeouts = timeouts;
        self
    }

    const fn in_models(mut self, models: &'static [Model]) -> Self {
        self.models = models;
        self
    }

    const fn that_sees(mut self, events: &'static [LockEvent]) -> Self {
        self.sees = events;
        self
    }

    const fn by(mut self, run: Run) -> Self {
        self.run = Some(run);
        self
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.used.parts.len()
    }

    /// Explores it with that bound.
    ///
    /// # Errors
    /// What is found.
    pub fn explore(&self, model: Model, bound: Option<u32>) -> Result<Explored, Failure> {
        let mut used = self.used;
        used.limits.preemptions = bound;
        match self.run {
            Some(run) => run(used, model),
            None => used.of(self.kind, model),
        }
    }
}

/// Every model of every lock.
pub fn all() -> Vec<Case> {
    let sound = LockKind::ALL.iter().filter(|kind| !kind.traits().control);
    sound.flat_map(|&kind| of(kind)).collect()
}

/// The models of that lock: at least one with three CPUs.
pub fn of(kind: LockKind) -> Vec<Case> {
    let traits = kind.traits();
    if traits.sleeps {
        sleeping(kind)
    } else if kind.is_rw() {
        shared(kind)
    } else if traits.halts {
        paravirtual(kind)
    } else {
        spinning(kind)
    }
}

fn spinning(kind: LockKind) -> Vec<Case> {
    let case = |name, parts, bound| Case::new(kind, name, parts, bound);
    let mut cases = vec![case("one section each", ONE_EACH, ANY).in_models(ALL)];
    match kind {
        LockKind::Cna => cases.extend([
            case("two sections each", TWO_EACH, ANY).in_models(ALL),
            case(
                "three queue, one again, on two NUMA nodes",
                QUEUE_AGAIN,
                Some(1),
            )
            .waiting(2)
            .with(|facts| facts.numa = Numa::Two)
            .by(queue_behind_a_holder::<RawCna<Litmus>>)
            .in_models(C11)
            .that_sees(&[CnaMoved]),
            case("three queue, on two NUMA nodes", THREE_QUEUE, Some(1))
                .with(|facts| facts.numa = Numa::Two)
                .by(queue_behind_a_holder::<RawCna<Litmus>>)
                .in_models(C11)
                .that_sees(&[CnaMoved]),
        ]),
        LockKind::QSpinLock => cases.extend([
            case("two sections, one, one", TWO_ONE_ONE, ANY).in_models(C11),
            case("three queue", THREE_QUEUE, Some(2))
                .by(queue_behind_a_holder::<RawQSpinLock<Litmus>>)
                .in_models(C11)
                .that_sees(&[LockSlowpath]),
        ]),
        LockKind::PpcQSpinLock => cases.push(
            case("who runs is known", ONE_EACH, Some(1))
                .with(|facts| facts.preemption_is_known = true)
                .in_models(C11)
                .that_sees(&[PpcSleepy]),
        ),
        _ => cases.extend([
            case("two sections, one, one", TWO_ONE_ONE, ANY),
            case("two sections, two tries, one section", TRIES, Some(2)),
        ]),
    }
    cases
}

fn paravirtual(kind: LockKind) -> Vec<Case> {
    // A plain store as release makes ten times as many states, of which `pv-next` stands for all.
    let bytes = u32::from(!kind.traits().barriers || kind == LockKind::PvNext);
    let case = |name, parts, bound| Case::new(kind, name, parts, bound);
    let mut cases = vec![
        case("one section each", ONE_EACH, Some(2))
            .in_models(C11)
            .that_sees(&[PvWaitHead, PvWaitNode, PvLockStealing, PvKickUnlock]),
        case("one section each, bytes", ONE_EACH, Some(bytes)).in_models(&[Model::X86]),
        case("two sections each, two CPUs", TWO_EACH, Some(3)).in_models(C11),
        case("one section each, two waits in vain", ONE_EACH, Some(1))
            .waiting(2)
            .in_models(C11),
        case(
            "two sections each, two CPUs, two waits in vain",
            TWO_EACH,
            Some(3),
        )
        .waiting(2)
        .in_models(C11),
        case("unfounded wake-ups", TWO_EACH, Some(3))
            .waiting(2)
            .with(|facts| facts.wakes_early = true)
            .in_models(C11),
    ];
    let both: Option<Run> = match kind {
        LockKind::PvQSpinLock => Some(two_locks::<RawPvQSpinLock<Litmus>>),
        LockKind::PvNext => Some(two_locks::<RawPvNext<Litmus>>),
        _ => None,
    };
    cases.extend(both.map(|run| {
        case("two locks in a table of two slots", ONE_EACH, Some(2))
            .in_models(C11)
            .by(run)
            .that_sees(&[PvWaitHead, PvKickUnlock])
    }));
    cases
}

fn shared(kind: LockKind) -> Vec<Case> {
    let pv = kind.traits().halts;
    let bound = if pv { Some(2) } else { ANY };
    let case = |name, parts| Case::new(kind, name, parts, bound);
    vec![
        case("a writer and two readers", &[&[Write], &[Read], &[Read]]),
        case("two writers and a reader", &[&[Write], &[Write], &[Read]]),
        case(
            "a writer, a reader, and one in an interrupt",
            &[&[Write], &[Read], &[Read, Read]],
        )
        .with(|facts| facts.handler = Some(2))
        .in_models(C11),
        case("two writers and tries to read", TRIES_TO_READ).in_models(C11),
    ]
}

const TRIES_TO_READ: Parts = &[&[Write], &[TryRead, TryRead], &[Write]];

fn sleeping(kind: LockKind) -> Vec<Case> {
    let case = |name, parts, bound| Case::new(kind, name, parts, bound).in_models(C11);
    let never = |facts: &mut Facts| facts.patience = Patience::Never;
    // The relatives of `rwsem-xadd` differ in who spins, which makes many states.
    let spins = if kind as u32 > LockKind::RwsemXadd as u32 {
        1
    } else {
        2
    };
    let mut cases = vec![
        case("one section each, all spin", ONE_EACH, Some(spins)),
        case("one section each, none spins", ONE_EACH, Some(1)).with(never),
        case("two sections each, none spins", TWO_EACH, Some(3)).with(never),
    ];
    if kind.is_rw() {
        let mixed: Parts = &[&[Write], &[Read], &[Read]];
        cases.extend([
            case("a writer and two readers, none spins", mixed, Some(1)).with(never),
            case("a writer and two readers, all spin", mixed, Some(1)),
            case(
                "a writer and a reader, none spins",
                &[&[Write], &[Read]],
                Some(3),
            )
            .with(never),
            case("two writers and tries to read", TRIES_TO_READ, Some(1)),
        ]);
    }
    if kind.is_sem() {
        cases.extend([
            case("two-pass wake, a waiter is killed", KILLED, Some(1))
                .with(never)
                .with(|facts| facts.killable = 0b110)
                .that_sees(&[RwsemRlockFail, RwsemWlockFail, RwsemWakeReader]),
            case(
                "downgraded, to readers",
                &[&[Downgrade], &[Read], &[Write]],
                Some(1),
            )
            .with(never)
            .that_sees(&[RwsemSleepReader]),
        ]);
        over(
            kind,
            &mut cases,
            [
                |used, model| used.of_sem::<RawRwSem<Litmus, RawTas<In>>>(model, false),
                |used, model| used.of_sem::<RawRwSem<Litmus, RawTicket<In>>>(model, false),
                |used, model| used.of_sem::<RawRwSem<Litmus, RawPvQSpinLock<In>>>(model, true),
                |used, model| used.of_sem::<RawRwSem<Litmus, RawPvNext<In>>>(model, true),
            ],
        );
    }
    if kind == LockKind::Mutex {
        let spinners: Parts = &[&[Write], &[Write], &[Write]];
        let queue = |name, bound| case(name, spinners, bound).by(spinners_queue);
        cases.push(
            case("one section each, spinners give up", ONE_EACH, Some(1))
                .with(|facts| facts.patience = Patience::Either),
        );
        cases.extend([
            queue("the spinners' queue", ANY),
            queue("the spinners' queue, which is left", Some(3)).with(never),
            queue("the spinners' queue, which is left or not", Some(2))
                .with(|facts| facts.patience = Patience::Either),
        ]);
        over(
            kind,
            &mut cases,
            [
                |used, model| used.of_type::<RawSleepMutex<Litmus, RawTas<In>>>(model, false),
                |used, model| used.of_type::<RawSleepMutex<Litmus, RawTicket<In>>>(model, false),
                |used, model| {
                    used.of_type::<RawSleepMutex<Litmus, RawPvQSpinLock<In>>>(model, true)
                },
                |used, model| used.of_type::<RawSleepMutex<Litmus, RawPvNext<In>>>(model, true),
            ],
        );
    }
    cases
}

type In = Within<Litmus>;

const KILLED: Parts = &[&[Write], &[KillableRead], &[KillableWrite]];

/// The lock over each wait lock but the default one.
fn over(kind: LockKind, cases: &mut Vec<Case>, runs: [Run; 4]) {
    let waits = ["tas", "ticket", "pv-qspinlock", "pv-next"];
    cases.extend(waits.into_iter().zip(runs).map(|(wait, run)| {
        let name = format!("two sections each, none spins, over {wait}");
        Case::new(kind, &name, TWO_EACH, Some(1))
            .with(|facts| facts.patience = Patience::Never)
            .in_models(C11)
            .by(run)
    }));
}

/// Three CPUs that queue, and one that lets them.
const THREE_QUEUE: Parts = &[&[Write], &[Write], &[Write], &[]];

const QUEUE_AGAIN: Parts = &[&[Write, Write], &[Write], &[Write], &[]];

/// The queue of optimistic spinners by itself, as if it guarded data; who leaves it does not touch them.
fn spinners_queue(used: Use, model: Model) -> Result<Explored, Failure> {
    let parts = used.parts.iter().map(|_| {
        let part = |osq: &Osq<Litmus>| {
            at(0);
            if osq.lock() {
                at(1);
                GUARDED.add_one();
                osq.unlock();
            }
        };
        Box::new(part) as Part<Osq<Litmus>>
    });
    let setting = Setting {
        shared: Osq::default,
        register: |_| (),
        parts: parts.collect(),
        end: Box::new(|osq| {
            assert!(GUARDED.last() > 0, "nobody got to the head");
            assert!(!osq.is_locked(), "somebody is left in the queue");
        }),
        fences: false,
        facts: used.facts,
        limits: used.limits,
    };
    setting.explore(model)
}

const GUARDED: Cell = Cell::new(0);

/// One CPU holds two locks at once, and for each another waits; one of these then takes the other lock, too. Their
/// entries are in one line of the table.
fn two_locks<L: RawLock>(used: Use, model: Model) -> Result<Explored, Failure> {
    const CELLS: [Cell; 2] = [Cell::new(0), Cell::new(1)];
    fn add(which: usize) {
        let value = CELLS[which].read();
        CELLS[which].write(value + 1);
    }
    fn section<L: RawLock>(locks: &[L; 2], which: usize, place: usize) {
        at(2 * place);
        locks[which].lock();
        at(2 * place + 1);
        add(which);
        locks[which].unlock();
    }
    let setting = Setting::<[L; 2]> {
        shared: || [L::new(), L::new()],
        register: |locks| locks.iter().for_each(register),
        parts: vec![
            Box::new(|locks| {
                at(0);
                locks.iter().for_each(L::lock);
                at(1);
                (0..2).for_each(add);
                locks.iter().for_each(L::unlock);
            }),
            Box::new(|locks| (0..2).for_each(|which| section(locks, which, which))),
            Box::new(|locks| section(locks, 1, 0)),
        ],
        end: Box::new(|locks| {
            assert_eq!(CELLS.map(Cell::last), [2, 3]);
            assert!(
                !locks.iter().any(L::is_locked),
                "somebody is left in a lock"
            );
        }),
        fences: true,
        facts: used.facts,
        limits: used.limits,
    };
    setting.explore(model)
}

/// As the lock is held, and another CPU is pending, all three queue. Then both are gone.
fn queue_behind_a_holder<L: RawLock>(used: Use, model: Model) -> Result<Explored, Failure> {
    const HELD_AND_PENDING: u32 = 0x101;
    let mut setting: Setting<L> = used.setting(false);
    setting.shared = || alone(LockAtomic::new(HELD_AND_PENDING));
    setting.parts[3] = Box::new(|lock| {
        // Who is pending has taken the lock, and released it, in one step.
        crate::locks::word(lock).store_u16(0, 0, Release);
    });
    setting.explore(model)
}
