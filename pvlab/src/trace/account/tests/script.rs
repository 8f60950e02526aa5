//! A short way to write timelines down.

use crate::trace::account::{Account, Accountant, Part, Setup, Tally, VmSetup};
use crate::trace::{Event, Place, What};
use abi::{ExitReason, HostDetail, HostStep, SwitchKind};
use pvlock::LockKind;
use pvlock::trace::{How, TraceEvent};

/// A timeline: events of vCPUs, in the order in which they are written.
pub(super) struct Script {
    setup: Setup,
    events: Vec<Event>,
}

impl Script {
    /// What happens to the vCPUs of a VM with one lock.
    ///
    /// Each sentence is a time in ns, a vCPU, and what happens to it in the [words](told) for that; it is
    /// about lock 0 of VM 0 unless it says `lock=` or `vm=`. The rest of a line after `//` is for people.
    pub(super) fn new(lock: LockKind, vcpus: usize, timeline: &str) -> Self {
        let (lock, locks) = (lock.into(), 1);
        Self::with_vms(&[VmSetup { lock, vcpus, locks }], timeline)
    }

    pub(super) fn with_vms(vms: &[VmSetup], timeline: &str) -> Self {
        let lines = timeline.lines().filter_map(|line| line.split("//").next());
        let mut events = Vec::new();
        for sentence in lines.flat_map(|line| line.split(';')) {
            let mut words = sentence.split_whitespace();
            let Some(at) = words.next() else { continue };
            let at = number(at);
            let vcpu = number(words.next().unwrap().strip_prefix('v').unwrap());
            let (mut place, mut lock) = (Place { vm: 0, vcpu }, 0);
            for word in words {
                match word.split_once('=') {
                    Some(("vm", vm)) => place.vm = number(vm),
                    Some(("lock", of)) => lock = number(of),
                    _ => {
                        let told = told(word, lock).into_iter();
                        events.extend(told.map(|what| Event { at, place, what }));
                    }
                }
            }
        }
        let (vms, simulated) = (vms.to_vec(), false);
        let setup = Setup { vms, simulated };
        Self { setup, events }
    }

    /// With that number of locks in its only VM.
    pub(super) fn with_locks(mut self, locks: usize) -> Self {
        self.setup.vms[0].locks = locks;
        self
    }

    pub(super) fn account(&self, end_ns: u64) -> Account {
        let mut accountant = Accountant::new(&self.setup);
        self.events.iter().for_each(|event| accountant.event(event));
        accountant.finish(end_ns)
    }

    /// The account of lock 0 of VM 0.
    pub(super) fn tally(&self, end_ns: u64) -> Tally {
        self.account(end_ns).vms.swap_remove(0).locks.swap_remove(0)
    }
}

fn number<T: TryFrom<u64, Error: std::fmt::Debug>>(text: &str) -> T {
    let number: u64 = text.replace('_', "").parse().unwrap();
    number.try_into().unwrap()
}

/// The events that a word stands for: steps by their names in traces, acquisitions by how they were made.
fn told(word: &str, lock: u16) -> Vec<What> {
    let (word, detail) = word.split_once('=').unwrap_or((word, ""));
    let switch = |kind| What::Switch { cpu: 0, kind };
    let many = |words: [&str; 3]| words.iter().flat_map(|word| told(word, lock)).collect();
    let step = match word {
        "on" => return vec![switch(SwitchKind::In)],
        "off" => return vec![switch(SwitchKind::OutPreempted)],
        "out" => return vec![switch(SwitchKind::Out)],
        // As in a VM: out of the guest, blocked, off its CPU.
        "sleeps" => return many(["exit=halt", "blocked", "out"]),
        // Gets a CPU and goes on after a halt.
        "wakes" => return [many(["on", "unblocked", "enter"]), told("woken", lock)].concat(),
        "gap" => {
            let dropped = number(detail);
            return vec![What::Gap { dropped }];
        }
        "behind" if detail == "nobody" => TraceEvent::QueuedBehind(None),
        "behind" => TraceEvent::QueuedBehind(Some(number(detail))),
        "ticket" => TraceEvent::QueuedWithTicket(number(detail)),
        "kick" => TraceEvent::Kick(number(detail)),
        "yield" => TraceEvent::Yield(number(detail)),
        _ => {
            if let Some(how) = How::ALL.into_iter().find(|how| how.name() == word) {
                TraceEvent::Acquired(how)
            } else if let Some(step) = HostStep::ALL.iter().find(|step| step.name() == word) {
                let reason = ExitReason::ALL.into_iter().find(|r| r.name() == detail);
                return vec![What::Host(step.with(match step.detail() {
                    HostDetail::Nothing => HostDetail::Nothing,
                    HostDetail::Reason(_) => HostDetail::Reason(reason.unwrap()),
                    HostDetail::LengthNs(_) => HostDetail::LengthNs(number(detail)),
                }))];
            } else {
                let mut steps = TraceEvent::ALL.iter().copied();
                steps.find(|step| step.name() == word).unwrap()
            }
        }
    };
    vec![What::Lock { lock, step }]
}

impl Tally {
    /// Checks the parts that are not 0, and that they add up.
    #[track_caller]
    pub(super) fn assert_parts(&self, expected: &str) {
        assert_eq!(self.parts_ns.sum(), self.wait_ns, "the parts add up");
        assert_eq!(self.sum_violations, 0);
        let parts = Part::ALL.map(|part| (part.name(), self.parts_ns[part]));
        let parts = parts.iter().filter(|(_, ns)| *ns > 0);
        let parts: Vec<_> = parts.map(|(name, ns)| format!("{name} {ns}")).collect();
        assert_eq!(parts.join(", "), expected);
    }
}
