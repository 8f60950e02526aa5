//! Which tasks spin, and for how long.
//!
//! | the owner is        | 3.16                       | 4.x                        | with `RSPIN`          |
//! |---------------------|----------------------------|----------------------------|-----------------------|
//! | a writer            | while it is on a CPU       | while it is on a CPU, and so are those after it | as without |
//! | readers (4.x only)  |                            | not at all                 | for 25 us              |
//! | unknown             | not at all to begin with: they may be readers; then for 25 us | for 25 us | for 25 us |
//!
//! On a CPU means one that is not known to be preempted. Linux 4.x set no bound on an owner unknown; see
//! [`super::super::rwsem`] for why there is one here.

use super::{BY_READERS, OWNER_SHIFT, RwSemXadd, Variant};
use crate::atomic::Watch;
use crate::sleep::runs;
use crate::{LockEvent, Platform, RawLock};
use core::sync::atomic::Ordering::Relaxed;

/// How long to spin while no writer is known to own the lock.
const PATIENCE_NS: u64 = 25_000;
/// Turns of the loop between two looks at the clock.
const TURNS: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Unknown,
    Readers,
    Writer(u32),
}

impl<P: Platform, V: Variant, W: RawLock> RwSemXadd<P, V, W> {
    fn owner(&self) -> Owner {
        let word = self.owner.load(Relaxed);
        match word >> OWNER_SHIFT {
            _ if word & BY_READERS != 0 => Owner::Readers,
            0 => Owner::Unknown,
            name => Owner::Writer(name),
        }
    }

    /// Whether to begin to spin.
    pub(super) fn is_promising(&self) -> bool {
        !P::need_resched() && Self::promises(self.owner())
    }

    fn promises(owner: Owner) -> bool {
        match owner {
            Owner::Writer(name) => runs::<P>(name),
            Owner::Readers => V::RSPIN,
            Owner::Unknown => V::RSPIN || !V::OLD,
        }
    }

    /// Spins while that is promising, in turn with others, until `take` succeeds.
    pub(super) fn spin_in_turn(&self, take: fn(&Self) -> bool) -> bool {
        if !self.is_promising() {
            return false;
        }
        self.osq
            .in_turn(|| self.spin(take), None, LockEvent::RwsemOptFail)
    }

    fn spin(&self, take: fn(&Self) -> bool) -> bool {
        // When to stop, while no writer is known to own the lock.
        let mut until = None;
        let mut turn = 0_u32;
        let mut last = self.owner();
        loop {
            if take(self) {
                return true;
            }
            let owner = self.owner();
            // In 3.16 an owner unknown keeps nobody that spins already from going on: it is most often about to be
            // known.
            if P::need_resched() || (owner != Owner::Unknown && !Self::promises(owner)) {
                return false;
            }
            match owner {
                Owner::Writer(_) => {
                    // In 3.16 one spins on one owner.
                    if V::OLD && !V::RSPIN && owner != last && last != Owner::Unknown {
                        return false;
                    }
                    until = None;
                }
                Owner::Unknown | Owner::Readers => match until {
                    None => until = Some(P::now() + P::ticks(PATIENCE_NS)),
                    Some(until) => {
                        turn = turn.wrapping_add(1);
                        if turn.is_multiple_of(TURNS) && P::now() > until {
                            return false;
                        }
                    }
                },
            }
            last = owner;
            P::relax();
        }
    }
}
