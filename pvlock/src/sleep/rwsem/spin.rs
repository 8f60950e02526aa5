//! Writers that spin.
//!
//! | the owner word says   | spin?                                                              |
//! |-----------------------|--------------------------------------------------------------------|
//! | a writer              | while it is on a CPU that is not known to be preempted               |
//! | readers               | for 10 us and half a us for each of them, up to 25 us                 |
//! | nobody                | for 25 us                                                             |
//! | nonspinnable          | no                                                                  |
//!
//! Of readers one cannot know whether they run. When the time is up the word is marked nonspinnable, so
//! that others do not spend theirs as well; the last reader out clears it.
//!
//! *Nobody* is a moment between two owners, unless the writer that has just taken the lock lost its CPU
//! before it could say so. Linux spins on then, as long as no other task wants the CPU, and once had a
//! real-time spinner livelock; here any wait for that writer is bounded.

use super::{BY_READERS, HANDOFF, LOCKED, NONSPINNABLE, OWNER_SHIFT, RawRwSem, WRITER, readers};
use crate::atomic::{Atomic, Watch};
use crate::sleep::runs;
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// How long to spin on readers, at least and at most.
const LEAST_NS: u64 = 10_000;
const PER_READER_NS: u64 = 500;
const MOST_NS: u64 = 25_000;
/// Turns of the loop between two looks at the clock.
const TURNS: u32 = 16;

/// What the owner word says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    Writer(u32),
    Readers,
    Nonspinnable,
}

impl Owner {
    fn of(word: u32) -> Self {
        match word >> OWNER_SHIFT {
            _ if word & NONSPINNABLE != 0 => Self::Nonspinnable,
            _ if word & BY_READERS != 0 => Self::Readers,
            0 => Self::Nobody,
            name => Self::Writer(name),
        }
    }

    fn is_promising<P: Platform>(self) -> bool {
        match self {
            Self::Nonspinnable => false,
            Self::Writer(name) => runs::<P>(name),
            Self::Nobody | Self::Readers => true,
        }
    }
}

impl<P: Platform, W: RawLock> RawRwSem<P, W> {
    /// Spins while that is promising, in turn with others. True if it has got the lock.
    pub(super) fn spin_in_turn(&self) -> bool {
        let owner = Owner::of(self.owner.load(Relaxed));
        if P::need_resched() || !owner.is_promising::<P>() {
            return false;
        }
        self.osq.in_turn(
            || self.spin(),
            Some(LockEvent::RwsemOptLock),
            LockEvent::RwsemOptFail,
        )
    }

    fn spin(&self) -> bool {
        // When to stop, while no writer owns the lock, and what told so.
        let mut limit: Option<(Owner, u64)> = None;
        let mut turn = 0;
        loop {
            let owner = self.spin_on_owner();
            if owner == Owner::Nonspinnable {
                return false;
            }
            if self.try_write_past_list() {
                return true;
            }
            if P::need_resched() {
                return false;
            }
            match (owner, limit) {
                (Owner::Writer(_), _) => limit = None,
                (_, Some((since, until))) if since == owner => {
                    turn += 1;
                    if turn % TURNS == 0 && P::now() > until {
                        if owner == Owner::Readers {
                            self.set_nonspinnable();
                            P::count(LockEvent::RwsemOptNospin, 1);
                        }
                        return false;
                    }
                }
                _ => {
                    limit = Some((owner, P::now() + P::ticks(self.patience(owner))));
                    turn = 0;
                }
            }
            P::relax();
        }
    }

    fn patience(&self, owner: Owner) -> u64 {
        let readers = readers(self.count.load(Relaxed));
        match owner {
            Owner::Readers => (LEAST_NS + PER_READER_NS * readers).min(MOST_NS),
            _ => MOST_NS,
        }
    }

    /// Waits as long as the same writer owns the lock and runs. Returns what the owner word says then.
    pub(super) fn spin_on_owner(&self) -> Owner {
        let owner = Owner::of(self.owner.load(Relaxed));
        if !matches!(owner, Owner::Writer(_)) {
            return owner;
        }
        let changed = |now| Owner::of(now) != owner;
        let give_up = || P::need_resched() || !owner.is_promising::<P>();
        P::spin_unless(&self.owner, Relaxed, changed, give_up)
            .map_or(Owner::Nonspinnable, Owner::of)
    }

    /// (0,f,0) -> (0,f,1), unless the lock is to be given to the first in the list.
    fn try_write_past_list(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & (LOCKED | HANDOFF) == 0 {
            // Acquire pairs with the Release in both unlocks.
            let new = count | WRITER;
            match self.count.compare_exchange(count, new, Acquire, Relaxed) {
                Ok(_) => {
                    self.set_writer_owned();
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    /// Marks a lock that readers own.
    fn set_nonspinnable(&self) {
        let mut owner = self.owner.load(Relaxed);
        while owner & (BY_READERS | NONSPINNABLE) == BY_READERS {
            let marked = owner | NONSPINNABLE;
            match self.owner.compare_exchange(owner, marked, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(found) => owner = found,
            }
        }
    }

    pub(super) fn clear_nonspinnable(&self) {
        if self.owner.load(Relaxed) & NONSPINNABLE != 0 {
            self.owner.fetch_and(!NONSPINNABLE, Relaxed);
        }
    }
}
