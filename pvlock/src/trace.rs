//! What a lock does, step by step: the one list of trace events.
//!
//! A lock reports each step to [`Platform::trace`](crate::Platform::trace), which by default does
//! nothing and compiles to nothing. A platform that wants a trace stamps the events with its clock
//! and its CPU. For one acquisition the order is
//!
//! ```text
//! Start  [Queued  [Halt  Woken]*]  [Head  [Halt  Woken]*]  Acquired  [Kick]  ...  Release  [Kick]
//! ```
//!
//! Only a reader-writer lock kicks with the lock held: the one whose turn it is to wait for it.
//!
//! `try_lock` reports nothing but a successful `Acquired`. `Acquired` is reported with the lock held,
//! and `Release` before it is let go, so two holders never overlap in a trace.
//!
//! A reader-writer lock reports its write side, and nothing of its readers. Where waiters take turns by a
//! wait lock, inside the lock and after its first word, `Head` is reported by the one that has got
//! that. The wait lock reports its own steps, readers' included, under its own address. Of those a
//! trace takes what the lock does not know itself, queueing, halts and kicks, as steps of the lock: see
//! `guest::trace`.

/// How a lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum How {
    /// At once.
    Fast = 0,
    /// As the only waiter, on the word itself.
    Pending = 1,
    /// Through the queue, or in the order of tickets.
    Queue = 2,
    /// Past the queue, or by being the first to see it free where there is no queue.
    Stolen = 3,
}

impl How {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Fast, Self::Pending, Self::Queue, Self::Stolen];

    /// The way's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Pending => "pending",
            Self::Queue => "queue",
            Self::Stolen => "stolen",
        }
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceEvent {
    /// An acquisition begins.
    Start,
    /// It has taken its place in the queue, behind that CPU; `None`: nobody is before it, and it is
    /// head at once, which is not reported separately.
    QueuedBehind(Option<u32>),
    /// It has taken a ticket, of which these are the low bits.
    QueuedWithTicket(u16),
    /// It is next: head of the queue, or the pending waiter.
    Head,
    /// The CPU halts; it is queued behind others.
    HaltQueued,
    /// The CPU halts; it is next.
    HaltHead,
    /// It runs again after a halt.
    Woken,
    /// It woke without having become head.
    Spurious,
    /// The lock is held.
    Acquired(How),
    /// The lock is about to be let go.
    Release,
    /// That CPU has been kicked, to take the lock just released.
    Kick(u32),
    /// The rest of this CPU's time was offered to that CPU.
    Yield(u32),
}
