//! A thread that works through what it is handed, so that nobody waits for the work.

use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Works through jobs `J` with a state `S`, until there are no more or one fails.
pub(super) struct Worker<J, S, E> {
    jobs: SyncSender<J>,
    thread: JoinHandle<Option<Result<S, E>>>,
}

impl<J: Send + 'static, S: Send + 'static, E: Send + 'static> Worker<J, S, E> {
    /// Hands `state` to a thread of that name, for which at most so many jobs may wait. Gives it back if
    /// there can be no other thread.
    pub(super) fn start(
        name: &str,
        waiting: usize,
        state: S,
        mut work: impl FnMut(&mut S, &J) -> Result<(), E> + Send + 'static,
    ) -> Result<Self, S> {
        let (jobs, handed) = sync_channel::<J>(waiting);
        // Not moved into the thread: one that cannot be made does not give it back.
        let (give, take) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            let mut state = take.recv().ok()?;
            let done = handed.iter().try_for_each(|job| work(&mut state, &job));
            Some(done.map(|()| state))
        });
        let Ok(thread) = thread else {
            return Err(state);
        };
        // The thread waits for it.
        let _ = give.send(state);
        Ok(Self { jobs, thread })
    }

    /// Hands over a job. False if the thread has ended, which it does early only for an error.
    pub(super) fn hand_over(&self, job: J) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// The state after the last job, or the error.
    pub(super) fn join(self) -> Option<Result<S, E>> {
        drop(self.jobs);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
