//! What every lock must do on every machine, as a program for its tasks.
//!
//! Each task of a machine builds a [`Suite`] on the same [`Site`]s and the same [`Meeting`], and calls
//! [`Suite::exclusive`] and [`Suite::scarce`] (any lock), [`Suite::shared`] (a reader-writer lock) or [`Suite::semaphore`] (one
//! that can be downgraded and not waited for) at about the same time. Unless a machine says otherwise each
//! CPU executes one task. Where it executes several the lock must be one whose waiters sleep.
//! The first breach found is returned. A lock that loses a wake-up never lets the call return.
//!
//! | step    | what must hold                                                                    |
//! |---------|-----------------------------------------------------------------------------------|
//! | tries   | `try_lock` takes a free lock and no other; `is_locked` tells; so do the read side's |
//! | sharing | all tasks hold a lock for reading at the same time; no writer gets in meanwhile       |
//! | hammer  | one inside at a time, or readers only; nothing that the lock guards is lost          |
//! | nesting | several locks held by each task at once, released in and against the order of taking |
//! | scarce  | the same, and all come through, where some CPUs have no queue node left             |
//! | clean   | every lock is free, and no queue node is in use                                     |

mod scarce;
mod semaphore;
mod shared;

pub use scarce::Kept;
pub use semaphore::Killing;

use crate::atomic::{Atomic, Watch, zeroed};
use crate::percpu::MAX_NODES;
use crate::{LockEvent, LockKind, Platform, RawLock};
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// What a lock did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What must hold and did not.
    pub what: &'static str,
    /// The task that noticed.
    pub task: u32,
    /// Which of the sites.
    pub site: usize,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, task, site } = self;
        write!(f, "task {task}, lock {site}: broken: {what}")
    }
}

/// Where tasks wait for each other.
pub struct Meeting<P: Platform> {
    arrivals: P::U32,
}

/// What a lock guards: words that only fit together if nobody else touched them meanwhile.
pub struct Guarded<P: Platform> {
    /// The task inside plus one, or 0.
    owner: P::U32,
    first: P::U32,
    second: P::U32,
    /// Readers inside, counted atomically.
    readers: P::U32,
}

zeroed!(Meeting: arrivals: U32);
zeroed!(Guarded: owner: U32, first: U32, second: U32, readers: U32);

/// A lock and what it guards.
pub struct Site<'a, P: Platform, L> {
    /// The lock, free at the start.
    pub lock: &'a L,
    /// What it guards, zero at the start.
    pub guarded: &'a Guarded<P>,
}

impl<P: Platform, L> Clone for Site<'_, P, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, L> Copy for Site<'_, P, L> {}

/// One task's part in the program.
pub struct Suite<'a, P: Platform, L> {
    /// The locks; one is enough, with [`SITES`] all is tried that can be.
    pub sites: &'a [Site<'a, P, L>],
    /// Where the tasks wait for each other.
    pub meeting: &'a Meeting<P>,
    /// How many tasks take part: those from 0.
    pub tasks: u32,
    /// Lets other tasks of the executing CPU run, if there are any. Called inside critical sections.
    pub step_aside: fn(),
    /// How often each task goes through each step.
    pub rounds: u32,
    /// Meetings so far; 0 at the start.
    pub met: u32,
}

/// Locks worth having: one more than a CPU has queue nodes.
pub const SITES: usize = MAX_NODES + 1;

type Outcome = Result<(), Breach>;

impl<P: Platform, L> Suite<'_, P, L> {
    #[inline(never)]
    fn require(&self, site: usize, holds: bool, what: &'static str) -> Outcome {
        if holds {
            return Ok(());
        }
        Err(Breach {
            what,
            task: P::task(),
            site,
        })
    }

    /// Waits until all tasks are here.
    #[inline(never)]
    fn meet(&mut self) {
        let arrivals = &self.meeting.arrivals;
        self.met += 1;
        let all = self.met * self.tasks;
        // AcqRel and Acquire pair with each other: what a CPU did before it arrived is visible to all
        // that leave.
        if arrivals.fetch_add(1, AcqRel) + 1 == all {
            // Wake-ups that find their task awake are left over for the locks under test, which must not
            // mind.
            (0..self.tasks)
                .filter(|&task| task != P::task())
                .for_each(P::wake);
        }
        while arrivals.load(Acquire) < all {
            P::block_while(arrivals, |arrived| arrived < all);
        }
    }

    /// Inside as the only one: leaves a trace, and looks for that of others.
    #[inline(never)]
    fn alone(&self, site: usize) -> Outcome {
        let guarded = self.sites[site].guarded;
        let me = P::task() + 1;
        let found = guarded.owner.load(Relaxed);
        self.require(site, found == 0, "one is inside at a time")?;
        guarded.owner.store(me, Relaxed);
        let readers = guarded.readers.load(Relaxed);
        self.require(site, readers == 0, "no reader is inside beside a writer")?;
        let (first, second) = (guarded.first.load(Relaxed), guarded.second.load(Relaxed));
        self.require(site, first == second, "what one wrote, the next one sees")?;
        guarded.first.store(first + 1, Relaxed);
        self.dwell(first);
        guarded.second.store(second + 1, Relaxed);
        let found = guarded.owner.load(Relaxed);
        self.require(site, found == me, "one is inside at a time")?;
        guarded.owner.store(0, Relaxed);
        Ok(())
    }

    /// Spends a moment inside, now and then without the CPU.
    fn dwell(&self, turn: u32) {
        P::relax();
        if turn.is_multiple_of(4) {
            (self.step_aside)();
        }
    }

    /// After all tasks have been alone inside, `times` together.
    fn complete(&self, site: usize, times: u32) -> Outcome {
        let guarded = self.sites[site].guarded;
        let counted = (guarded.first.load(Relaxed), guarded.second.load(Relaxed));
        let right = counted == (times, times);
        self.require(site, right, "nothing that the lock guards is lost")
    }

    /// After all tasks have made so many `writes` each, which only they know.
    fn complete_sum(&mut self, writes: u32) -> Outcome {
        // Added up where all can see them.
        let total = &self.sites[0].guarded.readers;
        self.meet();
        total.fetch_add(writes, AcqRel);
        self.meet();
        let writes = total.load(Relaxed);
        self.complete(0, writes)
    }

    fn no_node_in_use(&self) -> Outcome {
        let used = P::percpu(P::cpu()).nodes[0].in_use.load(Relaxed);
        self.require(0, used == 0, "no queue node is left in use")
    }
}

/// A lock's operations as calls: the suite is no place to inline them again and again.
struct Called<'a, L>(&'a L);

impl<L: RawLock> Called<'_, L> {
    #[inline(never)]
    fn lock(&self) {
        self.0.lock();
    }
    #[inline(never)]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }
    #[inline(never)]
    fn unlock(&self) {
        self.0.unlock();
    }
}

impl<P: Platform, L: RawLock> Suite<'_, P, L> {
    /// What any lock must do.
    ///
    /// # Errors
    /// The first breach that this task has noticed. Others may then wait for it for ever.
    pub fn exclusive(&mut self) -> Outcome {
        self.tries()?;
        self.meet();
        for round in 0..self.rounds {
            let lock = Called(self.sites[0].lock);
            // Now and then by trying first, so that thieves are among the waiters.
            if round % 3 != 2 || !lock.try_lock() {
                lock.lock();
            }
            self.alone(0)?;
            lock.unlock();
        }
        self.meet();
        self.complete(0, self.rounds * self.tasks)?;
        self.meet();
        for round in 0..self.rounds {
            self.nest(round)?;
        }
        self.meet();
        for place in 0..self.sites.len() {
            self.is_free_at_the_end(place)?;
        }
        self.meet();
        self.no_node_in_use()
    }

    /// One task looks: there are locks that can only be tried, which a second one would notice.
    fn is_free_at_the_end(&self, place: usize) -> Outcome {
        let free = P::task() != 0 || !self.sites[place].lock.is_locked();
        self.require(place, free, "every lock is free at the end")
    }

    /// Another task looks at a lock that task 0 holds.
    #[inline(never)]
    fn tries(&mut self) -> Outcome {
        let (lock, task, other) = (Called(self.sites[0].lock), P::task(), 1 % self.tasks);
        if task == 0 {
            self.require(0, !lock.0.is_locked(), "a new lock is free")?;
            self.require(0, lock.try_lock(), "try_lock takes a free lock")?;
            self.require(0, lock.0.is_locked(), "is_locked tells of a held lock")?;
        }
        self.meet();
        if task == other {
            self.require(0, !lock.try_lock(), "try_lock takes no held lock")?;
            self.require(
                0,
                lock.0.is_locked(),
                "a try_lock that fails leaves no trace",
            )?;
        }
        self.meet();
        if task == 0 {
            lock.unlock();
            self.require(0, !lock.0.is_locked(), "an unlocked lock is free")?;
        }
        self.meet();
        if task == other {
            self.require(0, lock.try_lock(), "a lock can be taken again")?;
            lock.unlock();
        }
        Ok(())
    }

    /// Takes some of the locks, each inside the one before, and releases them again.
    #[inline(never)]
    fn nest(&self, round: u32) -> Outcome {
        // Other sets in other rounds and of other tasks; always in the same order, or they would
        // wait for each other.
        let set = 1 + (round * 7 + P::task() * 3) % ((1 << self.sites.len()) - 1);
        let chosen = |site: &usize| set & 1 << site != 0;
        for site in (0..self.sites.len()).filter(chosen) {
            Called(self.sites[site].lock).lock();
            self.alone(site)?;
        }
        let last = self.sites.len() - 1;
        for step in 0..self.sites.len() {
            let site = if round.is_multiple_of(2) {
                last - step
            } else {
                step
            };
            if chosen(&site) {
                Called(self.sites[site].lock).unlock();
            }
        }
        Ok(())
    }
}

/// What does not hold of the events that all CPUs together have counted, after the last of them has
/// left its last lock; `None` if they fit together.
pub fn inconsistency(kind: LockKind, count: impl Fn(LockEvent) -> u64) -> Option<&'static str> {
    use LockEvent::*;
    use LockKind::*;
    // A head is kicked once, but where it halts again after a kick in vain: then for each halt, with an entry for
    // each, or one that stays.
    let again = match kind {
        PvRehash | PvBoundRehash | PvRehashAsym | PvNext | QRwLockPvNext => count(PvWaitHead),
        _ => 0,
    };
    let entry_stays = kind.traits().barriers;
    let relations = [
        (PvKickUnlock, LockSlowpath, "a head is hashed once at most"),
        (PvKickUnlock, PvHashHops, "a kick follows an entry"),
        (PvKickWake, PvKickUnlock, "a wake-up follows a kick"),
        (PvWaitAgain, PvWaitHead, "halting again is halting"),
        (PvWaitEarly, PvWaitNode, "halting early is halting"),
        (
            PvSpuriousWakeup,
            PvWaitNode,
            "an idle wake-up follows a halt",
        ),
    ];
    let broken = relations.iter().find(|&&(less, more, _)| {
        let again = match (less, more) {
            (PvKickUnlock, LockSlowpath) => again,
            (PvKickUnlock, PvHashHops) if entry_stays => again,
            _ => 0,
        };
        count(less) > count(more) + again
    });
    broken.map(|(_, _, what)| *what)
}
