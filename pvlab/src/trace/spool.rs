//! Where a trace waits while the run goes on: raw chunks in a temporary file, so that neither its
//! length nor the work of merging disturbs the run.
//!
//! The file has no name and goes with the process. Chunks of each source are in order; a *cut* after a
//! round of draining says up to when all sources have been heard.

use super::Place;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

const HEADER_BYTES: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// What is in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Records of a guest's ring ([`guest::trace`]), 8 bytes each.
    Guest = 1,
    /// Notes of the host, three words each.
    Host = 2,
    /// Context switches, three words each.
    Switches = 3,
    /// One word: a time (TSC) up to which all sources have been heard.
    Cut = 4,
}

/// Writes chunks.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    end: u64,
}

impl Spool {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile()?,
            end: 0,
        })
    }

    fn header(source: Source, place: Place, bytes: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0] = source as u8;
        header[2..4].copy_from_slice(&place.vm.to_le_bytes());
        header[4..6].copy_from_slice(&place.vcpu.to_le_bytes());
        header[8..].copy_from_slice(&bytes.to_le_bytes());
        header
    }

    /// Appends what `fill` writes to the file, and returns the number of bytes. If that fails, what
    /// was written is forgotten.
    pub(super) fn append<E: From<io::Error>>(
        &mut self,
        source: Source,
        place: Place,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<u64, E> {
        let start = self.end + HEADER_BYTES as u64;
        self.file.seek(SeekFrom::Start(start))?;
        fill(&mut self.file)?;
        let bytes = self.file.stream_position()? - start;
        if bytes > 0 {
            self.file
                .write_all_at(&Self::header(source, place, bytes), self.end)?;
            self.end = start + bytes;
        }
        Ok(bytes)
    }

    /// Appends words.
    pub(super) fn append_words(
        &mut self,
        source: Source,
        place: Place,
        words: &[u64],
    ) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.append(source, place, |file| file.write_all(&bytes))
            .map(|_| ())
    }

    /// Reads it from the start.
    pub(super) fn read(&mut self) -> io::Result<Chunks<'_>> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(Chunks {
            left: self.end,
            bytes: Vec::new(),
            file: BufReader::with_capacity(READ_BYTES, &mut self.file),
        })
    }
}

/// The chunks of a spool, in order.
pub(super) struct Chunks<'a> {
    file: BufReader<&'a mut File>,
    left: u64,
    bytes: Vec<u8>,
}

impl Chunks<'_> {
    /// Reads the next chunk's words into `words`; `None` after the last.
    pub(super) fn next(&mut self, words: &mut Vec<u64>) -> io::Result<Option<(Source, Place)>> {
        if self.left < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact(&mut header)?;
        let word = |i: usize| u16::from_le_bytes([header[i], header[i + 1]]);
        let source = match header[0] {
            1 => Source::Guest,
            2 => Source::Host,
            3 => Source::Switches,
            4 => Source::Cut,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let place = Place {
            vm: word(2),
            vcpu: word(4),
        };
        let bytes = header[8..].try_into().map_or(0, u64::from_le_bytes);
        self.left = self.left.saturating_sub(HEADER_BYTES as u64 + bytes);
        self.bytes
            .resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
        self.file.read_exact(&mut self.bytes)?;
        words.clear();
        words.extend(
            self.bytes
                .as_chunks()
                .0
                .iter()
                .map(|&word| u64::from_le_bytes(word)),
        );
        Ok(Some((source, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_in_order_and_failed_ones_do_not() {
        let mut spool = Spool::new().unwrap();
        let place = |vcpu| Place { vm: 1, vcpu };
        spool
            .append_words(Source::Guest, place(3), &[1, 2, 3])
            .unwrap();
        spool.append_words(Source::Host, place(4), &[]).unwrap();
        let failed: io::Result<u64> = spool.append(Source::Host, place(5), |file| {
            file.write_all(&[9; 800])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        spool
            .append_words(Source::Cut, place(0), &[u64::MAX])
            .unwrap();
        let mut chunks = spool.read().unwrap();
        let mut words = Vec::new();
        assert_eq!(
            chunks.next(&mut words).unwrap(),
            Some((Source::Guest, place(3)))
        );
        assert_eq!(words, [1, 2, 3]);
        assert_eq!(
            chunks.next(&mut words).unwrap(),
            Some((Source::Cut, place(0)))
        );
        assert_eq!(words, [u64::MAX]);
        assert_eq!(chunks.next(&mut words).unwrap(), None);
    }
}
