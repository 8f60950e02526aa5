//! Models of locks: a few CPUs that take one, or several.

use crate::atomics::LockAtomic;
use crate::explore::{Explored, Failure, Limits};
use crate::memory::Model;
use crate::model::{Cell, Part, Setting, at};
use crate::platform::{Facts, Litmus, register};
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
    /// Tries to take it for reading.
    TryRead,
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
        if all
            .clone()
            .any(|what| matches!(what, Do::Read | Do::TryRead))
        {
            let explored = kind.visit_rw::<Litmus, _>(with);
            return explored.expect("it has a read side");
        }
        kind.visit::<Litmus, _>(with)
    }

    /// The model of this use of that lock.
    pub(crate) fn setting<L: RawLock>(self, fences: bool) -> Setting<L> {
        setting(self, fences, L::new, L::is_locked, exclusive)
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
    // Of the sleeping ones, the one whose release may leave a wake-up to a spinner.
    (traits.halts && !traits.sleeps) || kind.name().starts_with("rwsem-xadd")
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

/// What is done with a lock and the data that it guards, at that place of a CPU's part; whether the data has been
/// written.
type Doing<L> = fn(&L, Do, usize) -> bool;

const DATA: Cell = Cell::new(0);

impl With {
    fn run<L: Sync + 'static>(
        self,
        make: fn() -> L,
        in_use: fn(&L) -> bool,
        doing: Doing<L>,
    ) -> Result<Explored, Failure> {
        let setting = setting(self.used, self.fences, make, in_use, doing);
        setting.explore(self.model)
    }
}

fn setting<L: Sync + 'static>(
    used: Use,
    fences: bool,
    make: fn() -> L,
    in_use: fn(&L) -> bool,
    doing: Doing<L>,
) -> Setting<L> {
    let part = |parts: &'static [Do]| -> Part<L> {
        Box::new(move |lock| {
            let mut written = 0;
            for (place, what) in parts.iter().enumerate() {
                let place = written << 8 | place;
                at(place);
                written += usize::from(doing(lock, *what, place));
            }
        })
    };
    let all = || used.parts.iter().copied().flatten();
    let most = all().filter(|what| !matches!(what, Do::Read | Do::TryRead | Do::KillableRead));
    let sure = all().filter(|what| matches!(what, Do::Write | Do::Downgrade));
    let expected = sure.count()..=most.count();
    Setting {
        shared: make,
        register,
        parts: used.parts.iter().map(|parts| part(parts)).collect(),
        end: Box::new(move |lock| {
            let written = usize::try_from(DATA.last()).unwrap_or(usize::MAX);
            assert!(
                expected.contains(&written),
                "{written} writes, and not {expected:?}"
            );
            assert!(!in_use(lock), "somebody is left in the lock");
        }),
        fences,
        facts: used.facts,
        limits: used.limits,
    }
}

/// The word of a lock that is nothing but one.
pub(crate) fn word<L: RawLock>(lock: &L) -> &LockAtomic {
    assert!(size_of::<L>() == size_of::<LockAtomic>());
    // SAFETY: those that are asked for it are transparent.
    #[allow(unsafe_code)]
    unsafe {
        &*std::ptr::from_ref(lock).cast()
    }
}

/// Such a lock, of its word.
pub(crate) fn alone<L: RawLock>(word: LockAtomic) -> L {
    assert!(size_of::<L>() == size_of::<LockAtomic>());
    // SAFETY: as in word(); there is nothing in it to be dropped twice.
    #[allow(unsafe_code)]
    unsafe {
        std::mem::transmute_copy(&word)
    }
}

/// Writes if it has been let `inside`, and leaves by `leave`.
fn write(inside: bool, place: usize, leave: impl FnOnce()) -> bool {
    if inside {
        at(WRITES | place);
        DATA.add_one();
        leave();
    }
    inside
}

fn read(inside: bool, place: usize, leave: impl FnOnce()) {
    if inside {
        at(READS | place);
        DATA.look();
        leave();
    }
}

/// Within a critical section.
const WRITES: usize = 1 << 20;
const READS: usize = 1 << 21;

fn exclusive<L: RawLock>(lock: &L, what: Do, place: usize) -> bool {
    match what {
        Do::Try => write(lock.try_lock(), place, || lock.unlock()),
        _ => {
            lock.lock();
            write(true, place, || lock.unlock())
        }
    }
}

fn shared<L: RawRwLock>(lock: &L, what: Do, place: usize) -> bool {
    match what {
        Do::Read => {
            lock.read();
            read(true, place, || lock.read_unlock());
            false
        }
        Do::TryRead => {
            read(lock.try_read(), place, || lock.read_unlock());
            false
        }
        Do::Try => write(lock.try_write(), place, || lock.write_unlock()),
        _ => {
            lock.write();
            write(true, place, || lock.write_unlock())
        }
    }
}

fn semaphore<L: Downgrade + KillableRw>(lock: &L, what: Do, place: usize) -> bool {
    match what {
        Do::Downgrade => {
            lock.write();
            write(true, place, || lock.downgrade());
            read(true, place, || lock.read_unlock());
            true
        }
        Do::KillableWrite => write(lock.write_killable(), place, || lock.write_unlock()),
        Do::KillableRead => {
            read(lock.read_killable(), place, || lock.read_unlock());
            false
        }
        _ => shared(lock, what, place),
    }
}
