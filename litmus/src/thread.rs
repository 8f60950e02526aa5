//! What the code under test runs on: a coroutine for each CPU, which asks for one access at a time.

use crate::op::{Op, Reply, Site};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Threads that a model can have.
pub const THREADS: usize = 4;

const STACK_BYTES: usize = 64 << 10;

type Asks = Yielder<Reply, Op>;

thread_local! {
    static RUNNING: Cell<Option<usize>> = const { Cell::new(None) };
    static YIELDERS: Cell<[*const Asks; THREADS]> = const { Cell::new([std::ptr::null(); THREADS]) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(vec![]) };
    static SITE: Cell<Option<Site>> = const { Cell::new(None) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The CPU that executes; `None` between executions.
pub(crate) fn running() -> Option<usize> {
    RUNNING.get()
}

/// Asks for `op`, as the CPU that executes, from that place in the source.
pub(crate) fn ask(site: Site, op: Op) -> Reply {
    let Some(t) = RUNNING.get() else {
        return crate::explore::at_the_end(&op);
    };
    SITE.set(Some(site));
    let yielder = YIELDERS.get()[t];
    // SAFETY: a thread's yielder lives as long as its coroutine, on whose stack we are.
    #[allow(unsafe_code)]
    let yielder = unsafe { &*yielder };
    yielder.suspend(op)
}

/// Where the last request was made.
pub(crate) fn site() -> Option<Site> {
    SITE.get()
}

/// What came of letting a thread run to its next request.
pub(crate) enum Ran {
    Asks(Op),
    Done,
    /// With what it said.
    Panicked(String),
}

/// A thread of a model.
pub(crate) struct Body {
    number: usize,
    coroutine: Option<Coroutine<Reply, Op, ()>>,
}

impl Body {
    /// Thread `number`, which does `run`.
    pub(crate) fn new(number: usize, run: &'static dyn Fn()) -> Self {
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack =
            stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a stack"));
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Asks, _: Reply| {
            let mut yielders = YIELDERS.get();
            yielders[number] = yielder;
            YIELDERS.set(yielders);
            run();
        });
        Self {
            number,
            coroutine: Some(coroutine),
        }
    }

    /// Answers its last request, and lets it run to the next.
    pub(crate) fn run(&mut self, reply: Reply) -> Ran {
        let coroutine = self.coroutine.as_mut().expect("it has not ended");
        RUNNING.set(Some(self.number));
        let was_quiet = QUIET.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(reply)));
        QUIET.set(was_quiet);
        RUNNING.set(None);
        match result {
            Ok(CoroutineResult::Yield(op)) => Ran::Asks(op),
            Ok(CoroutineResult::Return(())) => Ran::Done,
            Err(panic) => Ran::Panicked(said(&*panic)),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Some(mut coroutine) = self.coroutine.take() else {
            return;
        };
        if !coroutine.done() {
            // SAFETY: what a lock has on its stack needs no dropping: references and numbers.
            #[allow(unsafe_code)]
            unsafe {
                coroutine.force_reset();
            }
        }
        STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
    }
}

/// Panics of models are findings, told by who looks for them, not by the hook.
pub(crate) fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
}

/// Does `run` beside all threads; what it says if it panics.
///
/// # Errors
/// That.
pub(crate) fn catch(run: &dyn Fn()) -> Result<(), String> {
    let was_quiet = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(was_quiet);
    result.map_err(|panic| said(&*panic))
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_default()
}
