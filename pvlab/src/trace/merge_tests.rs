use super::*;
use crate::trace::collect::Traced;
use abi::ring::Entry;
use abi::{ExitReason, SwitchKind};
use pvlock::TraceEvent;

/// A collector with a clock of 1 GHz whose trace began at tick 1,000,000 and ended a second later.
fn collector(offsets: &[u64]) -> Collector {
    let mut collector = Collector::new(16, []).unwrap();
    for i in 0..10u64 {
        collector
            .pairs
            .add((i * 1_000_000_000, 5_000_000_000 + i * 1_000_000_000));
    }
    collector.began = 1_000_000;
    collector.ended = 1_001_000_000;
    collector.vms = offsets
        .iter()
        .map(|&offset| Traced::without_switches(offset))
        .collect();
    collector
}

fn place(vm: u16, vcpu: u16) -> Place {
    Place { vm, vcpu }
}

fn event(delta: u32, step: TraceEvent) -> u64 {
    Entry::Event {
        delta,
        lock: 7,
        event: step,
    }
    .encode()
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

fn merge(mut collector: Collector) -> (Vec<Event>, Merged) {
    let mut events = Vec::new();
    let merged = collector
        .merge(|event| {
            events.push(*event);
            Ok::<_, CollectError>(())
        })
        .unwrap();
    (events, merged)
}

#[test]
fn sources_and_vms_with_clocks_of_their_own_come_out_in_order() {
    let mut collector = collector(&[0, 1 << 40]);
    let spool = &mut collector.spool;
    // VM 1's clock is ahead; times in records are multiples of 64.
    let start = Entry::Time(1_000_000 & !63).encode();
    let residue = 1_000_000 & 63;
    spool
        .append_words(
            Source::Guest,
            place(0, 0),
            &[
                start,
                event(residue + 100, TraceEvent::Start),
                event(300, TraceEvent::Release),
            ],
        )
        .unwrap();
    let ahead = Entry::Time((1 << 40) + 1_000_000 - u64::from(residue)).encode();
    spool
        .append_words(
            Source::Guest,
            place(1, 2),
            &[ahead, event(residue + 250, TraceEvent::Head)],
        )
        .unwrap();
    spool
        .append_words(
            Source::Host,
            place(0, 0),
            &note(1_000_200, HostStep::Exit(ExitReason::Halt)),
        )
        .unwrap();
    spool
        .append_words(
            Source::Switches,
            place(0, 0),
            &[
                switch(raw(150), 1, SwitchKind::OutPreempted),
                switch(raw(350), 0, SwitchKind::In),
            ]
            .concat(),
        )
        .unwrap();
    let (events, merged) = merge(collector);
    let seen: Vec<_> = events.iter().map(|e| (e.at, e.place, e.what)).collect();
    assert_eq!(
        seen,
        [
            (
                100,
                place(0, 0),
                What::Lock {
                    lock: 7,
                    step: TraceEvent::Start
                }
            ),
            (
                150,
                place(0, 0),
                What::Switch {
                    cpu: 1,
                    kind: SwitchKind::OutPreempted
                }
            ),
            (
                200,
                place(0, 0),
                What::Host(HostStep::Exit(ExitReason::Halt))
            ),
            (
                250,
                place(1, 2),
                What::Lock {
                    lock: 7,
                    step: TraceEvent::Head
                }
            ),
            (
                350,
                place(0, 0),
                What::Switch {
                    cpu: 0,
                    kind: SwitchKind::In
                }
            ),
            (
                400,
                place(0, 0),
                What::Lock {
                    lock: 7,
                    step: TraceEvent::Release
                }
            ),
        ]
    );
    assert_eq!(
        (merged.events, merged.late, merged.end_ns),
        (6, 0, 1_000_000_000)
    );
}

#[test]
fn the_state_before_the_trace_is_its_first_event() {
    let mut collector = collector(&[0]);
    let spool = &mut collector.spool;
    let switches = [
        switch(raw(0) - 900, 0, SwitchKind::In),
        switch(raw(0) - 50, 0, SwitchKind::OutPreempted),
        switch(raw(70), 0, SwitchKind::In),
        switch(raw(2_000_000_000), 0, SwitchKind::Out),
    ]
    .concat();
    spool
        .append_words(Source::Switches, place(0, 0), &switches)
        .unwrap();
    // Blocked before, and for the whole trace.
    spool
        .append_words(Source::Host, place(0, 1), &note(999_000, HostStep::Blocked))
        .unwrap();
    let (events, _) = merge(collector);
    let seen: Vec<_> = events
        .iter()
        .map(|e| (e.at, e.place.vcpu, e.what))
        .collect();
    assert_eq!(
        seen,
        [
            (
                0,
                0,
                What::Switch {
                    cpu: 0,
                    kind: SwitchKind::OutPreempted
                }
            ),
            (0, 1, What::Host(HostStep::Blocked)),
            (
                70,
                0,
                What::Switch {
                    cpu: 0,
                    kind: SwitchKind::In
                }
            ),
        ]
    );
}

#[test]
fn a_record_published_late_still_finds_its_place() {
    let mut collector = collector(&[0]);
    let spool = &mut collector.spool;
    let host = |ticks: u64| note(1_000_000 + ticks, HostStep::Enter);
    let cut = |spool: &mut crate::trace::spool::Spool, ticks: u64| {
        spool
            .append_words(Source::Cut, place(0, 0), &[1_000_000 + ticks])
            .unwrap();
    };
    spool
        .append_words(Source::Host, place(0, 0), &host(40_000_000))
        .unwrap();
    cut(spool, 50_000_000);
    spool
        .append_words(Source::Host, place(0, 0), &host(70_000_000))
        .unwrap();
    cut(spool, 71_000_000);
    // 50 ms late: in time. The next, 200 ms late, is moved.
    spool
        .append_words(Source::Host, place(0, 1), &host(20_000_000))
        .unwrap();
    cut(spool, 180_000_000);
    spool
        .append_words(Source::Host, place(0, 2), &host(1_000_000))
        .unwrap();
    let (events, merged) = merge(collector);
    let seen: Vec<_> = events
        .iter()
        .map(|e| (e.at / 1_000_000, e.place.vcpu))
        .collect();
    assert_eq!(seen, [(20, 1), (40, 0), (70, 0), (70, 2)]);
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
    collector
        .spool
        .append_words(Source::Guest, place(0, 0), &words)
        .unwrap();
    let (events, merged) = merge(collector);
    assert_eq!(events.len(), 3);
    assert_eq!(events[1].what, What::Gap { dropped: 17 });
    assert_eq!(merged.malformed, 1);
}
