//! `rwsem-xadd` and relatives: the sleeping reader-writer lock of Linux 2.6 to 5.2, in one 64-bit count.
//!
//! Count is a sum, so that both fast paths are one add. As a signed number:
//!
//! | summand              | for                                                             |
//! |----------------------|-----------------------------------------------------------------|
//! | 1                    | each reader                                                       |
//! | [`WAITING`] = -2^32   | a list that is not empty                                          |
//! | [`WAITING`] + 1       | each writer                                                       |
//!
//! Those in its low 32 bits, *active*, hold the lock or are finding out whether they may. States are
//! written as such sums, with W for [`WAITING`].
//!
//! ```text
//! n --read--> n+1 (n >= 0)             0 --write--> W+1                    the fast paths
//! n --write--> n+W+1 --> n             a writer that may not: it takes that back
//! W+1 --read--> W+2 --> W+W+1          a reader that may not: it goes to the list, which then is not empty
//! W --a spinning writer--> W+W+1       past the list
//! W --the writer woken--> W+W+1, or W+1 if it leaves an empty list
//! W --k readers woken--> W+k, or k     they are granted the lock
//! ```
//!
//! There are [`MAX_READERS`] at most: then a reader that comes panics, and a try fails. (Else 2^32 of them,
//! whose guards have been forgotten, would be `-W`: nobody active, and with a list nothing at all.) The
//! fast path finds out by the comparison that it makes anyway, without sign instead of with.
//!
//! `W+1` is a writer, or a reader and a list; who knows whether there is a list can tell them apart.
//!
//! There is no hand-over: whoever is woken competes with those who come, and may starve.
//!
//! # Variants
//! What changed over the years, or was proposed, is a switch each.
//!
//! | switch   | off                                              | on                                        |
//! |----------|--------------------------------------------------|-------------------------------------------|
//! | `ASM`    | the generic fast path: a writer gets in if nobody holds or waits | that of the x86 assembly: if nobody holds, past those that wait |
//! | `OLD`    | 4.x: who spins also waits for an owner to be named; readers leave a mark, and end it; wakes without the wait lock | 3.16: owner unknown, no spinning; a new owner ends it; wakes with the wait lock held |
//! | `RSPIN`  | readers never spin, and nobody spins on readers  | readers spin, too, and all spin on readers for a bounded time |
//! | `RESPIN` | a writer that is woken and finds the lock taken sleeps | it spins before that                 |
//!
//! The second word, *owner*, is as in [`super::rwsem`], without *nonspinnable*; 3.16 has no mark of readers.
//!
//! # Orderings
//! | step                              | ordering | pairs with                                          |
//! |-----------------------------------|----------|-----------------------------------------------------|
//! | adds and exchanges that get in     | Acquire  | both below                                          |
//! | release, downgrade                | Release  | those (adds are one release sequence, so all readers') |
//! | `granted`                         | Release  | Acquire of the reader that sleeps                     |
//! | other adds; owner                 | Relaxed  | nothing: the wait lock orders what is behind; a hint  |

mod slow;
mod spin;

use super::debug::{self, Facts, Magic};
use super::list::WaitList;
use super::me;
use super::osq::Osq;
use super::within::Within;
use crate::atomic::{Atomic, Watch, zeroed};
use crate::traced::{Held, TracedRw};
use crate::{Platform, RawLock, RawQSpinLock};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Which switches are on; see the [module](self) documentation.
pub trait Variant: 'static {
    /// The fast path of the x86 assembly.
    const ASM: bool;
    /// 3.16.
    const OLD: bool;
    /// Readers spin.
    const RSPIN: bool;
    /// Writers that are woken spin.
    const RESPIN: bool;
}

/// The variant with these switches.
pub struct Switches<const ASM: bool, const OLD: bool, const RSPIN: bool, const RESPIN: bool>;

impl<const ASM: bool, const OLD: bool, const RSPIN: bool, const RESPIN: bool> Variant
    for Switches<ASM, OLD, RSPIN, RESPIN>
{
    const ASM: bool = ASM;
    const OLD: bool = OLD;
    const RSPIN: bool = RSPIN;
    const RESPIN: bool = RESPIN;
}

/// The lock with these switches; `W` is the wait lock.
pub type RawRwSemXadd<
    P,
    const ASM: bool = false,
    const OLD: bool = false,
    const RSPIN: bool = false,
    const RESPIN: bool = false,
    W = RawQSpinLock<Within<P>>,
> = RwSemXadd<P, Switches<ASM, OLD, RSPIN, RESPIN>, W>;

/// The lock in the variant `V`; see the [module](self) documentation. `W` is the wait lock.
#[repr(C)]
pub struct RwSemXadd<P: Platform, V, W> {
    count: P::U64,
    owner: P::U32,
    osq: Osq<P>,
    list: WaitList<P>,
    wait: W,
    magic: Magic<P>,
    variant: PhantomData<fn() -> V>,
}

const ACTIVE: u64 = (1 << 32) - 1;
const READER: u64 = 1;
/// As many as may hold it; half of the active, so that the others fit in beside those that are finding out.
pub const MAX_READERS: u64 = 1 << 31;
/// The list is not empty.
pub const WAITING: u64 = ACTIVE.wrapping_neg().wrapping_sub(1);
const WRITER: u64 = WAITING.wrapping_add(READER);

/// Owner word: readers own it.
const BY_READERS: u32 = 1 << 0;
const OWNER_SHIFT: u32 = 2;

/// Whether `a` is below `b`, as signed numbers.
const fn below(a: u64, b: u64) -> bool {
    a.cast_signed() < b.cast_signed()
}

impl<P: Platform, V: Variant, W: RawLock> RwSemXadd<P, V, W> {
    /// As that of [`rwsem`](super::rwsem).
    #[inline(always)]
    fn set_reader_owned(&self, name: impl FnOnce() -> u32) {
        if !V::OLD && (debug::ON || self.owner.load(Relaxed) & BY_READERS == 0) {
            self.owner
                .store(name() << OWNER_SHIFT | BY_READERS, Relaxed);
        }
    }

    fn set_writer_owned(&self) {
        self.owner.store(me::<P>() << OWNER_SHIFT, Relaxed);
    }

    /// With the feature `debug-rwsems`, panics unless `holds`, given count and owner.
    #[track_caller]
    #[inline(always)]
    fn require(&self, what: &str, holds: impl FnOnce(u64, u32) -> bool) {
        if debug::ON {
            let (count, owner) = (self.count.load(Relaxed), self.owner.load(Relaxed));
            let facts = Facts {
                lock: self,
                magic: &self.magic,
                count,
                owner,
                shift: OWNER_SHIFT,
                list_is_empty: self.list.is_empty(),
            };
            facts.require(holds(count, owner), what);
        }
    }

    /// The exchange `count` -> `new` on behalf of somebody who gets in by it.
    fn claim(&self, count: u64, new: u64) -> Result<u64, u64> {
        // Acquire pairs with the Release in both unlocks.
        self.count.compare_exchange(count, new, Acquire, Relaxed)
    }
}

impl<P: Platform, V: Variant, W: RawLock> TracedRw for RwSemXadd<P, V, W> {
    type Platform = P;
    type Seen = ();

    #[inline(always)]
    fn shared(&self) {
        // Acquire pairs with the Release in release().
        let old = self.count.fetch_add(READER, Acquire);
        // Neither negative nor too many.
        if old >= MAX_READERS {
            self.read_slow(old);
        } else {
            self.set_reader_owned(me::<P>);
        }
    }

    #[inline]
    fn try_shared(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count < MAX_READERS {
            match self.claim(count, count + READER) {
                Ok(_) => {
                    self.set_reader_owned(me::<P>);
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    #[inline(always)]
    fn release_shared(&self) {
        self.require("somebody holds the lock", |count, _| count & ACTIVE != 0);
        // Release pairs with the Acquire of the writer that finds no reader left.
        let old = self.count.fetch_add(READER.wrapping_neg(), Release);
        self.wake_if_left(old.wrapping_sub(READER));
    }

    #[inline(always)]
    fn fast(&self) -> Result<(), ()> {
        // Acquire pairs with the Release in both unlocks.
        let old = self.count.fetch_add(WRITER, Acquire);
        if old == 0 || (V::ASM && old & ACTIVE == 0) {
            self.set_writer_owned();
            return Ok(());
        }
        Err(())
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, (): ()) -> Held {
        self.write_slow()
    }

    #[inline]
    fn try_fast(&self) -> bool {
        let claimed = self.count.load(Relaxed) == 0 && self.claim(0, WRITER).is_ok();
        if claimed {
            self.set_writer_owned();
        }
        claimed
    }

    #[inline(always)]
    fn release(&self) {
        self.require("the owner is the current task", |_, owner| {
            owner == me::<P>() << OWNER_SHIFT
        });
        self.owner.store(0, Relaxed);
        // Release pairs with the Acquire of whoever comes next, reader or writer.
        let old = self.count.fetch_add(WRITER.wrapping_neg(), Release);
        if below(old.wrapping_sub(WRITER), 0) {
            self.wake_first();
        }
    }

    fn in_use(&self) -> bool {
        self.count.load(Relaxed) != 0
    }
}

zeroed!(
    RwSemXadd[type V: Variant][over W]: count: U64, owner: U32;
    osq: Osq<P>, list: WaitList<P>, magic: Magic<P>, variant: PhantomData<fn() -> V>
);

pub(crate) fn describe(count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let active = count & ACTIVE;
    let waiting = active.wrapping_sub(count) >> 32;
    match (active, waiting) {
        (0, 0) => f.write_str("free"),
        (n, 0) => write!(f, "read-held by {n}"),
        (0, 1) => f.write_str("free, waiters"),
        (1, 1) => f.write_str("write-held, or read-held by 1 with waiters"),
        (1, 2) => f.write_str("write-held, waiters"),
        (n, 1) => write!(
            f,
            "{n} readers with waiters, or a writer and others finding out"
        ),
        (n, w) => write!(
            f,
            "{n} hold it or are finding out, {w} of them writers or a list"
        ),
    }
}
