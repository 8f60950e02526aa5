//! Locks of several kinds on one machine.

use super::scenario::Config;
use super::schedule::run_on;
use super::subject::Subject;
use super::{Failure, Outcome, Stepper};
use pvlock::word::LockWord;
use pvlock::{LockKind, LockVisitor, Operations, Platform, RawLock};
use std::cell::{RefCell, UnsafeCell};
use std::marker::PhantomData;

/// Larger than any lock.
const WORDS: usize = 16;

thread_local! {
    /// The kinds of the locks that are made next, the last one first.
    static KINDS: RefCell<Vec<LockKind>> = const { RefCell::new(vec![]) };
}

/// Runs a scenario with a lock of each of its kinds.
pub(super) fn run<W: LockWord>(config: &Config) -> Result<Outcome, Failure> {
    assert_eq!(config.locks, config.mixed.len());
    KINDS.set(config.mixed.iter().rev().copied().collect());
    run_on::<W, Any<W>>(config)
}

/// Asks for size and alignment.
struct Layout;

impl<P: Platform> LockVisitor<P> for Layout {
    type Output = (usize, usize);

    fn visit<L: RawLock>(self) -> Self::Output {
        (size_of::<L>(), align_of::<L>())
    }
}

/// A lock of the next kind.
#[repr(C)]
struct Any<W> {
    memory: UnsafeCell<[u64; WORDS]>,
    operations: Operations,
    word: PhantomData<W>,
}

#[allow(unsafe_code)] // Locks by their operations.
impl<W: LockWord> Any<W> {
    fn at(&self) -> *const () {
        self.memory.get().cast_const().cast()
    }
}

#[allow(unsafe_code)] // As above.
impl<W: LockWord> Subject for Any<W> {
    fn new() -> Self {
        let kind = KINDS.with_borrow_mut(Vec::pop).unwrap();
        let operations = kind.operations::<Stepper<W>>();
        let (size, align) = kind.visit::<Stepper<W>, _>(Layout);
        assert!(size <= 8 * WORDS && align <= 8, "{kind}");
        let this = Self {
            memory: UnsafeCell::new([0; WORDS]),
            operations,
            word: PhantomData,
        };
        // SAFETY: there is room for it; it does not refer to where it is, and may be moved before it is used.
        unsafe { (operations.init)(this.memory.get().cast()) };
        this
    }
    fn lock(&self) {
        // SAFETY: it is one, here and below.
        unsafe { (self.operations.lock)(self.at()) };
    }
    fn try_lock(&self) -> bool {
        // SAFETY: see lock().
        unsafe { (self.operations.try_lock)(self.at()) }
    }
    fn unlock(&self) {
        // SAFETY: see lock(); programs release what they have taken.
        unsafe { (self.operations.unlock)(self.at()) };
    }
    fn is_locked(&self) -> bool {
        // SAFETY: see lock().
        unsafe { (self.operations.is_locked)(self.at()) }
    }
}
