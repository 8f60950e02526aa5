//! The tracks of host CPUs: which vCPU each of them runs.

use super::names::Category;
use super::packets::{Kind, Packets};
use super::tracks::Tracks;

/// All host CPUs that a vCPU has been seen on.
pub(super) struct Cpus {
    tracks: Tracks,
    /// By number.
    cpus: Vec<Cpu>,
}

#[derive(Clone, Default)]
struct Cpu {
    described: bool,
    /// Time of the last change.
    last: u64,
    /// The vCPU that it runs, counted through all VMs.
    running: Option<usize>,
}

impl Cpus {
    pub(super) fn new(tracks: Tracks) -> Self {
        let cpus = Vec::new();
        Self { tracks, cpus }
    }

    /// The CPU runs that vCPU from now on.
    pub(super) fn begin(&mut self, packets: &mut Packets, at: u64, cpu: u16, number: usize) {
        let track = self.track(packets, cpu);
        let name = packets.vcpu_name(number, &self.tracks);
        let state = &mut self.cpus[usize::from(cpu)];
        if state.running.replace(number).is_some() {
            packets.end_slice(at, track);
        }
        state.last = at;
        let event = packets.event(Kind::Begin, at, track);
        event.name_iid(name, Category::Host).write();
    }

    /// The CPU does not run that vCPU any more.
    pub(super) fn end(&mut self, packets: &mut Packets, at: u64, cpu: u16, number: usize) {
        let track = self.track(packets, cpu);
        let state = &mut self.cpus[usize::from(cpu)];
        if state.running == Some(number) {
            state.running = None;
            state.last = at;
            packets.end_slice(at, track);
        }
    }

    /// The CPU, which ran nothing that is known, has run that vCPU until now.
    pub(super) fn ran(&mut self, packets: &mut Packets, at: u64, cpu: u16, number: usize) {
        self.track(packets, cpu);
        let state = &self.cpus[usize::from(cpu)];
        if state.running.is_none() {
            self.begin(packets, state.last, cpu, number);
            self.end(packets, at, cpu, number);
        }
    }

    /// Whether no vCPU has been seen on that CPU.
    pub(super) fn unused(&self, cpu: u16) -> bool {
        let state = self.cpus.get(usize::from(cpu));
        state.is_none_or(|cpu| !cpu.described)
    }

    /// Ends all slices.
    pub(super) fn finish(&mut self, packets: &mut Packets, at: u64) {
        for (cpu, state) in (0..=u16::MAX).zip(&mut self.cpus) {
            if state.running.take().is_some() {
                packets.end_slice(at, self.tracks.cpu(cpu));
            }
        }
    }

    /// The CPU's track, which is described if it is not yet.
    fn track(&mut self, packets: &mut Packets, cpu: u16) -> u64 {
        let index = usize::from(cpu);
        if index >= self.cpus.len() {
            self.cpus.resize(index + 1, Cpu::default());
        }
        if !self.cpus[index].described {
            self.cpus[index].described = true;
            self.tracks.describe_cpu(cpu, packets);
        }
        self.tracks.cpu(cpu)
    }
}
