//! The ring buffer's pages of one CPU, as the kernel would have written them.
//!
//! | bytes | a page |
//! |---|---|
//! | 8 | time of the first event |
//! | 8 | bytes of events that follow |
//! | to 4096 | events: 5 bits length in words, 27 bits time since the one before, payload |
//!
//! A longer time has an event of its own before it. (Linux, Documentation/trace/ring-buffer-design.rst, and
//! the header_page and header_event files of tracefs.)

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Bytes before the events of a page.
const HEAD: usize = 16;
/// The length that says: only time passes.
const TIME_EXTEND: u32 = 30;
const DELTA_BITS: u32 = 27;

/// Pages, in a file that has no name.
pub(super) struct Pages {
    spool: BufWriter<File>,
    /// The page that is being filled; empty before its first event.
    page: Vec<u8>,
    last: u64,
    written: u64,
}

impl Pages {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            spool: BufWriter::new(tempfile::tempfile()?),
            page: Vec::with_capacity(PAGE),
            last: 0,
            written: 0,
        })
    }

    /// Adds an event, whose payload is whole words, at most 28.
    pub(super) fn event(&mut self, at: u64, payload: &[u8]) -> io::Result<()> {
        debug_assert!(payload.len().is_multiple_of(4) && payload.len() <= 28 * 4);
        // Room for a time beside it.
        if self.page.len() + 8 + 4 + payload.len() > PAGE {
            self.turn()?;
        }
        if self.page.is_empty() {
            self.page.extend(at.to_le_bytes());
            self.page.extend(0u64.to_le_bytes());
            self.last = at;
        }
        let delta = at - self.last;
        self.last = at;
        let low = (delta & ((1 << DELTA_BITS) - 1)) as u32;
        let mut since = low;
        if delta >> DELTA_BITS > 0 {
            self.page.extend((TIME_EXTEND | low << 5).to_le_bytes());
            // More than two weeks without an event are as long as that.
            let high = u32::try_from(delta >> DELTA_BITS).unwrap_or(u32::MAX);
            self.page.extend(high.to_le_bytes());
            since = 0;
        }
        #[expect(clippy::cast_possible_truncation, reason = "28 at most")]
        let words = (payload.len() / 4) as u32;
        self.page.extend((words | since << 5).to_le_bytes());
        self.page.extend(payload);
        Ok(())
    }

    /// Ends the page.
    fn turn(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let events = (self.page.len() - HEAD) as u64;
        self.page[8..HEAD].copy_from_slice(&events.to_le_bytes());
        self.page.resize(PAGE, 0);
        self.spool.write_all(&self.page)?;
        self.written += PAGE as u64;
        self.page.clear();
        Ok(())
    }

    /// Bytes of all pages, once the last of them is ended.
    pub(super) fn end(&mut self) -> io::Result<u64> {
        self.turn()?;
        self.spool.flush()?;
        self.spool.get_mut().rewind()?;
        Ok(self.written)
    }

    /// Reads on through the ended pages; 0 after the last.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.spool.get_mut().read(buffer)
    }
}
