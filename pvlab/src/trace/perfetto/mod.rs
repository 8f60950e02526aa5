//! The Perfetto trace: what every vCPU, lock and host CPU did, to be looked at in ui.perfetto.dev.
//!
//! It is lossless. Every event is in exactly one packet, in the order of time; packets that stand for
//! no event (slices that end because another begins, counters, host CPUs) are made from the events
//! and passed over by the reader. `docs/trace.md` has the tracks and tells which packet is which
//! event.

mod counters;
mod cpus;
mod host;
mod lock;
mod names;
mod packets;
mod proto;
pub(super) mod read;
mod tracks;
mod wire;

use super::header::{End, Header, Progress};
use super::out::Out;
use super::sink::{Sink, WriteError};
use super::{Event, What};
use counters::Counters;
use cpus::Cpus;
use host::HostLane;
use lock::LockLane;
use packets::Packets;
use pvlock::TraceEvent;
use tracks::Tracks;

/// The first byte of every Perfetto trace: its first packet's tag.
pub(super) const FIRST_BYTE: u8 = 0x0a;

/// Writes a Perfetto trace.
pub(super) struct Writer {
    packets: Packets,
    progress: Progress,
    tracks: Tracks,
    locks: Vec<LockLane>,
    hosts: Vec<HostLane>,
    counters: Vec<Counters>,
    cpus: Cpus,
    /// Flows handed out, each from a kick to the wake that it causes.
    flows: u64,
}

impl Writer {
    /// Begins with the header and the tracks.
    pub(super) fn new(out: Out, header: &Header) -> Result<Self, WriteError> {
        let tracks = Tracks::new(header);
        let mut packets = Packets::new(out, header)?;
        tracks.describe(header, &mut packets);
        let mut locks = Vec::new();
        let mut hosts = Vec::new();
        let mut counters = Vec::new();
        for (vm, spec) in header.vms.iter().enumerate() {
            counters.push(Counters::new(&tracks, vm, &mut packets));
            for (vcpu, &cpu) in spec.vcpus.iter().enumerate() {
                let number = tracks.number(vm, vcpu);
                locks.push(LockLane::new(tracks.lock(number)));
                hosts.push(HostLane::new(&tracks, number, header.switches, cpu));
            }
        }
        Ok(Self {
            cpus: Cpus::new(tracks.clone()),
            packets,
            progress: Progress::new(header),
            tracks,
            locks,
            hosts,
            counters,
            flows: 0,
        })
    }

    /// A new flow, to the next wake of that vCPU.
    fn flow_to(&mut self, vm: usize, target: u32) -> Option<u64> {
        let target = self.tracks.try_number(vm, usize::try_from(target).ok()?)?;
        self.flows += 1;
        self.locks[target].kicked(self.flows);
        Some(self.flows)
    }
}

impl Sink for Writer {
    fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        self.progress.event(event)?;
        let (at, vm) = (event.at, usize::from(event.place.vm));
        let number = self.tracks.number(vm, usize::from(event.place.vcpu));
        let flow = match event.what {
            What::Lock {
                step: TraceEvent::Kick(target),
                ..
            } => self.flow_to(vm, target),
            _ => None,
        };
        let (lane, host) = (&mut self.locks[number], &mut self.hosts[number]);
        let (counters, packets) = (&mut self.counters[vm], &mut self.packets);
        let queued = lane.queued;
        host.seen |= !matches!(event.what, What::Gap { .. });
        match event.what {
            What::Lock { lock, step } => lane.step(packets, at, lock, step, flow),
            What::Gap { dropped } => lane.gap(packets, at, dropped),
            What::Switch { cpu, kind } => host.switch(packets, &mut self.cpus, at, cpu, kind),
            What::Host(step) => host.step(packets, at, step),
        }
        counters.queue(packets, at, lane.queued - queued);
        if let What::Lock {
            step: TraceEvent::Acquired(_),
            ..
        } = event.what
        {
            counters.acquired(packets, at);
        }
        packets.drain()
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        self.packets.write_out()
    }

    fn finish(mut self: Box<Self>, end: End) -> Result<End, WriteError> {
        let end = self.progress.end(end);
        let packets = &mut self.packets;
        for lane in &mut self.locks {
            lane.close(packets, end.end_ns);
            packets.drain()?;
        }
        for lane in &mut self.hosts {
            lane.finish(packets, &mut self.cpus, end.end_ns);
            packets.drain()?;
        }
        self.cpus.finish(packets, end.end_ns);
        for counters in &mut self.counters {
            counters.finish(packets, end.end_ns);
        }
        packets.end(&end)?;
        packets.write_out()?;
        Ok(end)
    }
}
