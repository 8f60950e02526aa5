//! A short way to write timelines down.

use crate::trace::account::{Account, Accountant, Part, Setup, Tally, VmSetup};
use crate::trace::{Event, Place, What};
use abi::{ExitReason, HostStep, SwitchKind};
use pvlock::trace::How;
use pvlock::{LockKind, TraceEvent};

/// A timeline: events of vCPUs, in the order in which they are written.
pub(super) struct Script {
    setup: Setup,
    pub(super) events: Vec<Event>,
}

/// The vCPU of VM 0, and lock 0, that most tests are about, at a time.
pub(super) struct At<'a> {
    script: &'a mut Script,
    at: u64,
    place: Place,
    lock: u16,
}

impl Script {
    pub(super) fn new(lock: LockKind, vcpus: usize, locks: usize) -> Self {
        let lock = lock.into();
        Self::with_vms(&[VmSetup { lock, vcpus, locks }])
    }

    pub(super) fn with_vms(vms: &[VmSetup]) -> Self {
        Self {
            setup: Setup {
                vms: vms.to_vec(),
                simulated: false,
            },
            events: Vec::new(),
        }
    }

    /// What happens to `vcpu` at `at` ns.
    pub(super) fn at(&mut self, at: u64, vcpu: u16) -> At<'_> {
        At {
            script: self,
            at,
            place: Place { vm: 0, vcpu },
            lock: 0,
        }
    }

    /// A first acquisition by `vcpu` from 0 to 0, so that the lock is known to be free.
    pub(super) fn known_free(&mut self, vcpu: u16) {
        self.at(0, vcpu).start().acquired(How::Fast).release();
    }

    /// `vcpu` holds the lock from 0 on.
    pub(super) fn held(&mut self, vcpu: u16) {
        self.at(0, vcpu).start().acquired(How::Fast);
    }

    pub(super) fn account(&self, end_ns: u64) -> Account {
        let mut accountant = Accountant::new(&self.setup);
        for event in &self.events {
            accountant.event(event);
        }
        accountant.finish(end_ns)
    }

    /// The account of lock 0 of VM 0.
    pub(super) fn tally(&self, end_ns: u64) -> Tally {
        self.account(end_ns).vms.swap_remove(0).locks.swap_remove(0)
    }
}

impl At<'_> {
    pub(super) fn vm(mut self, vm: u16) -> Self {
        self.place.vm = vm;
        self
    }

    pub(super) fn lock(mut self, lock: u16) -> Self {
        self.lock = lock;
        self
    }

    pub(super) fn what(self, what: What) -> Self {
        let (at, place) = (self.at, self.place);
        self.script.events.push(Event { at, place, what });
        self
    }

    pub(super) fn step(self, step: TraceEvent) -> Self {
        let lock = self.lock;
        self.what(What::Lock { lock, step })
    }

    pub(super) fn start(self) -> Self {
        self.step(TraceEvent::Start)
    }

    pub(super) fn behind(self, before: impl Into<Option<u32>>) -> Self {
        self.step(TraceEvent::QueuedBehind(before.into()))
    }

    pub(super) fn ticket(self, ticket: u16) -> Self {
        self.step(TraceEvent::QueuedWithTicket(ticket))
    }

    pub(super) fn head(self) -> Self {
        self.step(TraceEvent::Head)
    }

    pub(super) fn acquired(self, how: How) -> Self {
        self.step(TraceEvent::Acquired(how))
    }

    pub(super) fn release(self) -> Self {
        self.step(TraceEvent::Release)
    }

    pub(super) fn kick(self, vcpu: u32) -> Self {
        self.step(TraceEvent::Kick(vcpu))
    }

    pub(super) fn on(self) -> Self {
        self.what(What::Switch {
            cpu: 0,
            kind: SwitchKind::In,
        })
    }

    pub(super) fn off(self) -> Self {
        self.what(What::Switch {
            cpu: 0,
            kind: SwitchKind::OutPreempted,
        })
    }

    /// Halts as it does in a VM: out of the guest, blocked, off its CPU.
    pub(super) fn halt(self, step: TraceEvent) -> Self {
        self.step(step)
            .what(What::Host(HostStep::Exit(ExitReason::Halt)))
            .what(What::Host(HostStep::Blocked))
            .what(What::Switch {
                cpu: 0,
                kind: SwitchKind::Out,
            })
    }

    /// Gets a CPU and goes on after a halt.
    pub(super) fn wake(self) -> Self {
        self.on()
            .what(What::Host(HostStep::Unblocked))
            .what(What::Host(HostStep::Enter))
            .step(TraceEvent::Woken)
    }
}

/// The parts of a tally that are not 0, and that they add up.
pub(super) fn parts(tally: &Tally) -> Vec<(Part, u64)> {
    assert_eq!(tally.parts_ns.sum(), tally.wait_ns, "the parts add up");
    assert_eq!(tally.sum_violations, 0);
    let all = Part::ALL
        .into_iter()
        .map(|part| (part, tally.parts_ns[part]));
    all.filter(|(_, ns)| *ns > 0).collect()
}
