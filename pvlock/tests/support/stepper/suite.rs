//! The conformance suite of `pvlock::conformance`, on this machine.

use super::scenario::{Config, section};
use super::schedule::{Body, panic_text};
use super::subject::{Exclusive, Shared, Subject};
use super::{Failure, MACHINE, Machine, Resume, Stepper};
use crate::rng::Rng;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use pvlock::conformance::{Breach, Guarded, Kept, Meeting, SITES, Site, Suite, inconsistency};
use pvlock::word::LockWord;
use pvlock::{LockKind, LockVisitor, RawLock, RawRwLock, RwLockVisitor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const STACK_BYTES: usize = 128 << 10;
const STEP_LIMIT: u64 = 2_000_000;

/// Runs the suite of `kind` on `vcpus` vCPUs under the random schedule of that seed.
pub(crate) fn conform<W: LockWord>(
    kind: LockKind,
    vcpus: usize,
    rounds: u32,
    seed: u64,
) -> Result<(), Failure> {
    let conform = || Conform {
        config: Config {
            programs: vec![section(0, 0); vcpus],
            locks: SITES,
            ..Config::new(kind, vcpus, 0)
        },
        rounds,
        seed,
    };
    kind.visit::<Stepper<W>, _>(conform())?;
    kind.visit_rw::<Stepper<W>, _>(conform()).unwrap_or(Ok(()))
}

/// What a vCPU does.
type Part<W, L> = fn(&mut Suite<'_, Stepper<W>, L>, &[&Kept<Stepper<W>>]) -> Result<(), Breach>;

struct Conform {
    config: Config,
    rounds: u32,
    seed: u64,
}

impl<W: LockWord> LockVisitor<Stepper<W>> for Conform {
    type Output = Result<(), Failure>;

    fn visit<L: RawLock>(self) -> Self::Output {
        self.run::<W, Exclusive<L>, L>(
            |subject| &subject.0,
            |suite, kept| {
                suite.exclusive()?;
                suite.scarce(kept)
            },
        )
    }
}

impl<W: LockWord> RwLockVisitor<Stepper<W>> for Conform {
    type Output = Result<(), Failure>;

    fn visit<L: RawRwLock>(self) -> Self::Output {
        self.run::<W, Shared<L>, L>(|subject| &subject.0, |suite, _| suite.shared())
    }
}

impl Conform {
    fn run<W: LockWord, S: Subject, L: 'static>(
        self,
        inner: fn(&S) -> &L,
        part: Part<W, L>,
    ) -> Result<(), Failure> {
        let locks: Rc<[S]> = std::iter::repeat_with(S::new).take(SITES).collect();
        let machine = Rc::new(Machine::new::<W, S>(&self.config, &locks));
        let guarded: Rc<[Guarded<Stepper<W>>]> = (0..SITES).map(|_| Guarded::default()).collect();
        let meeting = Rc::new(Meeting::<Stepper<W>>::default());
        let kept: Rc<[Kept<Stepper<W>>]> = (0..2).map(|_| Kept::default()).collect();
        let (cpus, rounds) = (self.config.programs.len(), self.rounds);
        let body = |cpu: usize| {
            let (machine, locks) = (machine.clone(), locks.clone());
            let (guarded, meeting) = (guarded.clone(), meeting.clone());
            let kept = kept.clone();
            let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
            Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, ()>, _| {
                machine.vcpus[cpu].yielder.set(yielder);
                let sites: Vec<_> = (locks.iter().zip(&*guarded))
                    .map(|(lock, guarded)| Site {
                        lock: inner(lock),
                        guarded,
                    })
                    .collect();
                let mut suite = Suite {
                    sites: &sites,
                    meeting: &meeting,
                    tasks: u32::try_from(cpus).unwrap(),
                    step_aside: || (),
                    rounds,
                    met: 0,
                };
                let breach = part(&mut suite, &kept.iter().collect::<Vec<_>>());
                if let Err(breach) = breach {
                    panic!("{breach}");
                }
                machine.vcpus[cpu].done.set(true);
            })
        };
        let bodies: Vec<Body> = (0..cpus).map(body).collect();
        MACHINE.set(Some(machine.clone()));
        let result = schedule(&machine, bodies, self.seed);
        MACHINE.set(None);
        result?;
        let outcome = machine.log.borrow();
        match inconsistency(self.config.kind, |event| outcome.count(event)) {
            None => Ok(()),
            Some(what) => Err(Failure::Invariant(format!("{what}: {outcome:?}"))),
        }
    }
}

/// Lets anybody who can take the next step, until all are done.
fn schedule(machine: &Machine, mut bodies: Vec<Body>, seed: u64) -> Result<(), Failure> {
    let mut rng = Rng(seed);
    for _ in 0..STEP_LIMIT {
        let ready: Vec<usize> = (0..bodies.len())
            .filter(|&cpu| machine.vcpus[cpu].ready())
            .collect();
        if ready.is_empty() {
            let done = machine.vcpus.iter().all(|vcpu| vcpu.done.get());
            return if done {
                Ok(())
            } else {
                Err(Failure::Deadlock(machine.describe()))
            };
        }
        let cpu = ready[rng.below(ready.len())];
        machine.running.set(Some(cpu));
        let result = catch_unwind(AssertUnwindSafe(|| bodies[cpu].resume(Resume::Go)));
        machine.running.set(None);
        result.map_err(|panic| Failure::Panic(panic_text(&*panic)))?;
    }
    Err(Failure::Livelock(machine.describe()))
}
