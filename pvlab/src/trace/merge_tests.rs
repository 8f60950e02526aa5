use super::*;
use crate::trace::collect::Traced;
use abi::ring::Entry;
use abi::{ExitReason, SwitchKind};
use pvlock::TraceEvent;

/// A collector with a clock of 1 GHz whose trace began at tick 1,000,000 and ended a second later.
fn collector(offsets: &[u64]) -> Collector {
    let mut collector = Collector::new(16, []).unwrap();
    let seconds = (0..10).map(|s| s * 1_000_000_000);
    seconds.for_each(|ns| collector.pairs.add((ns, 5_000_000_000 + ns)));
    collector.began = 1_000_000;
    collector.ended = 1_001_000_000;
    let vms = offsets.iter().copied();
    collector.vms = vms.map(Traced::without_switches).collect();
    collector
}

fn event(delta: u32, step: TraceEvent) -> u64 {
    let (lock, event) = (7, step);
    Entry::Event { delta, lock, event }.encode()
}

fn note(ticks: u64, step: HostStep) -> [u64; 3] {
    let [kind, detail] = step.words();
    [ticks, kind, detail]
}

fn switch(at_ns: u64, cpu: u32, kind: SwitchKind) -> [u64; 3] {
    Switch { at_ns, cpu, kind }.words()
}

/// Raw time of a time in the trace.
fn raw(ns: u64) -> u64 {
    5_001_000_000 + ns
}

impl Collector {
    fn spool(&mut self, source: Source, (vm, vcpu): (u16, u16), words: &[u64]) {
        let place = Place { vm, vcpu };
        self.spool.append_words(source, place, words).unwrap();
    }
}

/// What an event of the merged trace says: when, whose, and what.
type Said = (u64, (u16, u16), What);

fn step(step: TraceEvent) -> What {
    What::Lock { lock: 7, step }
}

fn switched(cpu: u16, kind: SwitchKind) -> What {
    What::Switch { cpu, kind }
}

fn merge(mut collector: Collector) -> (Vec<Said>, Merged) {
    let mut events = Vec::new();
    let merged = collector.merge(|event| {
        let Place { vm, vcpu } = event.place;
        events.push((event.at, (vm, vcpu), event.what));
        Ok::<_, CollectError>(())
    });
    (events, merged.unwrap())
}

#[test]
fn sources_and_vms_with_clocks_of_their_own_come_out_in_order() {
    let mut collector = collector(&[0, 1 << 40]);
    // VM 1's clock is ahead; times in records are multiples of 64.
    let start = Entry::Time(1_000_000 & !63).encode();
    let residue = 1_000_000 & 63;
    let start = [start, event(residue + 100, TraceEvent::Start)];
    let release = event(300, TraceEvent::Release);
    collector.spool(Source::Guest, (0, 0), &[&start[..], &[release]].concat());
    let ahead = Entry::Time((1 << 40) + 1_000_000 - u64::from(residue)).encode();
    let head = event(residue + 250, TraceEvent::Head);
    collector.spool(Source::Guest, (1, 2), &[ahead, head]);
    let halt = note(1_000_200, HostStep::Exit(ExitReason::Halt));
    collector.spool(Source::Host, (0, 0), &halt);
    let out = switch(raw(150), 1, SwitchKind::OutPreempted);
    let switches = [out, switch(raw(350), 0, SwitchKind::In)];
    collector.spool(Source::Switches, (0, 0), &switches.concat());
    let (events, merged) = merge(collector);
    let said = [
        (100, (0, 0), step(TraceEvent::Start)),
        (150, (0, 0), switched(1, SwitchKind::OutPreempted)),
        (200, (0, 0), What::Host(HostStep::Exit(ExitReason::Halt))),
        (250, (1, 2), step(TraceEvent::Head)),
        (350, (0, 0), switched(0, SwitchKind::In)),
        (400, (0, 0), step(TraceEvent::Release)),
    ];
    assert_eq!(events, said);
    assert_eq!(merged.events, 6);
    assert_eq!(merged.late, 0);
    assert_eq!(merged.end_ns, 1_000_000_000);
}

#[test]
fn the_state_before_the_trace_is_its_first_event() {
    let mut collector = collector(&[0]);
    let switches = [
        switch(raw(0) - 900, 0, SwitchKind::In),
        switch(raw(0) - 50, 0, SwitchKind::OutPreempted),
        switch(raw(70), 0, SwitchKind::In),
        switch(raw(2_000_000_000), 0, SwitchKind::Out),
    ]
    .concat();
    collector.spool(Source::Switches, (0, 0), &switches);
    // Blocked before, and for the whole trace.
    collector.spool(Source::Host, (0, 1), &note(999_000, HostStep::Blocked));
    let (events, _) = merge(collector);
    let said = [
        (0, (0, 0), switched(0, SwitchKind::OutPreempted)),
        (0, (0, 1), What::Host(HostStep::Blocked)),
        (70, (0, 0), switched(0, SwitchKind::In)),
    ];
    assert_eq!(events, said);
}

#[test]
fn a_record_published_late_still_finds_its_place() {
    let mut collector = collector(&[0]);
    let host = |ticks: u64| note(1_000_000 + ticks, HostStep::Enter);
    let cut = |collector: &mut Collector, ticks: u64| {
        collector.spool(Source::Cut, (0, 0), &[1_000_000 + ticks]);
    };
    collector.spool(Source::Host, (0, 0), &host(40_000_000));
    cut(&mut collector, 50_000_000);
    collector.spool(Source::Host, (0, 0), &host(70_000_000));
    cut(&mut collector, 71_000_000);
    // 50 ms late: in time. The next, 200 ms late, is moved.
    collector.spool(Source::Host, (0, 1), &host(20_000_000));
    cut(&mut collector, 180_000_000);
    collector.spool(Source::Host, (0, 2), &host(1_000_000));
    let (events, merged) = merge(collector);
    let seen = |&(at, (_, vcpu), _): &Said| (at / 1_000_000, vcpu);
    let seen = events.iter().map(seen);
    assert!(seen.eq([(20, 1), (40, 0), (70, 0), (70, 2)]), "{events:?}");
    assert_eq!(merged.late, 1);
}

#[test]
fn gaps_and_words_that_are_no_records_are_counted() {
    let mut collector = collector(&[0]);
    let words = [
        Entry::Time(1_000_064).encode(),
        event(0, TraceEvent::Start),
        Entry::Gap(17).encode(),
        40 << 58,
        event(10, TraceEvent::Release),
    ];
    collector.spool(Source::Guest, (0, 0), &words);
    let (events, merged) = merge(collector);
    assert_eq!(events.len(), 3);
    assert_eq!(events[1].2, What::Gap { dropped: 17 });
    assert_eq!(merged.malformed, 1);
}
