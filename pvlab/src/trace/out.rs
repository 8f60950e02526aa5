//! Writes a file's bytes on a thread of its own.
//!
//! Making the events' packets takes less time than the kernel needs to copy them into its page cache.
//! With both at the same time a trace is written about twice as fast. Where there can be no other thread,
//! this one writes.

use super::sink::WriteError;
use super::worker::Worker;
use std::io::{self, Write};

/// Bytes gathered before they are handed over.
const BUFFER: usize = 256 << 10;

/// Most buffers that wait to be written, beside the one that is being written.
const WAITING: usize = 2;

/// A stream that knows its name and how much of it has been written.
pub(super) struct Out {
    /// Bytes to be written. Writers append; [`Out::drain`] has to be called after every event.
    pub(super) buffer: Vec<u8>,
    name: String,
    /// Bytes handed over.
    sent: u64,
    /// Bytes written until it failed.
    written: u64,
    way: Way,
}

enum Way {
    /// By a thread, which tells how far it came before an error.
    Thread(Worker<Vec<u8>, Stream, (u64, io::Error)>),
    /// At once.
    Direct(Stream),
    /// No more.
    Closed,
}

struct Stream {
    stream: Box<dyn Write + Send>,
    written: u64,
}

impl Out {
    pub(super) fn new(stream: Box<dyn Write + Send>, name: String) -> Self {
        Self {
            buffer: empty(),
            name,
            sent: 0,
            written: 0,
            way: Way::Direct(Stream { stream, written: 0 }),
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.sent + self.buffer.len() as u64
    }

    /// Hands the buffer over if it is full.
    #[inline]
    pub(super) fn drain(&mut self) -> Result<(), WriteError> {
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        self.hand_over()
    }

    #[cold]
    fn hand_over(&mut self) -> Result<(), WriteError> {
        self.way = match std::mem::replace(&mut self.way, Way::Closed) {
            Way::Direct(stream) => {
                let write = |stream: &mut Stream, bytes: &Vec<u8>| stream.write(bytes);
                let started = Worker::start("trace writer", WAITING, stream, write);
                started.map_or_else(Way::Direct, Way::Thread)
            }
            other => other,
        };
        if let Way::Thread(writer) = &self.way {
            let full = std::mem::replace(&mut self.buffer, empty());
            self.sent += full.len() as u64;
            if writer.hand_over(full) {
                return Ok(());
            }
        }
        self.write_out()
    }

    /// Writes the buffer, after all that has been handed over.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        let ended = || (self.written, io::Error::other("its writer has ended"));
        let way = match std::mem::replace(&mut self.way, Way::Closed) {
            Way::Thread(writer) => writer.join().unwrap_or_else(|| Err(ended())),
            Way::Direct(stream) => Ok(stream),
            Way::Closed => Err(ended()),
        };
        let written = way.and_then(|mut stream| {
            stream.write(&self.buffer)?;
            Ok(stream)
        });
        self.sent += self.buffer.len() as u64;
        self.buffer.clear();
        match written {
            Ok(stream) => self.way = Way::Direct(stream),
            Err((written, source)) => {
                self.written = written;
                let name = self.name.clone();
                return Err(WriteError::Write {
                    name,
                    source,
                    written,
                });
            }
        }
        Ok(())
    }
}

impl Stream {
    /// Writes all of it, or tells how much of the stream is written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (u64, io::Error)> {
        let mut left = bytes;
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(0) => return Err((self.written, io::ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.written += n as u64;
                    left = &left[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((self.written, error)),
            }
        }
        self.stream.flush().map_err(|error| (self.written, error))
    }
}

impl Drop for Out {
    /// Keeps what a trace has gathered that ends before its end is written.
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = self.write_out();
    }
}

fn empty() -> Vec<u8> {
    // An event needs far less than the room above.
    Vec::with_capacity(BUFFER + (BUFFER >> 2))
}
