//! A sink on a thread of its own, so that encoding does not wait for merging, nor merging for it.

use super::Event;
use super::header::End;
use super::sink::{Sink, WriteError};
use super::worker::Worker;

/// Events handed over at a time.
const BATCH: usize = 8192;
/// Batches that may wait: bounds the memory.
const WAITING: usize = 8;

/// Hands events to another sink, in batches, on another thread.
pub struct Batched {
    batch: Vec<Event>,
    /// Until it has failed or been ended.
    encoder: Option<Worker<Vec<Event>, Box<dyn Sink>, WriteError>>,
}

impl Batched {
    /// Puts it in front of `sink`, or leaves that alone if there can be no other thread.
    pub fn before(sink: Box<dyn Sink>) -> Box<dyn Sink> {
        let encode = |sink: &mut Box<dyn Sink>, batch: &Vec<Event>| {
            batch.iter().try_for_each(|event| sink.event(event))
        };
        match Worker::start("trace encoder", WAITING, sink, encode) {
            Ok(encoder) => Box::new(Self {
                batch: Vec::with_capacity(BATCH),
                encoder: Some(encoder),
            }),
            Err(sink) => sink,
        }
    }

    fn hand_over(&mut self) -> Result<(), WriteError> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        match &self.encoder {
            Some(encoder) if encoder.hand_over(batch) => Ok(()),
            _ => self.join().map(|_| ()),
        }
    }

    /// The sink behind, after its last event, or its error.
    fn join(&mut self) -> Result<Box<dyn Sink>, WriteError> {
        let outcome = self.encoder.take().and_then(Worker::join);
        outcome.unwrap_or(Err(WriteError::Ended))
    }
}

impl Sink for Batched {
    fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        self.batch.push(*event);
        if self.batch.len() < BATCH {
            return Ok(());
        }
        self.hand_over()
    }

    /// Hands on what has been gathered. It is in the file when [`Sink::finish`] returns.
    fn flush(&mut self) -> Result<(), WriteError> {
        self.hand_over()
    }

    fn finish(mut self: Box<Self>, end: End) -> Result<End, WriteError> {
        self.hand_over()?;
        self.join()?.finish(end)
    }
}

impl Drop for Batched {
    /// Keeps what a trace has gathered that ends without [`Sink::finish`].
    fn drop(&mut self) {
        if self.encoder.is_some() {
            // There is nobody left to tell.
            let _ = self.hand_over();
            let _ = self.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Place, What};
    use abi::HostStep;
    use std::sync::{Arc, Mutex};

    /// Keeps times; refuses that of 20,000.
    struct Times(Arc<Mutex<Vec<u64>>>);

    impl Sink for Times {
        fn event(&mut self, event: &Event) -> Result<(), WriteError> {
            if event.at == 20_000 {
                return Err(WriteError::NoSuchVcpu(event.place));
            }
            self.0.lock().unwrap().push(event.at);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), WriteError> {
            Ok(())
        }

        fn finish(self: Box<Self>, end: End) -> Result<End, WriteError> {
            Ok(End {
                events: self.0.lock().unwrap().len() as u64,
                ..end
            })
        }
    }

    fn event(at: u64) -> Event {
        Event {
            at,
            place: Place { vm: 0, vcpu: 0 },
            what: What::Host(HostStep::Enter),
        }
    }

    #[test]
    fn all_events_arrive_in_order() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut sink = Batched::before(Box::new(Times(Arc::clone(&seen))));
        (0..19_000).for_each(|at| sink.event(&event(at)).unwrap());
        assert_eq!(sink.finish(End::default()).unwrap().events, 19_000);
        assert!(seen.lock().unwrap().iter().copied().eq(0..19_000));
    }

    #[test]
    fn an_error_comes_back_and_what_was_before_it_is_kept() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut sink = Batched::before(Box::new(Times(Arc::clone(&seen))));
        let told = (0..1_000_000).find_map(|at| sink.event(&event(at)).err());
        let refused = matches!(told, Some(WriteError::NoSuchVcpu(_)));
        assert!(refused, "{told:?}");
        drop(sink);
        assert_eq!(seen.lock().unwrap().len(), 20_000);
    }
}
