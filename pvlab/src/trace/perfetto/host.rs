//! A vCPU as its host sees it: the track of its state, and that of the VMM.

use super::cpus::Cpus;
use super::names::{Arg, Category, Drawn, FIRST_REASON, Name, Shape};
use super::packets::{Kind, Packets, TrackEvent};
use super::tracks::Tracks;
use abi::{HostDetail, HostStep, SwitchKind};

/// Whether a vCPU has a CPU.
#[derive(Clone, Copy, Default)]
enum State {
    /// Nothing has told yet.
    #[default]
    Unknown,
    /// It has that one.
    On(u16),
    /// It has none.
    Off,
}

/// A vCPU's host state.
#[derive(Default)]
pub(super) struct HostLane {
    number: usize,
    state_track: u64,
    vmm_track: u64,
    /// Switches are recorded. If not, only halts are known.
    switches: bool,
    /// The CPU that it is pinned to.
    pinned: Option<u16>,
    /// It has done something.
    pub(super) seen: bool,
    state: State,
    /// The VMM blocks it.
    blocked: bool,
    /// A slice of the state track is open; of the VMM's track.
    open: bool,
    vmm_open: bool,
    /// The VMM's track has something on it.
    vmm_used: bool,
}

impl HostLane {
    pub(super) fn new(
        tracks: &Tracks,
        number: usize,
        switches: bool,
        pinned: Option<usize>,
    ) -> Self {
        Self {
            number,
            state_track: tracks.state(number),
            vmm_track: tracks.vmm(number),
            switches,
            pinned: pinned.and_then(|cpu| u16::try_from(cpu).ok()),
            ..Self::default()
        }
    }

    /// Writes a switch of the vCPU's thread.
    pub(super) fn switch(
        &mut self,
        packets: &mut Packets,
        cpus: &mut Cpus,
        at: u64,
        cpu: u16,
        kind: SwitchKind,
    ) {
        match (kind, self.state) {
            // It has had the CPU since the trace began, or the trace begins with telling that it has not.
            (SwitchKind::Out | SwitchKind::OutPreempted, State::Unknown) if at > 0 => {
                self.state(packets, 0, Name::Running).derived().write();
                cpus.ran(packets, at, cpu, self.number);
            }
            (_, State::On(old)) => cpus.end(packets, at, old, self.number),
            (_, State::Unknown | State::Off) => {}
        }
        let name = match kind {
            SwitchKind::In => Name::Running,
            SwitchKind::OutPreempted => Name::Preempted,
            SwitchKind::Out if self.blocked => Name::Halted,
            SwitchKind::Out => Name::OffCpu,
        };
        self.state(packets, at, name).arg(Arg::Cpu, cpu).write();
        self.state = State::Off;
        if kind == SwitchKind::In {
            self.state = State::On(cpu);
            cpus.begin(packets, at, cpu, self.number);
        }
    }

    /// Writes a step of the host.
    pub(super) fn step(&mut self, packets: &mut Packets, at: u64, step: HostStep) {
        let drawn = Drawn::of_host(step);
        if !std::mem::replace(&mut self.vmm_used, true)
            && let Some(name) = drawn.before
        {
            self.vmm_open = true;
            self.vmm(packets, Kind::Begin, 0, name).derived().write();
        }
        let kind = match drawn.shape {
            Shape::Begin => Kind::Begin,
            _ => Kind::Instant,
        };
        if drawn.shape != Shape::Instant {
            self.close_vmm(packets, at);
            self.vmm_open = kind == Kind::Begin;
        }
        let event = self.vmm(packets, kind, at, drawn.name);
        match step.detail() {
            HostDetail::Nothing => event,
            HostDetail::Reason(reason) => event.text(Arg::Reason, FIRST_REASON + reason as u8),
            HostDetail::LengthNs(ns) => event.arg(Arg::LengthNs, ns),
        }
        .write();
        let state = match step {
            HostStep::Blocked => Name::Halted,
            HostStep::Unblocked => Name::Runnable,
            _ => return,
        };
        self.blocked = state == Name::Halted;
        self.infer(packets, at, state);
    }

    /// Makes the state from what the VMM does, if the kernel does not tell it.
    fn infer(&mut self, packets: &mut Packets, at: u64, name: Name) {
        if self.switches {
            return;
        }
        if !self.open {
            let before = match name {
                Name::Halted => Name::Runnable,
                _ => Name::Halted,
            };
            self.state(packets, 0, before).derived().write();
        }
        self.state(packets, at, name).derived().write();
    }

    /// Ends the state and begins another.
    fn state<'a>(&mut self, packets: &'a mut Packets, at: u64, name: Name) -> TrackEvent<'a> {
        if self.open {
            packets.end_slice(at, self.state_track);
        }
        self.open = true;
        let event = packets.event(Kind::Begin, at, self.state_track);
        event.name(name, Category::Host)
    }

    fn vmm<'a>(&self, packets: &'a mut Packets, kind: Kind, at: u64, name: Name) -> TrackEvent<'a> {
        let event = packets.event(kind, at, self.vmm_track);
        event.name(name, Category::Vmm)
    }

    fn close_vmm(&mut self, packets: &mut Packets, at: u64) {
        if self.vmm_open {
            self.vmm_open = false;
            packets.end_slice(at, self.vmm_track);
        }
    }

    /// Ends all slices. A vCPU that never changed its state has had it all the time.
    pub(super) fn finish(&mut self, packets: &mut Packets, cpus: &mut Cpus, end: u64) {
        if self.seen && !self.open {
            let name = match self.switches {
                true => Name::Running,
                false => Name::Runnable,
            };
            self.state(packets, 0, name).derived().write();
            let unused = self.pinned.filter(|&cpu| cpus.unused(cpu));
            if let Some(cpu) = unused.filter(|_| self.switches) {
                cpus.ran(packets, end, cpu, self.number);
            }
        }
        if self.open {
            self.open = false;
            packets.end_slice(end, self.state_track);
        }
        self.close_vmm(packets, end);
    }
}
