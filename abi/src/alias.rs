//! How one of the locks is chosen by weight.

/// An entry of an alias table: stay there in the share `stay` of cases (a multiple of 2^-32), else go
/// to `other`. An entry that always stays is its own `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// How often to stay.
    pub stay: u32,
    /// Where to go otherwise.
    pub other: u32,
}

impl Alias {
    /// The entry as it lies in memory.
    pub const fn word(self) -> u64 {
        (self.stay as u64) << 32 | self.other as u64
    }

    /// The entry that lies in memory like that.
    #[expect(clippy::cast_possible_truncation, reason = "the point")]
    pub const fn from_word(word: u64) -> Self {
        Self {
            stay: (word >> 32) as u32,
            other: word as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_memory() {
        for entry in [
            Alias { stay: 0, other: 7 },
            Alias {
                stay: u32::MAX,
                other: 65_535,
            },
        ] {
            assert_eq!(Alias::from_word(entry.word()), entry);
        }
    }
}
