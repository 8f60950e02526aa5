//! The tree of tracks, and their numbers.
//!
//! ```text
//! 1             pvlab                           begin and end of the trace
//! 2             host CPUs
//! ...             CPU c                         the vCPU that has it
//! 3 + 3 v       VM v LOCK
//! 4 + 3 v         queue length                  counter
//! 5 + 3 v         throughput                    counter
//! base + 3 n      vCPU i                        running, preempted, halted
//! base + 3 n + 1    vCPU i lock                 spinning, queued, head, halted, holding
//! base + 3 n + 2    vCPU i VMM                  in guest, exits
//! ```
//!
//! n counts vCPUs through all VMs; base is 3 + 3 times the VMs. The CPUs come last.

use super::packets::Packets;
use super::proto::ordering::EXPLICIT;
use super::proto::track::{
    CHILD_ORDERING, COUNTER, COUNTER_UNIT_NAME, NAME, PARENT_UUID, SIBLING_ORDER_RANK, UUID,
};
use super::wire::Message;
use crate::trace::Place;
use crate::trace::header::Header;

/// Of the trace itself.
pub(super) const ROOT: u64 = 1;
/// Parent of the host CPUs.
const HOST_CPUS: u64 = 2;
const FIRST_VM: u64 = 3;
/// Tracks of a VM, and of a vCPU.
const EACH: u64 = 3;

/// Numbers of all tracks.
#[derive(Clone)]
pub(super) struct Tracks {
    /// vCPUs before those of each VM, and all in the end.
    before: Vec<usize>,
    /// The first vCPU's track.
    vcpus: u64,
}

/// What a track is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// The trace.
    Root,
    /// A vCPU's host state.
    State(Place),
    /// A vCPU's locks.
    Lock(Place),
    /// A vCPU in the eyes of the VMM.
    Vmm(Place),
    /// Anything that is made from the others.
    Derived,
}

impl Tracks {
    pub(super) fn new(header: &Header) -> Self {
        let mut before = vec![0];
        let mut all = 0;
        for vm in &header.vms {
            all += vm.vcpus.len();
            before.push(all);
        }
        Self {
            before,
            vcpus: FIRST_VM + EACH * header.vms.len() as u64,
        }
    }

    /// The vCPU's number, counted through all VMs. It must exist.
    #[inline]
    pub(super) fn number(&self, vm: usize, vcpu: usize) -> usize {
        self.before[vm] + vcpu
    }

    /// The vCPU's number, if it exists.
    pub(super) fn try_number(&self, vm: usize, vcpu: usize) -> Option<usize> {
        let number = self.before.get(vm)?.checked_add(vcpu)?;
        (number < *self.before.get(vm + 1)?).then_some(number)
    }

    /// The vCPU with that number.
    pub(super) fn place(&self, number: usize) -> Option<Place> {
        if number >= *self.before.last()? {
            return None;
        }
        let vm = self.before.partition_point(|&before| before <= number) - 1;
        Some(Place {
            vm: u16::try_from(vm).ok()?,
            vcpu: u16::try_from(number - self.before[vm]).ok()?,
        })
    }

    pub(super) fn queue(&self, vm: usize) -> u64 {
        FIRST_VM + EACH * vm as u64 + 1
    }

    pub(super) fn throughput(&self, vm: usize) -> u64 {
        FIRST_VM + EACH * vm as u64 + 2
    }

    pub(super) fn state(&self, number: usize) -> u64 {
        self.vcpus + EACH * number as u64
    }

    pub(super) fn lock(&self, number: usize) -> u64 {
        self.state(number) + 1
    }

    pub(super) fn vmm(&self, number: usize) -> u64 {
        self.state(number) + 2
    }

    fn all_vcpus(&self) -> usize {
        self.before.last().copied().unwrap_or(0)
    }

    pub(super) fn cpu(&self, cpu: u16) -> u64 {
        self.state(self.all_vcpus()) + u64::from(cpu)
    }

    /// What the track with that number is of.
    pub(super) fn track(&self, uuid: u64) -> Track {
        if uuid == ROOT {
            return Track::Root;
        }
        let Some(from_vcpus) = uuid.checked_sub(self.vcpus) else {
            return Track::Derived;
        };
        let number = usize::try_from(from_vcpus / EACH).unwrap_or(usize::MAX);
        match (self.place(number), from_vcpus % EACH) {
            (Some(place), 0) => Track::State(place),
            (Some(place), 1) => Track::Lock(place),
            (Some(place), _) => Track::Vmm(place),
            (None, _) => Track::Derived,
        }
    }

    /// Writes the descriptors of all tracks but the host CPUs'.
    pub(super) fn describe(&self, header: &Header, packets: &mut Packets) {
        let kind = if header.simulated { "simulated " } else { "" };
        let cpus = named(HOST_CPUS, &format!("{kind}host CPUs"));
        packets.descriptor(&ordered(cpus).uint(SIBLING_ORDER_RANK, 1));
        let mut number = 0;
        for (vm, spec) in header.vms.iter().enumerate() {
            let uuid = FIRST_VM + EACH * vm as u64;
            let track = named(uuid, &format!("{kind}VM {vm} {}", spec.lock));
            packets.descriptor(&ordered(track).uint(SIBLING_ORDER_RANK, 2 + vm as u64));
            let counters = [
                (self.queue(vm), "queue length", "waiters"),
                (self.throughput(vm), "throughput", "acquisitions/s"),
            ];
            for (rank, (counter, name, unit)) in counters.into_iter().enumerate() {
                let unit = Message::new().bytes(COUNTER_UNIT_NAME, unit);
                let track = child(named(counter, name), uuid, rank as u64);
                packets.descriptor(&track.message(COUNTER, &unit));
            }
            for vcpu in 0..spec.vcpus.len() {
                let state = self.state(number);
                let track = named(state, &format!("vCPU {vcpu}"));
                packets.descriptor(&ordered(child(track, uuid, 2 + vcpu as u64)));
                let lock = named(self.lock(number), &format!("vCPU {vcpu} lock"));
                packets.descriptor(&child(lock, state, 0));
                let vmm = named(self.vmm(number), &format!("vCPU {vcpu} VMM"));
                packets.descriptor(&child(vmm, state, 1));
                number += 1;
            }
        }
    }

    /// Writes the descriptor of a host CPU's track.
    pub(super) fn describe_cpu(&self, cpu: u16, packets: &mut Packets) {
        let track = named(self.cpu(cpu), &format!("CPU {cpu}"));
        packets.descriptor(&child(track, HOST_CPUS, cpu.into()));
    }
}

/// The descriptor of the track of the trace itself.
pub(super) fn root() -> Message {
    named(ROOT, "pvlab").uint(SIBLING_ORDER_RANK, 0)
}

fn named(uuid: u64, name: &str) -> Message {
    Message::new().uint(UUID, uuid).bytes(NAME, name)
}

fn ordered(track: Message) -> Message {
    track.uint(CHILD_ORDERING, EXPLICIT)
}

fn child(track: Message, parent: u64, rank: u64) -> Message {
    let track = track.uint(PARENT_UUID, parent);
    track.uint(SIBLING_ORDER_RANK, rank)
}
