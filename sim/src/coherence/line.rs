//! What is known of a line: a word of every one, and more of those that are fought over.

use crate::spec::MAX_CPUS;
use crate::units::Ps;

/// Most sockets of a machine.
const SOCKETS: usize = 16;
/// Words of a set of CPUs.
const SET_WORDS: usize = MAX_CPUS / 64;

/// The state of a line that was ever touched, in 64 bits: zero at first, so that a machine of thousands
/// of vCPUs uses memory for the lines only that it touches.
///
/// Bits 0 to 15: 1 + the CPU that has it alone, or 0. Bit 16: requests are under way. Bits 32 to 63: 1 +
/// the number of its [`Hot`], or 0.
#[derive(Clone, Copy)]
pub(crate) struct Line(pub(super) u64);

const IN_FLIGHT: u64 = 1 << 16;

impl Line {
    #[inline(always)]
    pub(super) fn is_owned_by(self, cpu: u32) -> bool {
        (self.0 & 0xffff) == u64::from(cpu) + 1
    }

    #[inline(always)]
    pub(crate) fn in_flight(self) -> bool {
        self.0 & IN_FLIGHT != 0
    }

    pub(super) fn owner(self) -> Option<u32> {
        ((self.0 & 0xffff) as u32).checked_sub(1)
    }

    #[inline(always)]
    pub(super) fn hot(self) -> Option<usize> {
        ((self.0 >> 32) as usize).checked_sub(1)
    }

    pub(super) fn set_hot(&mut self, hot: usize) {
        self.0 |= (hot as u64 + 1) << 32;
    }

    pub(super) fn set_owner(&mut self, cpu: Option<u32>) {
        self.0 = self.0 & !0xffff | cpu.map_or(0, |cpu| u64::from(cpu) + 1);
    }

    pub(super) fn set_in_flight(&mut self, in_flight: bool) {
        self.0 = self.0 & !IN_FLIGHT | if in_flight { IN_FLIGHT } else { 0 };
    }
}

/// What is known of a line that more than one CPU has asked for.
#[derive(Default)]
pub(super) struct Hot {
    sharers: [u64; SET_WORDS],
    pub(super) sharer_count: u32,
    pub(super) sharers_of_socket: [u16; SOCKETS],
    /// The CPU that got it last, and passes it on.
    pub(super) forwarder: u32,
    /// vCPUs that wait for it, in the order in which they asked.
    pub(super) requests: Vec<u32>,
    /// Requests that have been sent on their way.
    pub(super) in_flight: u32,
    /// One of them takes the line away.
    pub(super) exclusive: bool,
    /// Until when the CPU that has it alone goes on using it, while one of them takes it away.
    pub(super) leaves_at: Ps,
    /// How often it has been taken for writing.
    pub(super) writes: u32,
    /// Until when a read keeps it busy.
    pub(super) busy_until: Ps,
    /// Requests that have passed others, in a row.
    pub(super) passed: usize,
    /// vCPUs that spin on it.
    pub(super) watchers: Vec<u32>,
}

impl Hot {
    #[inline(always)]
    pub(super) fn is_shared_by(&self, cpu: u32) -> bool {
        self.sharers[cpu as usize / 64] & (1 << (cpu % 64)) != 0
    }

    pub(super) fn add(&mut self, cpu: u32, socket: usize) {
        if !self.is_shared_by(cpu) {
            self.sharers[cpu as usize / 64] |= 1 << (cpu % 64);
            self.sharer_count += 1;
            self.sharers_of_socket[socket] += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        if self.sharer_count > 0 {
            self.sharers = [0; SET_WORDS];
            self.sharers_of_socket = [0; SOCKETS];
            self.sharer_count = 0;
        }
    }
}
