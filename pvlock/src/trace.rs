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

/// What a step tells beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    Nothing,
    /// The CPU that it has queued behind, if there is one.
    Behind(Option<u32>),
    /// The low bits of a ticket.
    Ticket(u16),
    /// How the lock was acquired.
    How(How),
    /// The CPU that something is done to.
    Target(u32),
}

/// Declares an enum of steps from one table: the step, what it tells as a variant of `$details`, and its
/// name in files. Of [`TraceEvent`], and of what else is noted in a trace.
#[doc(hidden)]
#[macro_export]
macro_rules! steps {
    (
        $(#[$meta:meta])*
        pub enum $steps:ident, $details:ident {
            $($(#[doc = $doc:literal])+ $step:ident $(($detail:ident: $type:ty = $blank:expr))?, $name:literal;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $steps {
            $($(#[doc = $doc])+ $step $(($type))?,)+
        }

        impl $steps {
            /// A step of each kind, with a detail that means nothing. Its place stands for the kind.
            pub const ALL: &[Self] = &[$(Self::$step $(($blank))?,)+];

            /// The kind's place in [`Self::ALL`].
            #[inline(always)]
            pub const fn number(self) -> usize {
                enum Kind { $($step,)+ }
                match self {
                    $(Self::$step { .. } => Kind::$step as usize,)+
                }
            }

            /// The kind's name in files. Kinds that differ only in the detail may share one.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$step { .. } => $name,)+
                }
            }

            /// What the step tells beside itself.
            #[inline(always)]
            pub const fn detail(self) -> $details {
                match self {
                    $($(Self::$step(detail) => $details::$detail(detail),)?)+
                    _ => $details::Nothing,
                }
            }

            /// The same step with that detail, if steps of its kind tell such a thing.
            #[inline(always)]
            pub const fn with(self, detail: $details) -> Self {
                match (self, detail) {
                    $($((Self::$step(_), $details::$detail(detail)) => Self::$step(detail),)?)+
                    _ => self,
                }
            }
        }
    };
}

steps! {
    /// One step.
    #[derive(Hash)]
    pub enum TraceEvent, Detail {
        /// An acquisition begins.
        Start, "start";
        /// It has taken its place in the queue, behind that CPU; `None`: nobody is before it, and it is
        /// head at once, which is not reported separately.
        QueuedBehind(Behind: Option<u32> = None), "queued";
        /// It has taken a ticket, of which these are the low bits.
        QueuedWithTicket(Ticket: u16 = 0), "queued";
        /// It is next: head of the queue, or the pending waiter.
        Head, "head";
        /// The CPU halts; it is queued behind others.
        HaltQueued, "halt_queued";
        /// The CPU halts; it is next.
        HaltHead, "halt_head";
        /// It runs again after a halt.
        Woken, "woken";
        /// It woke without having become head.
        Spurious, "spurious";
        /// The lock is held.
        Acquired(How: How = How::Fast), "acquired";
        /// The lock is about to be let go.
        Release, "release";
        /// That CPU has been kicked, to take the lock just released.
        Kick(Target: u32 = 0), "kick";
        /// The rest of this CPU's time was offered to that CPU.
        Yield(Target: u32 = 0), "yield";
    }
}
