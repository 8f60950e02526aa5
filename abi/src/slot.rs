//! A lock and what it guards.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes reserved for a lock of any kind: a line of its own.
pub const LOCK_BYTES: usize = 64;

/// Bytes that a lock may have if what it guards is to lie in its line, behind it ([`Data::SameLine`]).
pub const LOCK_BYTES_BESIDE_DATA: usize = LOCK_BYTES - GUARDED_BYTES;

const GUARDED_BYTES: usize = 16;
const NEAR: usize = LOCK_BYTES_BESIDE_DATA / 8;

/// Where the data lies that a critical section touches, and by which exclusion is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Data {
    /// 128 bytes away from the lock. CPUs fetch lines in pairs of 128 bytes (the adjacent-line prefetcher
    /// of Intel's), so that neither comes along with the other.
    #[default]
    OwnLine = 0,
    /// In the lock's own line, behind the lock.
    SameLine = 1,
    /// There is none: nothing is touched, and nothing is checked.
    None = 2,
}

impl Data {
    /// Every place.
    pub const ALL: [Self; 3] = [Self::OwnLine, Self::SameLine, Self::None];

    /// The place of that number.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|data| *data as u64 == raw)
    }
}

/// A lock of some kind, and the places for what it guards.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct LockSlot {
    /// The lock; with [`Data::SameLine`] the last two words are what it guards.
    lock: [AtomicU64; LOCK_BYTES / 8],
    /// The other line of the lock's pair.
    unused: [AtomicU64; 8],
    /// What it guards with [`Data::OwnLine`].
    far: [AtomicU64; 16],
}

const _: () = assert!(size_of::<LockSlot>() == 256);

/// What a lock guards: the vCPU inside plus 1, or 0; and entries, counted without atomicity.
///
/// The words are read and written by separate plain accesses (Relaxed atomics, so that a broken lock is a
/// wrong number and not undefined behaviour): if two vCPUs are ever inside together, an owner is
/// overwritten or an increment is lost.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<'a> {
    owner: &'a AtomicU64,
    count: &'a AtomicU64,
}

impl LockSlot {
    /// Where the lock itself is placed.
    pub fn lock_bytes(&self) -> *const [AtomicU64; LOCK_BYTES / 8] {
        &raw const self.lock
    }

    /// A word on a line of its own, for a workload that needs no lock.
    pub fn word(&self) -> &AtomicU64 {
        &self.far[0]
    }

    /// What the lock guards, if there is anything.
    #[inline(always)]
    pub fn guarded(&self, data: Data) -> Option<Guarded<'_>> {
        let [owner, count] = match data {
            Data::OwnLine => [&self.far[0], &self.far[1]],
            Data::SameLine => [&self.lock[NEAR], &self.lock[NEAR + 1]],
            Data::None => return None,
        };
        Some(Guarded { owner, count })
    }

    /// Where in a slot the owner and the count are, bytes from its start.
    pub const fn guarded_offset(data: Data) -> Option<[usize; 2]> {
        let owner = match data {
            Data::OwnLine => core::mem::offset_of!(Self, far),
            Data::SameLine => NEAR * 8,
            Data::None => return None,
        };
        Some([owner, owner + 8])
    }
}

impl Guarded<'_> {
    /// Its first word, for whoever charges for its line.
    #[inline(always)]
    pub fn first(&self) -> &AtomicU64 {
        self.owner
    }

    /// To be called with the lock just taken by `me` (vCPU + 1).
    ///
    /// The owner is written without being read first: whoever is inside already will notice on
    /// leaving. A read would fetch the line a second time before it can be written, and make every
    /// critical section longer by a transfer that no real one need have.
    #[inline(always)]
    pub fn enter(&self, me: u32) {
        self.owner.store(me.into(), Relaxed);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// To be called by `me` just before it releases the lock. False if somebody else has entered or
    /// left since `me` entered.
    #[inline(always)]
    pub fn leave(&self, me: u32) -> bool {
        let found = self.owner.load(Relaxed);
        self.owner.store(0, Relaxed);
        found == u64::from(me)
    }

    /// To be called with the lock just taken for reading: the entries counted, or `None` if a writer
    /// is inside. Readers write nothing here: they would disturb each other.
    #[inline(always)]
    pub fn read_enter(&self) -> Option<u64> {
        let entries = self.count.load(Relaxed);
        (self.owner.load(Relaxed) == 0).then_some(entries)
    }

    /// To be called just before the lock is released that was taken for reading, with what
    /// [`Self::read_enter`] returned. False if a writer was inside then, is now, or has been meanwhile.
    #[inline(always)]
    pub fn read_leave(&self, entered: Option<u64>) -> bool {
        entered.is_some() && self.read_enter() == entered
    }

    /// As if nobody had ever been inside.
    pub fn forget(&self) {
        self.owner.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> LockSlot {
        LockSlot {
            lock: [const { AtomicU64::new(0) }; 8],
            unused: [const { AtomicU64::new(0) }; 8],
            far: [const { AtomicU64::new(0) }; 16],
        }
    }

    #[test]
    fn data_lies_in_the_lock_s_line_or_a_pair_of_lines_away_or_nowhere() {
        let slot = slot();
        let lock = slot.lock_bytes().addr();
        let at = |data| {
            let first = core::ptr::from_ref(slot.guarded(data)?.first()).addr();
            let [owner, count] = LockSlot::guarded_offset(data)?;
            assert_eq!((first, count), (lock + owner, owner + 8), "{data:?}");
            Some(first)
        };
        let (near, far) = (at(Data::SameLine).unwrap(), at(Data::OwnLine).unwrap());
        assert_eq!(near / 64, lock / 64);
        assert_eq!((near + 15) / 64, lock / 64);
        assert!(far - lock >= 128 && far / 128 != lock / 128);
        assert_eq!(at(Data::None), None);
    }

    #[test]
    fn nobody_else_is_inside_unless_somebody_is() {
        let slot = slot();
        for data in [Data::OwnLine, Data::SameLine] {
            let guarded = slot.guarded(data).unwrap();
            guarded.enter(1);
            assert!(guarded.leave(1));
            guarded.enter(1);
            guarded.enter(2);
            assert!(!guarded.leave(1));
            guarded.forget();
            let entered = guarded.read_enter();
            assert!(guarded.read_leave(entered));
            guarded.enter(1);
            assert!(!guarded.read_leave(entered));
        }
        assert!(slot.lock[..NEAR].iter().all(|word| word.load(Relaxed) == 0));
    }
}
