//! Where a trace waits while the run goes on: raw chunks in temporary files, so that neither its
//! length nor the work of merging disturbs the run.
//!
//! The files have no names and go with the process. There is one, in the first of some directories; when
//! no more can be written there, it goes on in the next. Chunks of each source are in order; a *cut*
//! after a round of draining says up to when all sources have been heard.

use super::Place;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// What is in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Records of a guest's ring ([`abi::ring`]), 8 bytes each.
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
    /// At least one.
    parts: Vec<Part>,
    /// Directories that have not been used yet.
    spare: VecDeque<PathBuf>,
}

/// A file of a spool.
#[derive(Debug)]
struct Part {
    file: File,
    /// Bytes of whole chunks.
    end: u64,
}

/// Why nothing can be spooled, and where that was tried last.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .directory.display())]
pub struct SpoolError {
    /// The last of the directories.
    pub directory: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

impl Part {
    fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile_in(directory)?,
            end: 0,
        })
    }

    /// Appends what `fill` writes to the file, and returns the number of bytes. If that fails, what
    /// was written is forgotten.
    fn append<E: From<io::Error>>(
        &mut self,
        source: Source,
        place: Place,
        fill: &mut impl FnMut(&mut File) -> Result<(), E>,
    ) -> Result<u64, E> {
        let start = self.end + HEADER_BYTES as u64;
        self.file.seek(SeekFrom::Start(start))?;
        fill(&mut self.file)?;
        let bytes = self.file.stream_position()? - start;
        if bytes > 0 {
            self.file
                .write_all_at(&Spool::header(source, place, bytes), self.end)?;
            self.end = start + bytes;
        }
        Ok(bytes)
    }
}

impl Spool {
    /// A spool in the first of the directories in which a file can be made.
    pub(super) fn new(directories: impl IntoIterator<Item = PathBuf>) -> Result<Self, SpoolError> {
        let mut spool = Self {
            parts: Vec::new(),
            spare: directories.into_iter().collect(),
        };
        spool.go_on_elsewhere(ErrorKind::NotFound.into())?;
        Ok(spool)
    }

    /// Goes on in the next directory in which a file can be made; `failed`: why not where it was.
    fn go_on_elsewhere(&mut self, failed: io::Error) -> Result<(), SpoolError> {
        let mut last = SpoolError {
            directory: PathBuf::new(),
            source: failed,
        };
        while let Some(directory) = self.spare.pop_front() {
            match Part::new(&directory) {
                Ok(part) => {
                    if !self.parts.is_empty() {
                        tracing::info!(?directory, why = %last.source, "the trace goes on there");
                    }
                    self.parts.push(part);
                    return Ok(());
                }
                Err(source) => last = SpoolError { directory, source },
            }
        }
        Err(last)
    }

    fn header(source: Source, place: Place, bytes: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0] = source as u8;
        header[2..4].copy_from_slice(&place.vm.to_le_bytes());
        header[4..6].copy_from_slice(&place.vcpu.to_le_bytes());
        header[8..].copy_from_slice(&bytes.to_le_bytes());
        header
    }

    /// Appends what `fill` writes to the file it is given, and returns the number of bytes. If that
    /// fails, what was written is forgotten, and tried again elsewhere.
    pub(super) fn append<E: From<io::Error>>(
        &mut self,
        source: Source,
        place: Place,
        mut fill: impl FnMut(&mut File) -> Result<(), E>,
    ) -> Result<u64, E> {
        loop {
            let Some(part) = self.parts.last_mut() else {
                return Err(io::Error::from(ErrorKind::NotFound).into());
            };
            match part.append(source, place, &mut fill) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => {
                    // That the next directory does not do either adds nothing to why this one does not.
                    if self.go_on_elsewhere(ErrorKind::StorageFull.into()).is_err() {
                        return Err(error);
                    }
                }
            }
        }
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
        let mut parts = Vec::new();
        for part in self.parts.iter_mut().rev() {
            part.file.seek(SeekFrom::Start(0))?;
            parts.push(PartChunks {
                left: part.end,
                file: BufReader::with_capacity(READ_BYTES, &mut part.file),
            });
        }
        Ok(Chunks {
            parts,
            bytes: Vec::new(),
        })
    }
}

/// The chunks of a spool, in order.
pub(super) struct Chunks<'a> {
    /// The last is the next.
    parts: Vec<PartChunks<'a>>,
    bytes: Vec<u8>,
}

/// The chunks of one file.
struct PartChunks<'a> {
    file: BufReader<&'a mut File>,
    left: u64,
}

impl Chunks<'_> {
    /// Reads the next chunk's words into `words`; `None` after the last.
    pub(super) fn next(&mut self, words: &mut Vec<u64>) -> io::Result<Option<(Source, Place)>> {
        while let Some(part) = self.parts.last_mut() {
            if let Some(chunk) = part.next(&mut self.bytes)? {
                let whole = self.bytes.as_chunks().0.iter();
                words.clear();
                words.extend(whole.map(|&word| u64::from_le_bytes(word)));
                return Ok(Some(chunk));
            }
            self.parts.pop();
        }
        Ok(None)
    }
}

impl PartChunks<'_> {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<(Source, Place)>> {
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
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        let place = Place {
            vm: word(2),
            vcpu: word(4),
        };
        let length = header[8..].try_into().map_or(0, u64::from_le_bytes);
        self.left = self.left.saturating_sub(HEADER_BYTES as u64 + length);
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        self.file.read_exact(bytes)?;
        Ok(Some((source, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_in_order_and_failed_ones_do_not() {
        let mut spool = Spool::new([std::env::temp_dir()]).unwrap();
        let place = |vcpu| Place { vm: 1, vcpu };
        let append = |spool: &mut Spool, source, vcpu, words: &[u64]| {
            spool.append_words(source, place(vcpu), words).unwrap();
        };
        append(&mut spool, Source::Guest, 3, &[1, 2, 3]);
        append(&mut spool, Source::Host, 4, &[]);
        let failed: io::Result<u64> = spool.append(Source::Host, place(5), |file| {
            file.write_all(&[9; 800])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        append(&mut spool, Source::Cut, 0, &[u64::MAX]);
        let mut chunks = spool.read().unwrap();
        let mut next = |words: &mut _| chunks.next(words).unwrap();
        let mut words = Vec::new();
        assert_eq!(next(&mut words), Some((Source::Guest, place(3))));
        assert_eq!(words, [1, 2, 3]);
        assert_eq!(next(&mut words), Some((Source::Cut, place(0))));
        assert_eq!(words, [u64::MAX]);
        assert_eq!(next(&mut words), None);
    }

    #[test]
    fn what_finds_no_room_in_one_directory_goes_on_in_the_next() {
        let scratch = tempfile::tempdir().unwrap();
        let nowhere = scratch.path().join("nowhere");
        assert!(Spool::new([nowhere.clone()]).is_err());
        let second = scratch.path().to_owned();
        let mut spool = Spool::new([nowhere, std::env::temp_dir(), second]).unwrap();
        let place = Place { vm: 0, vcpu: 0 };
        let mut tried = 0;
        for (number, fails) in [(1_u64, false), (2, true), (3, false)] {
            let written: io::Result<u64> = spool.append(Source::Guest, place, |file| {
                tried += 1;
                file.write_all(&number.to_le_bytes())?;
                // Half of it is there when the disk is full.
                if fails && tried == 2 {
                    return Err(ErrorKind::StorageFull.into());
                }
                Ok(())
            });
            assert_eq!(written.unwrap(), 8);
        }
        assert_eq!(spool.parts.len(), 2);
        for _ in 0..2 {
            let mut chunks = spool.read().unwrap();
            let mut words = Vec::new();
            for number in 1..=3 {
                assert!(chunks.next(&mut words).unwrap().is_some());
                assert_eq!(words, [number]);
            }
            assert_eq!(chunks.next(&mut words).unwrap(), None);
        }
        let full: io::Result<u64> =
            spool.append(Source::Guest, place, |_| Err(ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
