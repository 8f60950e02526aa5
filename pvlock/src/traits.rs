//! What tools ask of locks.

/// Properties of a lock that tools need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Waiters get the lock in the order in which they came.
    pub fair: bool,
    /// A free lock can be taken past those that queue for it.
    pub steals: bool,
    /// Waiters halt and must be kicked.
    pub halts: bool,
    /// Waiters queue on per-CPU nodes, so a queue can be shown.
    pub queues: bool,
    /// Waiters offer their time to the holder (directed yields).
    pub yields: bool,
    /// Waiters let all CPUs pass a memory barrier ([`heavy_barrier`](crate::Platform::heavy_barrier)).
    pub barriers: bool,
    /// Waiters sleep: their CPU is for other tasks meanwhile.
    pub sleeps: bool,
    /// A negative control: broken on purpose.
    pub control: bool,
}

pub(crate) const UNFAIR: Traits = Traits {
    fair: false,
    steals: false,
    halts: false,
    queues: false,
    yields: false,
    barriers: false,
    sleeps: false,
    control: false,
};
pub(crate) const FAIR: Traits = Traits {
    fair: true,
    ..UNFAIR
};
pub(crate) const CONTROL: Traits = Traits {
    control: true,
    ..UNFAIR
};
pub(crate) const SLEEPS: Traits = Traits {
    sleeps: true,
    halts: true,
    queues: true,
    ..UNFAIR
};

pub(crate) const PV: Traits = Traits {
    queues: true,
    halts: true,
    steals: true,
    ..UNFAIR
};
pub(crate) const ASYM: Traits = Traits {
    barriers: true,
    ..PV
};
