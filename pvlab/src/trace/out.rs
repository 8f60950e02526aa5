//! Writes a file's bytes on a thread of its own.
//!
//! Making the events' packets takes less time than the kernel needs to copy them into its page cache.
//! With both at the same time a trace is written about twice as fast.

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
    under_way: usize,
    /// To the thread; `None` once it has ended.
    work: Option<Sender<Vec<u8>>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread made of a buffer: bytes written, and the buffer for the next ones.
struct Done(u64, io::Result<Vec<u8>>);

impl Out {
    pub(super) fn new(stream: Box<dyn Write + Send>, name: String) -> Result<Self, WriteError> {
        let (work, jobs) = channel();
        let (reply, done) = channel();
        let thread = std::thread::Builder::new()
            .name("trace writer".to_owned())
            .spawn(move || write_all(stream, &jobs, &reply));
        match thread {
            Ok(thread) => Ok(Self {
                buffer: empty(),
                name,
                sent: 0,
                written: 0,
                under_way: 0,
                work: Some(work),
                done,
                thread: Some(thread),
            }),
            Err(source) => Err(WriteError::Create { name, source }),
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
        while self.under_way > 0 {
            self.take_back()?;
        }
        Ok(())
    }

    #[cold]
    fn hand_over(&mut self) -> Result<(), WriteError> {
        let next = if self.under_way < UNDER_WAY {
            empty()
        } else {
            self.take_back()?
        };
        let full = std::mem::replace(&mut self.buffer, next);
        self.sent += full.len() as u64;
        if self
            .work
            .as_ref()
            .is_some_and(|work| work.send(full).is_ok())
        {
            self.under_way += 1;
            return Ok(());
        }
        // The thread has ended. One of its replies tells why.
        while self.under_way > 0 {
            self.take_back()?;
        }
        Err(self.failed(io::ErrorKind::BrokenPipe.into()))
    }

    /// Waits for a buffer to be written.
    fn take_back(&mut self) -> Result<Vec<u8>, WriteError> {
        let Ok(Done(written, result)) = self.done.recv() else {
            return Err(self.failed(io::ErrorKind::BrokenPipe.into()));
        };
        self.under_way -= 1;
        self.written += written;
        result.map_err(|source| self.failed(source))
    }

    /// Nothing more can be written.
    fn failed(&mut self, source: io::Error) -> WriteError {
        self.work = None;
        self.under_way = 0;
        WriteError::Write {
            name: self.name.clone(),
            source,
            written: self.written,
        }
    }
}

impl Drop for Out {
    /// Keeps what a trace has gathered that ends before its end is written.
    fn drop(&mut self) {
        if self.work.is_some() {
            // There is nobody left to tell.
            let _ = self.write_out();
        }
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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
