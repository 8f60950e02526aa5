//! What a thread knows of memory.

/// Places and cells that one model can use: see [`crate::c11`].
pub(crate) const SLOTS: usize = 80;

/// For each place the first of its messages that may still be read; for each cell and thread how many of that
/// thread's accesses are known to have happened before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct View([u8; SLOTS]);

impl View {
    /// Nothing but what memory holds at first.
    pub(crate) const ZERO: Self = Self([0; SLOTS]);

    #[inline]
    pub(crate) fn get(&self, slot: usize) -> u8 {
        self.0[slot]
    }

    #[inline]
    pub(crate) fn raise(&mut self, slot: usize, to: u8) {
        self.0[slot] = self.0[slot].max(to);
    }

    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// A message has come in before number `at` of that place.
    #[inline]
    pub(crate) fn make_room(&mut self, slot: usize, at: u8) {
        if self.0[slot] >= at {
            self.0[slot] += 1;
        }
    }
}

/// Makes a number of 128 bits of a state: of two states with one number, which with a million of them has a
/// chance of 10^-26, one would not be looked at.
pub(crate) struct Fingerprint {
    a: u64,
    b: u64,
}

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self {
            a: 0x243F_6A88_85A3_08D3,
            b: 0x1319_8A2E_0370_7344,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        self.a = (self.a ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
        self.b = (self.b.rotate_left(31) ^ word).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    }

    pub(crate) fn value(&self) -> u128 {
        u128::from(mixed(self.a ^ self.b.rotate_left(17))) << 64
            | u128::from(mixed(self.b.wrapping_add(self.a >> 7)))
    }
}

/// A word each bit of which depends on each of `word` (the finisher of SplitMix64).
pub(crate) fn mixed(word: u64) -> u64 {
    let mut z = word;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
