//! Where the CPUs are, and how far from each other.

use crate::parameters::{Costs, whole};
use crate::units::{Ps, ps};

/// Where a CPU is: all numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    socket: u16,
    core: u16,
}

/// The distances between CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    places: Box<[Place]>,
    threads: usize,
    /// The time of a transfer from socket to socket, one row after the other.
    sockets: Box<[Ps]>,
    socket_count: usize,
    core: Ps,
    /// The shortest way that a line can take from one CPU to another.
    pub(crate) nearest: Ps,
}

impl Topology {
    /// CPUs are numbered as Linux mostly does: first one of each core, socket by socket, then the second
    /// of each core, and so on.
    pub(crate) fn new(costs: &Costs) -> Self {
        let (sockets, cores, threads) = (
            whole(costs.sockets),
            whole(costs.cores),
            whole(costs.threads),
        );
        let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let places = (0..sockets * cores * threads).map(|cpu| Place {
            socket: small(cpu % (sockets * cores) / cores),
            core: small(cpu % (sockets * cores)),
        });
        let links = whole(costs.links).max(1);
        let distance = |from: usize, to: usize| {
            let apart = from.abs_diff(to).min(sockets - from.abs_diff(to));
            // Each socket is linked to those next to it on either side of a ring; an odd link goes
            // straight across.
            let hops = if links + 1 >= sockets {
                1
            } else {
                apart.div_ceil(links.div_ceil(2))
            };
            match apart {
                0 => ps(costs.transfer_socket_ns),
                _ => ps(costs.transfer_cross_ns) + (hops as u64 - 1) * ps(costs.transfer_hop_ns),
            }
        };
        let between = (0..sockets).flat_map(|from| (0..sockets).map(move |to| (from, to)));
        let core = ps(costs.transfer_core_ns);
        let mut nearest = ps(costs.memory_ns);
        if threads > 1 {
            nearest = nearest.min(core);
        }
        if cores > 1 {
            nearest = nearest.min(ps(costs.transfer_socket_ns));
        }
        if sockets > 1 {
            nearest = nearest.min(ps(costs.transfer_cross_ns));
        }
        Self {
            places: places.collect(),
            threads,
            sockets: between.map(|(from, to)| distance(from, to)).collect(),
            socket_count: sockets,
            core,
            nearest,
        }
    }

    /// How long a line takes from CPU to CPU.
    #[inline(always)]
    pub(crate) fn transfer(&self, from: u32, to: u32) -> Ps {
        let (a, b) = (self.places[from as usize], self.places[to as usize]);
        if a.core == b.core {
            self.core
        } else {
            self.sockets[usize::from(a.socket) * self.socket_count + usize::from(b.socket)]
        }
    }

    /// How long a message takes from a CPU to any of a socket.
    #[inline(always)]
    pub(crate) fn to_socket(&self, from: u32, socket: usize) -> Ps {
        let from = usize::from(self.places[from as usize].socket);
        self.sockets[from * self.socket_count + socket]
    }

    pub(crate) fn socket(&self, cpu: u32) -> usize {
        usize::from(self.places[cpu as usize].socket)
    }

    pub(crate) fn sockets(&self) -> usize {
        self.socket_count
    }

    /// The other CPUs of that core.
    pub(crate) fn siblings(&self, cpu: u32) -> impl Iterator<Item = u32> + use<> {
        let cores = self.places.len() / self.threads;
        let first = usize::from(self.places[cpu as usize].core);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_CPUS")]
        let all = (0..self.threads).map(move |thread| (first + thread * cores) as u32);
        all.filter(move |&other| other != cpu)
    }

    /// All CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }
}
