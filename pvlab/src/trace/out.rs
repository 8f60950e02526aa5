//! Writes a file's bytes on a thread of its own.
//!
//! Making the events' packets takes less time than the kernel needs to copy them into its page cache.
//! With both at the same time a trace is written about twice as fast. Where there can be no other thread,
//! this one writes.

use super::sink::WriteError;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Bytes gathered before they are handed over.
const BUFFER: usize = 256 << 10;

/// Most buffers handed over and not yet written.
const UNDER_WAY: usize = 3;

/// A stream that knows its name and how much of it has been written.
pub(super) struct Out {
    /// Bytes to be written. Writers append; [`Out::drain`] has to be called after every event.
    pub(super) buffer: Vec<u8>,
    name: String,
    /// Bytes handed over, and known to be written.
    sent: u64,
    written: u64,
    way: Way,
}

/// How bytes get to the stream.
enum Way {
    /// By the thread.
    Thread(Writer),
    /// At once.
    Direct(Box<dyn Write + Send>),
    /// No more.
    Closed,
}

/// The thread.
struct Writer {
    work: Sender<Vec<u8>>,
    done: Receiver<Done>,
    under_way: usize,
    thread: JoinHandle<()>,
}

/// What the thread made of a buffer: bytes written, and the buffer for the next ones.
struct Done(u64, io::Result<Vec<u8>>);

impl Out {
    pub(super) fn new(stream: Box<dyn Write + Send>, name: String) -> Self {
        let (work, jobs) = channel();
        let (reply, done) = channel();
        // Not moved into the thread: one that cannot be made does not give it back.
        let (give, take) = channel();
        let thread = std::thread::Builder::new()
            .name("trace writer".to_owned())
            .spawn(move || {
                if let Ok(stream) = take.recv() {
                    write_all(stream, &jobs, &reply);
                }
            });
        let way = match thread {
            Ok(thread) => {
                // The thread waits for it.
                let _ = give.send(stream);
                Way::Thread(Writer {
                    work,
                    done,
                    under_way: 0,
                    thread,
                })
            }
            Err(_) => Way::Direct(stream),
        };
        Self {
            buffer: empty(),
            name,
            sent: 0,
            written: 0,
            way,
        }
    }

    /// Bytes of the stream so far.
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

    /// Writes the buffer, and waits until everything is written.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        self.hand_over()?;
        while let Way::Thread(writer) = &mut self.way
            && writer.under_way > 0
        {
            let done = writer.take_back();
            self.settle(done)?;
        }
        Ok(())
    }

    #[cold]
    fn hand_over(&mut self) -> Result<(), WriteError> {
        let next = match &mut self.way {
            Way::Thread(writer) if writer.under_way < UNDER_WAY => empty(),
            Way::Thread(writer) => {
                let done = writer.take_back();
                self.settle(done)?
            }
            Way::Direct(stream) => {
                let mut written = 0;
                let result = write(stream, &self.buffer, &mut written);
                let mut buffer = std::mem::take(&mut self.buffer);
                self.sent += buffer.len() as u64;
                buffer.clear();
                self.buffer = self.settle(Done(written as u64, result.map(|()| buffer)))?;
                return Ok(());
            }
            Way::Closed => return Err(self.failed(ended())),
        };
        let full = std::mem::replace(&mut self.buffer, next);
        self.sent += full.len() as u64;
        if let Way::Thread(writer) = &mut self.way {
            if writer.work.send(full).is_ok() {
                writer.under_way += 1;
                return Ok(());
            }
            // The thread has ended. One of its replies tells why.
            while let Way::Thread(writer) = &mut self.way
                && writer.under_way > 0
            {
                let done = writer.take_back();
                self.settle(done)?;
            }
        }
        Err(self.failed(ended()))
    }

    /// Counts what has been written. Yields the buffer back.
    fn settle(&mut self, done: Done) -> Result<Vec<u8>, WriteError> {
        let Done(written, result) = done;
        self.written += written;
        result.map_err(|source| self.failed(source))
    }

    /// Nothing more can be written.
    fn failed(&mut self, source: io::Error) -> WriteError {
        self.close();
        WriteError::Write {
            name: self.name.clone(),
            source,
            written: self.written,
        }
    }

    fn close(&mut self) {
        if let Way::Thread(writer) = std::mem::replace(&mut self.way, Way::Closed) {
            drop(writer.work);
            let _ = writer.thread.join();
        }
    }
}

impl Writer {
    /// Waits for a buffer to be written.
    fn take_back(&mut self) -> Done {
        match self.done.recv() {
            Ok(done) => {
                self.under_way -= 1;
                done
            }
            Err(_) => Done(0, Err(ended())),
        }
    }
}

impl Drop for Out {
    /// Keeps what a trace has gathered that ends before its end is written.
    fn drop(&mut self) {
        if !matches!(self.way, Way::Closed) {
            // There is nobody left to tell.
            let _ = self.write_out();
        }
        self.close();
    }
}

fn ended() -> io::Error {
    io::Error::other("its writer has ended")
}

fn empty() -> Vec<u8> {
    // An event needs far less than the room above.
    Vec::with_capacity(BUFFER + (BUFFER >> 2))
}

/// The thread: writes buffer after buffer, until there are no more or one cannot be written.
fn write_all(mut stream: Box<dyn Write + Send>, jobs: &Receiver<Vec<u8>>, done: &Sender<Done>) {
    for mut buffer in jobs {
        let mut written = 0;
        let result = write(&mut stream, &buffer, &mut written);
        let failed = result.is_err();
        buffer.clear();
        let reply = Done(written as u64, result.map(|()| buffer));
        if done.send(reply).is_err() || failed {
            return;
        }
    }
}

fn write(stream: &mut impl Write, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        match stream.write(&bytes[*written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => *written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}
