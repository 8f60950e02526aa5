//! A vCPU as its host sees it: the track of its state, and that of the VMM.

use super::cpus::Cpus;
use super::names::{Arg, Category, HostDrawn, Name, reason_iid};
use super::packets::{Kind, Packets, TrackEvent};
use super::tracks::Tracks;
use abi::{HostDetail, HostStep, SwitchKind};

/// Whether a vCPU has a CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has told yet.
    Unknown,
    /// It has that one.
    On(u16),
    /// It has none.
    Off,
}

/// A vCPU's host state.
pub(super) struct HostLane {
    number: usize,
    state_track: u64,
    vmm_track: u64,
    /// Switches are recorded. If not, only halts are known.
    switches: bool,
    /// The CPU that it is pinned to.
    pinned: Option<u16>,
    /// It has done something.
    seen: bool,
    state: State,
    /// The VMM blocks it.
    blocked: bool,
    /// A slice of the state track is open; of the VMM's track.
    open: bool,
    vmm_open: bool,
    /// The VMM's track has nothing on it.
    vmm_fresh: bool,
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
            seen: false,
            state: State::Unknown,
            blocked: false,
            open: false,
            vmm_open: false,
            vmm_fresh: true,
        }
    }

    /// The vCPU has done something.
    #[inline]
    pub(super) const fn seen(&mut self) {
        self.seen = true;
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
        self.seen = true;
        match kind {
            SwitchKind::In => self.switch_in(packets, cpus, at, cpu),
            SwitchKind::Out => self.switch_out(packets, cpus, at, cpu, false),
            SwitchKind::OutPreempted => self.switch_out(packets, cpus, at, cpu, true),
        }
    }

    /// Writes a step of the host.
    pub(super) fn step(&mut self, packets: &mut Packets, at: u64, step: HostStep) {
        self.seen = true;
        let event = match HostDrawn::of(step) {
            HostDrawn::Begin(name) => self.begin_vmm(packets, at, name),
            HostDrawn::End(slice, name) => {
                self.end_vmm(packets, at, slice);
                self.vmm(packets, Kind::Instant, at, name)
            }
            HostDrawn::Instant(name) => {
                self.vmm_fresh = false;
                self.vmm(packets, Kind::Instant, at, name)
            }
        };
        match step.detail() {
            HostDetail::Nothing => event,
            HostDetail::Reason(reason) => event.text(Arg::Reason, reason_iid(reason)),
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

    fn switch_in(&mut self, packets: &mut Packets, cpus: &mut Cpus, at: u64, cpu: u16) {
        if let State::On(old) = self.state {
            cpus.end(packets, at, old, self.number);
        }
        self.state = State::On(cpu);
        self.state(packets, at, Name::Running)
            .arg(Arg::Cpu, cpu)
            .write();
        cpus.begin(packets, at, cpu, self.number);
    }

    fn switch_out(
        &mut self,
        packets: &mut Packets,
        cpus: &mut Cpus,
        at: u64,
        cpu: u16,
        preempted: bool,
    ) {
        match self.state {
            // It has had the CPU since the trace began, or the trace begins with telling that it has not.
            State::Unknown if at > 0 => {
                self.state(packets, 0, Name::Running).derived().write();
                cpus.ran(packets, at, cpu, self.number);
            }
            State::On(old) => cpus.end(packets, at, old, self.number),
            State::Unknown | State::Off => {}
        }
        self.state = State::Off;
        let name = match (preempted, self.blocked) {
            (true, _) => Name::Preempted,
            (false, true) => Name::Halted,
            (false, false) => Name::OffCpu,
        };
        self.state(packets, at, name).arg(Arg::Cpu, cpu).write();
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
        packets
            .event(Kind::Begin, at, self.state_track)
            .name(name, Category::Host)
    }

    fn vmm<'a>(&self, packets: &'a mut Packets, kind: Kind, at: u64, name: Name) -> TrackEvent<'a> {
        packets
            .event(kind, at, self.vmm_track)
            .name(name, Category::Vmm)
    }

    /// Begins a slice of the VMM's track.
    fn begin_vmm<'a>(&mut self, packets: &'a mut Packets, at: u64, name: Name) -> TrackEvent<'a> {
        self.close_vmm(packets, at);
        self.vmm_fresh = false;
        self.vmm_open = true;
        self.vmm(packets, Kind::Begin, at, name)
    }

    /// Ends the slice of the VMM's track, which has been open from the start if nothing else was.
    fn end_vmm(&mut self, packets: &mut Packets, at: u64, name: Name) {
        if self.vmm_fresh {
            self.begin_vmm(packets, 0, name).derived().write();
        }
        self.close_vmm(packets, at);
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
            if self.switches {
                self.state(packets, 0, Name::Running).derived().write();
                if let Some(cpu) = self.pinned.filter(|&cpu| cpus.unused(cpu)) {
                    cpus.ran(packets, end, cpu, self.number);
                }
            } else {
                self.state(packets, 0, Name::Runnable).derived().write();
            }
        }
        if self.open {
            self.open = false;
            packets.end_slice(end, self.state_track);
        }
        self.close_vmm(packets, end);
    }
}
