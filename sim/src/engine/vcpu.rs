//! A vCPU: what it is doing, and what it has used.

use super::event::Ps;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::collections::BTreeMap;

/// What runs on a vCPU.
pub(super) type Program = Coroutine<(), (), (), DefaultStack>;

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On its CPU.
    Running,
    /// It wants to run, and waits for its CPU.
    Queued,
    /// Halted, and off its CPU.
    Halted,
    /// Off its CPU for a time that was asked for.
    Away,
    /// It has ended.
    Done,
}

/// What a vCPU does when it has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It computes until then.
    Computes { until: Ps },
    /// It would compute for so long.
    Computed { left: Ps },
    /// It waits for a line: no interrupt is taken meanwhile.
    WaitsForLine,
    /// It spins until the line changes, at most until it has spun for `left`.
    Spins { line: u32, since: Ps, left: Ps },
    /// Its CPU polls for it while it is halted.
    Polls,
    /// Nothing: it is off its CPU for another reason than that others run.
    Nothing,
}

/// A switch of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, ns.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// What happened.
    pub kind: SwitchKind,
}

/// What happened to a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// It got the CPU.
    In,
    /// It gave the CPU up, to wait for something.
    Out,
    /// It lost the CPU though it wanted to go on.
    OutPreempted,
}

/// What the hypervisor did with a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// It has left the guest to halt.
    ExitHalt,
    /// It has left the guest to yield.
    ExitYield,
    /// It has left the guest as it was to be taken off its CPU.
    ExitPreempt,
    /// It has left the guest as it spins.
    ExitPause,
    /// It enters the guest.
    Enter,
    /// It is halted.
    Blocked,
    /// It is not halted any more.
    Unblocked,
    /// It has been off its CPU for so long, ns, as asked.
    Injected(u64),
}

/// What a vCPU has had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuStats {
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// Time in which it wanted to run and could not, ns.
    pub queued_ns: u64,
    /// Times it gave up its CPU.
    pub voluntary_switches: u64,
    /// Times it lost its CPU.
    pub involuntary_switches: u64,
    /// Times it left the guest, by reason.
    pub exits: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Exits {
    pub(super) halt: u64,
    pub(super) kick: u64,
    pub(super) yielded: u64,
    pub(super) pause: u64,
    pub(super) preempt: u64,
}

pub(super) struct Vcpu {
    /// Whether it has a program that has not ended.
    pub(super) is_guest: bool,
    /// The lowest address of its stack.
    pub(super) lowest_stack: usize,
    pub(super) vm: u32,
    pub(super) number: u32,
    /// The address of its area in the region.
    pub(super) area: usize,
    /// CPUs that it may run on.
    pub(super) allowed: Box<[u32]>,
    pub(super) state: State,
    pub(super) doing: Doing,
    /// The CPU that it is on, or was last, or waits for.
    pub(super) cpu: u32,
    /// The event that has been arranged for it, by its order: others do not hold any more.
    pub(super) arranged: u32,
    /// Where it ran last.
    pub(super) ran_on: u32,
    /// What is left of the time for which it was to spin at most.
    pub(super) spin_left: Ps,
    /// How it suspends itself, once it has begun.
    pub(super) yielder: *const Yielder<(), ()>,
    /// The line that it spins on has changed, and it has not looked yet.
    pub(super) line_changed: bool,
    /// A kick that no halt has taken yet.
    pub(super) kicked: bool,
    /// A wake-up is on its way.
    pub(super) waking: bool,
    pub(super) halted_at: Ps,
    /// How long its CPU would poll for it.
    pub(super) poll: Ps,
    /// How long it may spin until it leaves the guest, and what of that is left.
    pub(super) ple_window: Ps,
    pub(super) ple_left: Ps,
    /// When it last executed a pause of its own.
    pub(super) paused_at: Ps,
    /// When it got into its present state, as far as accounting goes.
    pub(super) since: Ps,
    pub(super) ran: Ps,
    pub(super) queued: Ps,
    pub(super) vruntime: Ps,
    pub(super) deadline: Ps,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) exits: Exits,
    pub(super) switches: Vec<Switch>,
    pub(super) steps: Vec<(u64, HostStep)>,
    /// For [`HostStep::Injected`].
    pub(super) away_since: Ps,
    /// Critical sections begun, and halts that ended: what a schedule counts.
    pub(super) sections: u64,
    pub(super) wakes: u64,
}

impl Vcpu {
    pub(super) fn stats(&self, now: Ps) -> VcpuStats {
        let since = now.saturating_sub(self.since);
        let more = |state| if self.state == state { since } else { 0 };
        let exits = [
            ("halt", self.exits.halt),
            ("kick", self.exits.kick),
            ("yield", self.exits.yielded),
            ("pause", self.exits.pause),
            ("preempt", self.exits.preempt),
        ];
        VcpuStats {
            cpu_ns: (self.ran + more(State::Running)) / super::event::NS,
            queued_ns: (self.queued + more(State::Queued)) / super::event::NS,
            voluntary_switches: self.voluntary,
            involuntary_switches: self.involuntary,
            exits: exits.into_iter().filter(|&(_, n)| n > 0).collect(),
        }
    }
}
