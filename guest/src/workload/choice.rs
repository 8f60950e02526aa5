//! Choices at random: which lock is next, and whether to read.

use abi::{Alias, Params};

/// A small generator for choices that only have to differ: xorshift64* (Marsaglia 2003; Vigna 2014).
#[derive(Clone, Debug)]
pub struct Choice(u64);

impl Choice {
    /// The choices of vCPU `cpu`.
    pub fn new(params: &Params, cpu: u32) -> Self {
        // Spread the vCPUs over the period; never zero.
        Self((params.seed ^ u64::from(cpu + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1)
    }

    /// Any number below 2^32.
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    /// A number below `n`, all alike; `n` is at most 2^32.
    #[inline(always)]
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() * n) >> 32
    }

    /// True in that share of cases, a multiple of 2^-32.
    #[inline(always)]
    pub fn happens(&mut self, share: u64) -> bool {
        self.next() < share
    }

    /// A place in `table`, as likely as the table says, by the alias method (Walker 1977): pick a
    /// place, and stay there or go to its alias.
    #[inline(always)]
    pub fn weighted(&mut self, table: &[u64]) -> u64 {
        let place = self.below(table.len() as u64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an index below the slice's length"
        )]
        let Alias { stay, other } = Alias::from_word(table[place as usize]);
        if self.happens(stay.into()) {
            place
        } else {
            other.into()
        }
    }
}

/// In which share of its acquisitions vCPU `cpu` reads, as a multiple of 2^-32.
pub(super) fn read_share(params: &Params, cpu: u32) -> u64 {
    if u64::from(cpu) + params.readers >= params.vcpus {
        1 << 32
    } else {
        params.read_share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_their_ends_are_certain() {
        let mut choice = Choice::new(&Params::default(), 3);
        let mut count = |share| (0..100_000).filter(|_| choice.happens(share)).count();
        assert_eq!((count(0), count(1 << 32)), (0, 100_000));
        let quarter = count(1 << 30);
        assert!((24_000..26_000).contains(&quarter), "{quarter}");
    }
}
