//! Models of locks: a few CPUs that take one, or several.

use crate::explore::{Explored, Failure, Limits};
use crate::memory::Model;
use crate::model::{Cell, Part, Setting, at, keyed};
use crate::platform::{Facts, Litmus};
use pvlock::{
    Downgrade, KillableRw, LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor, SemVisitor,
};

/// What a CPU does with a lock, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Takes it, or writes under it.
    Write,
    /// Reads under it.
    Read,
    /// Tries to take it.
    Try,
    /// Writes, then reads without letting go.
    Downgrade,
    /// Writes, unless its task is killed while it waits.
    KillableWrite,
    /// Reads, unless its task is killed while it waits.
    KillableRead,
}

/// What each CPU does, in its turn.
pub type Parts = &'static [&'static [Do]];

/// How a lock is used.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// By whom.
    pub parts: Parts,
    /// On what.
    pub facts: Facts,
    /// How far to look.
    pub limits: Limits,
}

impl Use {
    /// That, on an ordinary machine.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            facts: Facts::default(),
            limits: Limits::default(),
        }
    }

    /// Explores this use of the lock of that kind.
    ///
    /// # Errors
    /// What is found.
    pub fn of(self, kind: LockKind, model: Model) -> Result<Explored, Failure> {
        let with = With {
            used: self,
            model,
            fences: has_fences(kind),
        };
        let all = self.parts.iter().copied().flatten();
        if all.clone().any(|what| *what as u8 >= Do::Downgrade as u8) {
            let explored = kind.visit_sem::<Litmus, _>(with);
            return explored.expect("it can be downgraded, and killed");
        }
        if all.clone().any(|what| *what == Do::Read) {
            let explored = kind.visit_rw::<Litmus, _>(with);
            return explored.expect("it has a read side");
        }
        kind.visit::<Litmus, _>(with)
    }

    /// Explores this use of that lock.
    ///
    /// # Errors
    /// What is found.
    pub fn of_type<L: RawLock>(self, model: Model, fences: bool) -> Result<Explored, Failure> {
        With {
            used: self,
            model,
            fences,
        }
        .run(L::new, L::is_locked, exclusive)
    }

    /// The same of a reader-writer lock.
    ///
    /// # Errors
    /// What is found.
    pub fn of_rw<L: RawRwLock>(self, model: Model, fences: bool) -> Result<Explored, Failure> {
        With {
            used: self,
            model,
            fences,
        }
        .run(L::new, L::is_locked, shared)
    }

    /// The same of one that can be downgraded.
    ///
    /// # Errors
    /// What is found.
    pub fn of_sem<L: Downgrade + KillableRw>(
        self,
        model: Model,
        fences: bool,
    ) -> Result<Explored, Failure> {
        With {
            used: self,
            model,
            fences,
        }
        .run(L::new, L::is_locked, semaphore)
    }
}

/// Whether locks of that kind have acquire fences: those with paravirtual queues.
fn has_fences(kind: LockKind) -> bool {
    let traits = kind.traits();
    traits.halts && !traits.sleeps
}

struct With {
    used: Use,
    model: Model,
    fences: bool,
}

impl LockVisitor<Litmus> for With {
    type Output = Result<Explored, Failure>;

    fn visit<L: RawLock>(self) -> Self::Output {
        self.used.of_type::<L>(self.model, self.fences)
    }
}

impl RwLockVisitor<Litmus> for With {
    type Output = Result<Explored, Failure>;

    fn visit<L: RawRwLock>(self) -> Self::Output {
        self.run(L::new, L::is_locked, shared)
    }
}

impl SemVisitor<Litmus> for With {
    type Output = Result<Explored, Failure>;

    fn visit<L: Downgrade + KillableRw>(self) -> Self::Output {
        self.run(L::new, L::is_locked, semaphore)
    }
}

/// What is done with a lock and the data that it guards; whether that has been written.
type Doing<L> = fn(&L, Do) -> bool;

const DATA: Cell = Cell::new(0);

impl With {
    fn run<L: Sync + 'static>(
        self,
        make: fn() -> L,
        in_use: fn(&L) -> bool,
        doing: Doing<L>,
    ) -> Result<Explored, Failure> {
        let part = |parts: &'static [Do]| -> Part<L> {
            Box::new(move |lock| {
                let mut written = 0;
                for (place, what) in parts.iter().enumerate() {
                    at(written << 8 | place << 1);
                    written += usize::from(doing(lock, *what));
                }
            })
        };
        let all = || self.used.parts.iter().copied().flatten();
        let most = all().filter(|what| !matches!(what, Do::Read | Do::KillableRead));
        let sure = all().filter(|what| matches!(what, Do::Write | Do::Downgrade));
        let expected = sure.count()..=most.count();
        let setting = Setting {
            shared: make,
            register: keyed,
            parts: self.used.parts.iter().map(|parts| part(parts)).collect(),
            end: Box::new(move |lock| {
                let written = usize::try_from(DATA.last()).unwrap_or(usize::MAX);
                assert!(
                    expected.contains(&written),
                    "{written} writes, and not {expected:?}"
                );
                assert!(!in_use(lock), "somebody is left in the lock");
            }),
            fences: self.fences,
            facts: self.used.facts,
            limits: self.used.limits,
        };
        setting.explore(self.model)
    }
}

/// Writes if it has been let `inside`, and leaves by `leave`.
fn write(inside: bool, leave: impl FnOnce()) -> bool {
    if inside {
        at(INSIDE);
        DATA.add_one();
        leave();
    }
    inside
}

fn read(inside: bool, leave: impl FnOnce()) {
    if inside {
        at(INSIDE + 1);
        DATA.look();
        leave();
    }
}

/// Places in a critical section.
const INSIDE: usize = 1 << 20;

fn exclusive<L: RawLock>(lock: &L, what: Do) -> bool {
    match what {
        Do::Try => write(lock.try_lock(), || lock.unlock()),
        _ => {
            lock.lock();
            write(true, || lock.unlock())
        }
    }
}

fn shared<L: RawRwLock>(lock: &L, what: Do) -> bool {
    match what {
        Do::Read => {
            lock.read();
            read(true, || lock.read_unlock());
            false
        }
        Do::Try => write(lock.try_write(), || lock.write_unlock()),
        _ => {
            lock.write();
            write(true, || lock.write_unlock())
        }
    }
}

fn semaphore<L: Downgrade + KillableRw>(lock: &L, what: Do) -> bool {
    match what {
        Do::Downgrade => {
            lock.write();
            write(true, || lock.downgrade());
            read(true, || lock.read_unlock());
            true
        }
        Do::KillableWrite => write(lock.write_killable(), || lock.write_unlock()),
        Do::KillableRead => {
            read(lock.read_killable(), || lock.read_unlock());
            false
        }
        _ => shared(lock, what),
    }
}
