//! Choices at random: which lock is next, and whether to read.

use crate::machine::VcpuAreaExt as _;
use abi::{Alias, Params, VcpuArea};
use core::sync::atomic::Ordering::Relaxed;

/// 64 bits from a small generator, for choices that only have to differ: xorshift64* (Marsaglia 2003;
/// Vigna 2014). `state` is never 0.
#[inline(always)]
pub const fn bits(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// The choices of a vCPU.
#[derive(Clone, Debug)]
pub struct Choice(u64);

impl Choice {
    /// The choices of vCPU `cpu`.
    pub fn new(params: &Params, cpu: u32) -> Self {
        Self(seed(params, cpu))
    }

    /// Any number below 2^32.
    #[inline(always)]
    fn next(&mut self) -> u64 {
        bits(&mut self.0) >> 32
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

/// Where a generator of vCPU `cpu` begins: spread over the period, and never 0.
fn seed(params: &Params, cpu: u32) -> u64 {
    (params.seed ^ u64::from(cpu + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1
}

/// In which share of its acquisitions vCPU `cpu` reads, as a multiple of 2^-32.
pub(super) fn read_share(params: &Params, cpu: u32) -> u64 {
    if u64::from(cpu) + params.readers >= params.vcpus {
        1 << 32
    } else {
        params.read_share
    }
}

/// True in that share of cases, a multiple of 2^-32: for what happens to a vCPU without its asking.
pub(crate) fn by_chance(vcpu: &VcpuArea, share: u64) -> bool {
    // xorshift64 (Marsaglia 2003), seeded by vCPU on its first use.
    let mut x = match vcpu.trace.chance.load(Relaxed) {
        0 => seed(&vcpu.header().params, vcpu.cpu),
        x => x,
    };
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    vcpu.trace.chance.store(x, Relaxed);
    x >> 32 < share
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
