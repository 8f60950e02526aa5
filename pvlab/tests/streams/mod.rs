//! Streams of events to write and read: a story told by hand, and random ones.

#![allow(dead_code, reason = "no test uses all of it")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "for tests"
)]

use abi::{ExitReason, HostStep, SwitchKind};
use pvlab::trace::header::{ClockFit, End, Header, VmHeader};
use pvlab::trace::read::{ReadError, Summary, read};
use pvlab::trace::sink::{Format, WriteError, create};
use pvlab::trace::{Event, Place, What};
use pvlock::TraceEvent;
use pvlock::trace::How;
use std::path::{Path, PathBuf};

#[path = "../../../pvlock/tests/support/rng.rs"]
mod rng;

/// Both kinds of files, and names for them.
pub(crate) const FORMATS: [(Format, &str); 2] =
    [(Format::Perfetto, "pftrace"), (Format::JsonLines, "jsonl")];

/// A file that goes away with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let file = format!("pvlab-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    pub(crate) fn write(name: &str, bytes: &[u8]) -> Self {
        let scratch = Self::new(name);
        std::fs::write(&scratch.0, bytes).unwrap();
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two VMs with three and two vCPUs.
pub(crate) fn header() -> Header {
    Header {
        scenario: serde_json::json!({"cpus": [0, 1], "seed": 7}),
        machine: "a test".to_owned(),
        simulated: false,
        switches: true,
        vms: vec![
            VmHeader {
                lock: "pv-qspinlock".to_owned(),
                locks: 2,
                vcpus: vec![Some(0), Some(1), Some(0)],
            },
            VmHeader {
                lock: "ticket".to_owned(),
                locks: 1,
                vcpus: vec![None, None],
            },
        ],
        clock: ClockFit {
            khz: 2_400_000,
            tsc_start: 123_456_789_012,
            monotonic_raw_start_ns: 98_765_432_100,
            residual_ns: 17,
        },
        notes: vec!["a note, \"quoted\"".to_owned()],
    }
}

pub(crate) fn end(end_ns: u64) -> End {
    End {
        end_ns,
        lost_switches: 3,
        residual_ns: Some(21),
        notes: vec!["done".to_owned()],
        ..End::default()
    }
}

pub(crate) fn event(at: u64, vm: u16, vcpu: u16, what: What) -> Event {
    let place = Place { vm, vcpu };
    Event { at, place, what }
}

fn step(at: u64, vcpu: u16, lock: u16, step: TraceEvent) -> Event {
    event(at, 0, vcpu, What::Lock { lock, step })
}

fn switch(at: u64, vcpu: u16, cpu: u16, kind: SwitchKind) -> Event {
    event(at, 0, vcpu, What::Switch { cpu, kind })
}

/// vCPU 0 holds lock 0 and is preempted; vCPU 1 queues behind it and halts; vCPU 0 comes back, takes
/// lock 1 too, releases both in the wrong order, and kicks vCPU 1, which acquires. vCPU 2, seen first
/// as it is preempted, held lock 1 from the beginning. VM 1 has the ticket lock.
pub(crate) fn story() -> Vec<Event> {
    use TraceEvent::*;
    vec![
        step(100, 2, 1, Release),
        step(1_000, 0, 0, Start),
        step(1_020, 0, 0, Acquired(How::Fast)),
        switch(1_100, 2, 0, SwitchKind::OutPreempted),
        switch(1_150, 0, 0, SwitchKind::In),
        step(1_200, 1, 0, Start),
        step(1_210, 1, 0, QueuedBehind(None)),
        step(1_220, 1, 0, Head),
        switch(1_300, 0, 0, SwitchKind::OutPreempted),
        step(2_000, 1, 0, HaltHead),
        event(2_010, 0, 1, What::Host(HostStep::Exit(ExitReason::Halt))),
        event(2_020, 0, 1, What::Host(HostStep::Blocked)),
        switch(2_030, 1, 1, SwitchKind::Out),
        switch(5_000, 0, 0, SwitchKind::In),
        step(5_010, 0, 1, Start),
        step(5_020, 0, 1, Acquired(How::Fast)),
        step(5_030, 0, 0, Release),
        step(5_040, 0, 0, Kick(1)),
        step(5_050, 0, 1, Release),
        switch(5_500, 1, 1, SwitchKind::In),
        event(5_510, 0, 1, What::Host(HostStep::Unblocked)),
        event(5_520, 0, 1, What::Host(HostStep::Enter)),
        step(5_530, 1, 0, Woken),
        step(5_540, 1, 0, Acquired(How::Queue)),
        event(
            6_000,
            1,
            0,
            What::Lock {
                lock: 0,
                step: Start,
            },
        ),
        event(
            6_010,
            1,
            0,
            What::Lock {
                lock: 0,
                step: QueuedWithTicket(65_535),
            },
        ),
        event(
            6_020,
            1,
            0,
            What::Lock {
                lock: 0,
                step: Yield(1),
            },
        ),
        event(6_030, 1, 0, What::Host(HostStep::Injected(5_000_000))),
        event(6_040, 1, 0, What::Gap { dropped: 12 }),
        event(
            6_050,
            1,
            0,
            What::Lock {
                lock: 0,
                step: Release,
            },
        ),
        step(30_000_000, 1, 0, Release),
    ]
}

/// Repeatable random numbers.
pub(crate) struct Random(rng::Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(rng::Rng(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Changes some of these bytes, up to `most` times, in the first `ways` ways.
    pub(crate) fn change(&mut self, bytes: &mut Vec<u8>, most: u64, ways: u64) {
        for _ in 0..=self.below(most) {
            let place = self.below(bytes.len() as u64) as usize;
            match self.below(ways) {
                0 => bytes[place] = self.next() as u8,
                1 => bytes[place] ^= 1 << self.below(8),
                2 => drop(bytes.remove(place)),
                3 => bytes.insert(place, self.next() as u8),
                // A varint that goes on and on.
                _ => drop(bytes.splice(place..place, [0xff; 9])),
            }
        }
    }

    fn small<T: TryFrom<u64>>(&mut self, n: u64) -> T {
        T::try_from(self.below(n)).ok().unwrap()
    }

    /// Numbers of all sizes.
    fn sized(&mut self) -> u64 {
        let bits = self.below(64);
        self.next() >> bits
    }
}

/// Events in any order that no lock would make: writers have to bear it, and to keep it.
pub(crate) fn nonsense(seed: u64, count: usize) -> Vec<Event> {
    let mut random = Random::new(seed);
    let mut at = 0;
    (0..count)
        .map(|_| {
            at += match random.below(4) {
                0 => 0,
                1 => random.below(10),
                2 => random.below(100_000),
                _ => random.below(20_000_000),
            };
            let vm: u16 = random.small(2);
            let vcpu = random.small(if vm == 0 { 3 } else { 2 });
            let (vcpus, locks) = if vm == 0 { (3, 2) } else { (2, 1) };
            event(at, vm, vcpu, anything(&mut random, vcpus, locks))
        })
        .collect()
}

fn anything(random: &mut Random, vcpus: u64, locks: u64) -> What {
    use TraceEvent::*;
    let step = match random.below(22) {
        0 | 1 => Start,
        2 => QueuedBehind(None),
        3 => QueuedBehind(Some(random.small(vcpus))),
        4 => QueuedWithTicket(random.sized() as u16),
        5 | 6 => Head,
        7 => HaltQueued,
        8 => HaltHead,
        9 => Woken,
        10 => Spurious,
        11 | 12 => Acquired(How::ALL[random.small::<usize>(4)]),
        13 | 14 => Release,
        15 => Kick(random.small(vcpus)),
        16 => Yield(random.small(vcpus)),
        17 => {
            return What::Switch {
                cpu: random.small(3),
                kind: SwitchKind::In,
            };
        }
        18 => {
            let (cpu, preempted) = (random.small(3), random.below(2) == 0);
            let kind = SwitchKind::out(preempted);
            return What::Switch { cpu, kind };
        }
        19 => {
            return What::Host(
                [HostStep::Enter, HostStep::Blocked, HostStep::Unblocked][random.small::<usize>(3)],
            );
        }
        20 => return What::Host(HostStep::Exit(ExitReason::ALL[random.small::<usize>(7)])),
        _ if random.below(4) > 0 => return What::Host(HostStep::Injected(random.sized())),
        _ => {
            let dropped = random.sized() >> 8;
            return What::Gap { dropped };
        }
    };
    What::Lock {
        lock: random.small(locks),
        step,
    }
}

/// Acquisitions of one lock by vCPUs of VM 0 in turn, as pv-qspinlock makes them: each waits behind
/// the one before, half of them halt, and are kicked.
pub(crate) fn orderly(acquisitions: u64) -> impl Iterator<Item = Event> {
    use TraceEvent::*;
    (0..acquisitions).flat_map(|i| {
        let (vcpu, other) = ((i % 3) as u16, ((i + 1) % 3) as u16);
        let at = 10_000 + i * 1_000;
        let halts = i % 2 == 0;
        let halt = halts.then_some([step(at + 210, other, 0, HaltHead)]);
        let kick = halts.then_some([
            step(at + 510, vcpu, 0, Kick(other.into())),
            step(at + 900, other, 0, Woken),
        ]);
        let first = (i == 0).then_some([
            step(9_000, 0, 0, Start),
            step(9_100, 0, 0, Acquired(How::Fast)),
        ]);
        let before = [
            step(at + 10, other, 0, Start),
            step(at + 100, other, 0, QueuedBehind(None)),
            step(at + 200, other, 0, Head),
        ];
        first
            .into_iter()
            .flatten()
            .chain(before)
            .chain(halt.into_iter().flatten())
            .chain([step(at + 500, vcpu, 0, Release)])
            .chain(kick.into_iter().flatten())
            .chain([step(at + 910, other, 0, Acquired(How::Queue))])
    })
}

/// Writes all events and the end.
pub(crate) fn write(
    path: &Path,
    format: Format,
    events: &[Event],
    end: End,
) -> Result<End, WriteError> {
    let mut sink = create(path, format, &header())?;
    for event in events {
        sink.event(event)?;
    }
    sink.finish(end)
}

/// Reads all events.
pub(crate) fn read_all(path: &Path) -> (Vec<Event>, Result<Summary, ReadError>) {
    let mut events = Vec::new();
    let summary = read(path, |_, event| events.push(*event));
    (events, summary)
}
