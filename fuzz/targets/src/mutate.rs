//! A small fuzzer for stable Rust: seeds are changed at random, again and again. It does not see which code runs, as
//! libFuzzer does; it is for where that cannot be had.

/// Makes inputs out of seeds.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    /// Pieces of the seeds that mean something to whoever reads them: words, numbers.
    tokens: Vec<Vec<u8>>,
    state: u64,
}

/// Longest input.
const LONGEST: usize = 1 << 16;

/// Numbers at the ends of ranges.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 53,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

impl Mutator {
    /// Inputs made out of `seeds`, of which there is one, by the choices of `seed`.
    pub fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Self {
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
        let mut tokens: Vec<Vec<u8>> = Vec::new();
        for seed in &seeds {
            tokens.extend(
                seed.split(|b| !is_word(b))
                    .filter(|token| (1..40).contains(&token.len()))
                    .map(<[u8]>::to_vec),
            );
        }
        for text in [
            "-1",
            "1e308",
            "nan",
            "null",
            "true",
            "[]",
            "{}",
            "\"\"",
            "18446744073709551616",
            "0x7fffffff",
            "\u{fffd}",
            "0.0000001",
            "-9223372036854775808",
        ] {
            tokens.push(text.into());
        }
        tokens.sort();
        tokens.dedup();
        Self {
            seeds,
            tokens,
            state: seed,
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`; 0 if that is 0.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random() % (n.max(1) as u64)).unwrap_or(0)
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut input = self.seeds[seed].clone();
        // Mostly a few changes: what has many is soon refused.
        for _ in 0..1 << self.below(5) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let power = self.below(8);
        let length = 1 + self.below(1 << power);
        let end = (at + length).min(input.len());
        match self.below(11) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.random().to_le_bytes()[0],
            2 => drop(input.drain(at..end)),
            3 => {
                let piece = input[at..end].to_vec();
                drop(input.splice(at..at, piece));
            }
            4 => {
                let from = self.below(self.seeds.len());
                let seed = &self.seeds[from];
                let (from, size) = (self.state.to_le_bytes(), seed.len());
                let from = usize::from(from[1]) * size / 256;
                let piece = seed[from..(from + length).min(size)].to_vec();
                drop(input.splice(at..end, piece));
            }
            5 | 6 => {
                let token = self.below(self.tokens.len());
                let token = self.tokens[token].clone();
                // In the place of a token, as a rule.
                let is_word = |b: &u8| b.is_ascii_alphanumeric();
                let end = at + input[at..].iter().take_while(|b| is_word(b)).count();
                drop(input.splice(at..end, token));
            }
            7 => {
                let number = self.below(NUMBERS.len());
                let size = 1 << self.below(4);
                let bytes = NUMBERS[number].to_le_bytes();
                for (to, from) in input[at..].iter_mut().zip(&bytes[..size]) {
                    *to = *from;
                }
            }
            8 if at + 8 <= input.len() => {
                // A word a little larger or smaller.
                let at = at / 8 * 8;
                let word = &mut input[at..at + 8];
                let number = u64::from_le_bytes(word.try_into().unwrap_or_default());
                let by = u64::from(self.state.to_le_bytes()[2]) + 1;
                let number = match self.below(2) {
                    0 => number.wrapping_add(by),
                    _ => number.wrapping_sub(by),
                };
                input[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            9 => input.truncate(at),
            _ => {
                let words = 1 + self.below(4);
                for _ in 0..words {
                    let word = self.random().to_le_bytes();
                    let at = at.min(input.len());
                    drop(input.splice(at..at, word));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_many_and_the_same_for_the_same_seed() {
        let inputs = |seed| {
            let mut mutator = Mutator::new(vec![b"a = 1".to_vec(), Vec::new()], seed);
            (0..1000).map(|_| mutator.input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let different: std::collections::BTreeSet<_> = inputs(3).into_iter().collect();
        assert!(different.len() > 500, "{}", different.len());
        assert!(different.iter().all(|input| input.len() <= LONGEST));
    }
}
