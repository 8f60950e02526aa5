//! A directed yield: a vCPU's thread gives its time to another's, as far as Linux lets a process.
//!
//! Linux offers no yield to a chosen thread (KVM has one inside the kernel, for kicks and pause-loop
//! exits). What a process can do is find out whether there is anything to give, and then leave its
//! CPU until the other has run:
//!
//! | the target           | what the yielder does                                              |
//! |----------------------|--------------------------------------------------------------------|
//! | runs                 | returns at once: futile                                            |
//! | is halted            | returns at once: futile, as only a kick helps it                   |
//! | waits for a CPU      | sleeps [`STEP`] at a time until the target has run, at most [`BOUND`] |
//!
//! Whether the target runs is asked of its CPU clock, which advances between two readings of a running
//! thread only. Two system calls, and no file.
//!
//! Why it sleeps instead of calling `sched_yield`: with four busy threads on a CPU, under the EEVDF
//! scheduler of Linux 6.18, the target was on the CPU after 2.7 to 3 ms (median) if the yielder slept
//! 20 to 100 us at a time, and after 5.8 ms if it called `sched_yield`, which lets whoever is first in
//! line run a whole slice, again and again. When every thread yielded, it was 1.7 against 2.3 ms.

use crate::thread;
use abi::Counter;
use rustix::process::Pid;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// How long the yielder sleeps before it looks again.
pub const STEP: Duration = Duration::from_micros(100);

/// Longest time that the yielder stays away: about one slice of the scheduler. A target that has not
/// run by then has others before it, and the lock may have changed hands meanwhile.
pub const BOUND: Duration = Duration::from_millis(4);

/// How a yield ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yielded {
    /// The target waited for a CPU, and got one.
    Ran,
    /// Futile: the target was running.
    WasRunning,
    /// Futile: the target was halted, or has no thread.
    WasHalted,
    /// Futile: the target waited for a CPU, and had not got one after [`BOUND`].
    DidNotRun,
}

impl Yielded {
    /// The counters that go up by one, beside that of all yields.
    pub const fn counters(self) -> &'static [Counter] {
        match self {
            Self::Ran => &[],
            Self::WasRunning => &[Counter::FutileYields, Counter::YieldsToRunning],
            Self::WasHalted => &[Counter::FutileYields, Counter::YieldsToHalted],
            Self::DidNotRun => &[Counter::FutileYields],
        }
    }
}

/// What others know of a vCPU's thread.
#[derive(Debug, Default)]
pub struct Target {
    tid: AtomicI32,
    halted: AtomicBool,
}

impl Target {
    /// The calling thread is the vCPU's.
    pub fn set_thread(&self) {
        // Release pairs with the Acquire in tid(): nothing is published but the number itself.
        self.tid.store(
            rustix::thread::gettid().as_raw_nonzero().get(),
            Ordering::Release,
        );
    }

    /// The vCPU's thread, once there is one.
    pub fn tid(&self) -> Option<Pid> {
        Pid::from_raw(self.tid.load(Ordering::Acquire))
    }

    /// The vCPU blocks in a halt, or has ceased to.
    pub fn set_halted(&self, halted: bool) {
        // Relaxed: out of date as soon as it is known.
        self.halted.store(halted, Ordering::Relaxed);
    }

    /// Whether the vCPU is halted.
    pub fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Gives the calling thread's time to this vCPU.
    pub fn yield_to(&self) -> Yielded {
        if self.is_halted() {
            return Yielded::WasHalted;
        }
        let Some(before) = self.cpu_time() else {
            return Yielded::WasHalted;
        };
        if self.cpu_time() != Some(before) {
            return Yielded::WasRunning;
        }
        let begun = Instant::now();
        loop {
            std::thread::sleep(STEP);
            // A target that halts has run.
            if self.is_halted() || self.cpu_time() != Some(before) {
                return Yielded::Ran;
            }
            if begun.elapsed() >= BOUND {
                return Yielded::DidNotRun;
            }
        }
    }

    /// Time that the thread has had on a CPU; `None` if there is no thread.
    fn cpu_time(&self) -> Option<Duration> {
        thread::cpu_time(self.tid()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    /// Runs `body` as the thread of a target while `f` looks at it.
    fn with_target<T>(
        body: impl FnOnce(&Target, &AtomicBool) + Send + 'static,
        f: impl FnOnce(&Target) -> T,
    ) -> T {
        let shared = Arc::new((Target::default(), AtomicBool::new(false)));
        let theirs = Arc::clone(&shared);
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            theirs.0.set_thread();
            ready.send(()).unwrap();
            body(&theirs.0, &theirs.1);
        });
        is_ready.recv().unwrap();
        let result = f(&shared.0);
        shared.1.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        result
    }

    fn spin(_: &Target, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn nothing_is_given_to_one_that_is_halted_or_is_not_there() {
        let target = Target::default();
        assert_eq!(target.yield_to(), Yielded::WasHalted);
        target.set_thread();
        target.set_halted(true);
        assert_eq!(target.yield_to(), Yielded::WasHalted);
    }

    #[test]
    fn nothing_is_given_to_one_that_runs() {
        let own = Target::default();
        own.set_thread();
        assert_eq!(own.yield_to(), Yielded::WasRunning);
    }

    #[test]
    fn one_that_waits_for_this_cpu_gets_it() {
        let own = rustix::thread::sched_getcpu();
        crate::thread::set_affinity(&[own]).unwrap();
        // It inherits our CPU, so it never runs while we do.
        let outcomes = with_target(spin, |target| {
            (0..20).map(|_| target.yield_to()).collect::<Vec<_>>()
        });
        // On a busy host others may be before it for longer than the bound; but not always.
        assert!(outcomes.contains(&Yielded::Ran), "{outcomes:?}");
        assert!(!outcomes.contains(&Yielded::WasHalted));
    }

    #[test]
    fn one_that_does_not_run_holds_nobody_up_for_longer_than_the_bound() {
        let begun = Instant::now();
        let sleeper = |_: &Target, stop: &AtomicBool| {
            // Blocked, and not marked as halted.
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
            }
        };
        let outcome = with_target(sleeper, |target| {
            std::thread::sleep(Duration::from_millis(50));
            target.yield_to()
        });
        assert_eq!(outcome, Yielded::DidNotRun);
        assert!(begun.elapsed() >= BOUND);
    }
}
