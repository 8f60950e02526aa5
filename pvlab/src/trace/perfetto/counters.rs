//! The counters of a VM: waiters in its queues, and its throughput.

use super::packets::{Kind, Packets};
use super::tracks::Tracks;

/// The throughput is counted over so many ns.
const BIN_NS: u64 = 10_000_000;
const SECOND_NS: u128 = 1_000_000_000;

pub(super) struct Counters {
    queue_track: u64,
    throughput_track: u64,
    waiters: u64,
    /// Number of the bin, and acquisitions in it.
    bin: u64,
    acquisitions: u64,
}

impl Counters {
    pub(super) fn new(tracks: &Tracks, vm: usize, packets: &mut Packets) -> Self {
        let counters = Self {
            queue_track: tracks.queue(vm),
            throughput_track: tracks.throughput(vm),
            waiters: 0,
            bin: 0,
            acquisitions: 0,
        };
        let first = packets.event(Kind::Counter, 0, counters.queue_track);
        first.value(0).write();
        counters
    }

    /// The queue has become longer or shorter.
    #[inline]
    pub(super) fn queue(&mut self, packets: &mut Packets, at: u64, change: i64) {
        if change != 0 {
            self.waiters = self.waiters.saturating_add_signed(change);
            let event = packets.event(Kind::Counter, at, self.queue_track);
            event.value(self.waiters).write();
        }
    }

    /// A lock has been acquired.
    #[inline]
    pub(super) fn acquired(&mut self, packets: &mut Packets, at: u64) {
        self.advance(packets, at);
        self.acquisitions += 1;
    }

    /// Writes the bins that have ended: the one begun, and that nothing came after it.
    #[inline]
    fn advance(&mut self, packets: &mut Packets, at: u64) {
        let bin = at / BIN_NS;
        if bin == self.bin {
            return;
        }
        self.write(packets, self.bin, self.acquisitions, BIN_NS);
        if bin > self.bin + 1 {
            self.write(packets, self.bin + 1, 0, BIN_NS);
        }
        self.bin = bin;
        self.acquisitions = 0;
    }

    /// Ends the counters; the last bin is as long as it is.
    pub(super) fn finish(&mut self, packets: &mut Packets, end: u64) {
        self.advance(packets, end);
        let length = end - self.bin * BIN_NS;
        if length > 0 {
            self.write(packets, self.bin, self.acquisitions, length);
        }
    }

    /// A counter's value holds from its time to the next one's, so a bin is written at its begin.
    fn write(&self, packets: &mut Packets, bin: u64, acquisitions: u64, length: u64) {
        let rate = u128::from(acquisitions) * SECOND_NS / u128::from(length);
        let event = packets.event(Kind::Counter, bin * BIN_NS, self.throughput_track);
        event.value(u64::try_from(rate).unwrap_or(u64::MAX)).write();
    }
}
