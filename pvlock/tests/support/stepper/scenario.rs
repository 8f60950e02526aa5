//! What vCPUs do in a run, and what is done to them meanwhile.

use pvlock::LockKind;

/// What a vCPU's program consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Lock(usize),
    Unlock(usize),
    /// Tries; a success is released again at once.
    Try(usize),
    Read(usize),
    ReadUnlock(usize),
    /// As [`Self::Try`], for reading.
    TryRead(usize),
    /// Lets that many steps pass.
    Pause(u32),
}

/// `rounds` short critical sections under `lock`.
pub(crate) fn section(lock: usize, rounds: usize) -> Vec<Op> {
    [Op::Lock(lock), Op::Pause(1), Op::Unlock(lock)].repeat(rounds)
}

/// The same, said of a reader-writer lock.
pub(crate) fn writes(lock: usize, rounds: usize) -> Vec<Op> {
    section(lock, rounds)
}

/// `rounds` short critical sections that read under `lock`.
pub(crate) fn reads(lock: usize, rounds: usize) -> Vec<Op> {
    [Op::Read(lock), Op::Pause(1), Op::ReadUnlock(lock)].repeat(rounds)
}

/// Which vCPU comes next, among those that can run.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Anybody; the seed.
    Random(u64),
    RoundRobin,
    /// These, as long as they can run, then round robin.
    Script(Vec<usize>),
    /// Always the one of the highest priority, which are random. One that pauses gets the lowest; so does the one
    /// that runs at `depth` - 1 steps of `steps`, also at random (Burckhardt and others, "A randomized scheduler
    /// with probabilistic guarantees of finding bugs", ASPLOS 2010).
    Pct {
        seed: u64,
        depth: usize,
        steps: u64,
    },
    /// Each goes on until it pauses, sleeps or is done, then the next one. Before these steps of the machine that
    /// vCPU takes over, if it can run: preemptions.
    Switches(Vec<(u64, usize)>),
    /// As bad as can be for that vCPU: it runs only while another one writes. The others run one after
    /// the other, each until it is outside the lock. When none of them gets on, all take turns.
    Against(usize),
}

/// The hypervisor takes the CPU from `vcpu` after its step `at`, for `steps` steps of others, or
/// until nobody else can run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preempt {
    pub(crate) vcpu: usize,
    pub(crate) at: u64,
    pub(crate) steps: u64,
}

/// When an interrupt is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// At this step of the vCPU.
    Step(u64),
    /// After that many pauses in one lock operation.
    Pauses(u64),
}

/// An interrupt whose handler takes and releases `lock`. Those of one vCPU come in list order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    pub(crate) vcpu: usize,
    pub(crate) when: When,
    pub(crate) lock: usize,
}

/// What becomes of the kicks that the lock makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kick {
    /// As they should be: one that meets no halt ends the next.
    Sticky,
    /// Broken: one that meets no halt is gone.
    Fleeting,
    /// Broken: they go nowhere.
    Lost,
}

/// A scenario and its schedule.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) kind: LockKind,
    /// Instead, one of each of these: then only exclusion is checked, and that all end.
    pub(crate) mixed: Vec<LockKind>,
    /// How many locks there are.
    pub(crate) locks: usize,
    /// One program per vCPU.
    pub(crate) programs: Vec<Vec<Op>>,
    pub(crate) order: Order,
    pub(crate) preempt: Vec<Preempt>,
    /// Unfounded kicks: before which step of the machine, whom.
    pub(crate) kicks: Vec<(u64, usize)>,
    /// vCPUs all of whose queue nodes are in use, as if they held other locks.
    pub(crate) without_nodes: Vec<usize>,
    pub(crate) kick: Kick,
    pub(crate) interrupts: Vec<Interrupt>,
    /// Interrupt handlers read.
    pub(crate) interrupts_read: bool,
    /// The lock is told that it is used in an interrupt.
    pub(crate) interrupts_are_told: bool,
    pub(crate) spin_threshold: u32,
    pub(crate) numa_nodes: u64,
    /// In steps of all vCPUs together.
    pub(crate) millisecond: u64,
    pub(crate) step_limit: u64,
}

impl Config {
    /// `vcpus` that each pass `rounds` times through one lock, in turns.
    pub(crate) fn new(kind: LockKind, vcpus: usize, rounds: usize) -> Self {
        Self {
            kind,
            mixed: vec![],
            locks: 1,
            programs: vec![section(0, rounds); vcpus],
            order: Order::RoundRobin,
            preempt: vec![],
            kicks: vec![],
            without_nodes: vec![],
            kick: Kick::Sticky,
            interrupts: vec![],
            interrupts_read: false,
            interrupts_are_told: true,
            spin_threshold: 4,
            numa_nodes: 1,
            millisecond: 200,
            step_limit: 100_000,
        }
    }

    /// That vCPU loses its CPU besides.
    pub(crate) fn preempt(&mut self, vcpu: usize, at: u64, steps: u64) {
        self.preempt.push(Preempt { vcpu, at, steps });
    }

    /// As new, with a random schedule.
    pub(crate) fn random(self, seed: u64) -> Self {
        Self {
            order: Order::Random(seed),
            ..self
        }
    }
}
