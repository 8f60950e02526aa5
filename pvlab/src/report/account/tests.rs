//! Reports of accounts made up.

use super::*;
use crate::figures::fixture;
use crate::report::fixture::undocumented;
use crate::trace::account::{Accountant, Setup, VmSetup};
use crate::trace::{Event, Place, What};
use abi::SwitchKind;
use pvlock::trace::How;
use pvlock::{LockKind, TraceEvent as Step};

/// vCPU 3 is away for 11.9 ms with lock 0, for which vCPUs 0, 1, 4 to 7 wait, until vCPU 0 gets it after
/// a kick; lock 1 is free when its next waiter is away.
fn stalled() -> Account {
    let mut events = Vec::new();
    let mut at = |us: u64, vcpu: u16, what: What| {
        let place = Place { vm: 0, vcpu };
        let at = 1_234_567_000 + us * 1_000;
        events.push(Event { at, place, what });
    };
    let step = |lock: u16, step: Step| What::Lock { lock, step };
    let [on, off] =
        [SwitchKind::In, SwitchKind::OutPreempted].map(|kind| What::Switch { cpu: 0, kind });
    (0..8).for_each(|vcpu| at(0, vcpu, on));
    let fast = [Step::Start, Step::Acquired(How::Fast)];
    let head = [Step::QueuedBehind(None), Step::Head];
    fast.into_iter().for_each(|is| at(0, 3, step(0, is)));
    for vcpu in [0, 1, 4, 5, 6, 7] {
        at(0, vcpu, step(0, Step::Start));
    }
    head.into_iter().for_each(|is| at(0, 0, step(0, is)));
    at(0, 0, step(0, Step::HaltHead));
    at(0, 3, off);
    at(11_900, 3, on);
    at(11_900, 3, step(0, Step::Release));
    at(11_900, 3, step(0, Step::Kick(0)));
    at(11_930, 0, step(0, Step::Woken));
    at(11_931, 0, step(0, Step::Acquired(How::Queue)));

    fast.into_iter().for_each(|is| at(12_000, 2, step(1, is)));
    at(12_000, 3, step(1, Step::Start));
    head.into_iter().for_each(|is| at(12_000, 3, step(1, is)));
    at(12_000, 2, step(1, Step::Release));
    at(12_000, 3, off);
    at(12_050, 2, step(1, Step::Start));
    at(12_050, 2, step(1, Step::QueuedBehind(Some(3))));
    at(13_000, 3, on);
    let mut accountant = accountant(LockKind::PvQSpinLock, 8, 2);
    events.iter().for_each(|event| accountant.event(event));
    accountant.finish(1_234_567_000 + 13_000_000)
}

fn accountant(lock: LockKind, vcpus: usize, locks: usize) -> Accountant {
    let (lock, simulated) = (lock.into(), false);
    let vms = vec![VmSetup { lock, vcpus, locks }];
    Accountant::new(&Setup { vms, simulated })
}

fn empty() -> Account {
    accountant(LockKind::Tas, 1, 1).finish(0)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn stalls_are_told_in_a_sentence() {
    let account = stalled();
    let stalls = account.vms[0].total.stalls.iter();
    let stories: Vec<_> = stalls.map(stories::story).collect();
    let told = [
        "at 1.234567 s vCPU 3 held lock 0 and was off its CPU for 11.9 ms; vCPUs 0-1, 4-7 waited, \
         71.4 ms in all",
        "at 1.246617 s lock 1 was free, but vCPU 3, next in line, was off its CPU for 1.00 ms, \
         950 us of it missed by others; vCPU 2 waited, 950 us in all",
        "at 1.246467 s lock 0 was free, but vCPU 0, next in line, was up only 30.0 us after its \
         kick; vCPUs 1, 4-7 waited, 150 us in all",
    ];
    assert_eq!(stories, told);
}

#[test]
fn long_lists_of_waiters_are_cut() {
    let mut episode = stalled().vms[0].total.stalls[0].clone();
    episode.waiters = 40;
    assert!(stories::story(&episode).contains("vCPUs 0-1, 4-7 and 34 more waited"));
    (episode.waiters, episode.who) = (0, Vec::new());
    assert!(stories::story(&episode).contains("; nobody else waited"));
}

#[test]
fn text_is_readable_has_units_and_fits_a_mail() {
    let text = account(&stalled(), Format::Table);
    for part in [
        "VM 0: pv-qspinlock, 8 vCPUs\n3 acquisitions in 13.0 ms, 33.3 % of them waited",
        "holder preempted (LHP)",
        "71.400",
        "1.234567 s",
        "halts: 1 (0 queued, 1 as next); futile: 0 (0.0 %); kicks: 1",
        "1 times; p50 30.0 us, p99 30.0 us, longest 30.0 us",
        "worst stalls (3), by what others waited in all:",
        " 1. at 1.234567 s vCPU 3 held lock 0",
        "waits had not ended",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.is_ascii());
    for line in text.lines() {
        assert!(line.len() <= 100, "{} columns: {line}", line.len());
    }
}

#[test]
fn an_empty_account_can_be_shown_in_every_format() {
    for format in [Format::Table, Format::Json, Format::Csv, Format::Markdown] {
        let text = account(&empty(), format);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    assert!(account(&empty(), Format::Table).contains("0 contended acquisitions"));
}

#[test]
fn what_makes_an_account_doubtful_is_said() {
    let mut doubtful = empty();
    doubtful.foreign_events = 3;
    let total = &mut doubtful.vms[0].total;
    (total.sum_violations, total.worst_violation_ns) = (2, 5_000);
    (total.dropped, total.overlaps, total.incomplete) = (7, 1, 4);
    let text = account(&doubtful, Format::Table);
    for part in [
        "WRONG: the parts of 2 acquisitions do not add up to their wait, by up to 5.00 us",
        "warning: no switches were seen of 1 vCPU",
        "7 acquisitions were lost with dropped events",
        "4 acquisitions were seen only in part",
        "warning: 3 events name a VM",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn json_is_exact() {
    let json = json(&account(&stalled(), Format::Json));
    assert_eq!(json["schema"], "pvlab.account/1");
    assert_eq!(json["span_ns"], 13_000_000);
    let total = &json["vms"][0]["total"];
    assert_eq!(total["number"], Value::Null);
    assert_eq!(total["parts_ns"]["holder_preempted"], 71_400_000);
    let mean_ns = &total["per_acquisition_ns"]["holder_preempted"];
    assert_eq!(*mean_ns, 23_800_000.0);
    assert_eq!(total["lhp"]["count"], 1);
    assert_eq!(total["lhp"]["longest"][0]["at_ns"], 1_234_567_000);
    assert_eq!(total["stalls"][0]["kind"], "lhp");
    assert_eq!(total["stalls"][0]["who"][2], 4);
    assert_eq!(total["kick_to_run_ns"]["p99"], 30_000);
    assert_eq!(json["vms"][0]["locks"][1]["number"], 1);
    let shares = total["share"].as_object().unwrap();
    let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
}

#[test]
fn csv_has_a_row_for_each_lock_and_one_for_all() {
    let text = account(&stalled(), Format::Csv);
    let cells = |line: &str| line.split(',').count();
    let mut lines = text.lines();
    let header = cells(lines.next().unwrap());
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| cells(row) == header), "{text}");
    assert!(rows[2].starts_with("0,pv-qspinlock,all,3,1,0,"), "{text}");
    assert!(rows[2].contains(",71400000,"));
}

#[test]
fn markdown_has_tables_and_the_stories_whole() {
    let text = account(&stalled(), Format::Markdown);
    let row = |line: &str| line.starts_with("| holder preempted");
    let story = |line: &str| line.starts_with("* at 1.234567 s") && line.ends_with("in all");
    assert!(text.lines().any(row) && text.lines().any(story), "{text}");
}

#[test]
fn locks_are_compared_by_their_shares() {
    let run = |lock, account| Record {
        account: Some(account),
        ..fixture::record(lock, 0)
    };
    let runs = [
        run(LockKind::PvAsym, stalled()),
        run(LockKind::Tas, empty()),
    ];
    let blocks = [Block::Table(side_by_side(&runs)), Block::Lines(legend())];
    let text = render(&blocks, Format::Table);
    for line in text.lines() {
        assert!(line.len() <= 100, "{} columns: {line}", line.len());
    }
    let row = text.lines().find(|line| line.contains("asym")).unwrap();
    let known = ["26.3 ms", "90.5", "76.9"];
    assert!(known.iter().all(|part| row.contains(part)), "{text}");
    let mut lines = text.lines();
    assert!(lines.any(|line| line.contains("tas") && line.contains(" - ")));
}

#[test]
fn every_field_is_documented() {
    let documentation = include_str!("../../../../docs/account.md");
    let json = json(&account(&stalled(), Format::Json));
    let lacking = undocumented(&json, documentation, &[]);
    assert!(lacking.is_empty(), "{lacking:?} are not in docs/account.md");
}
